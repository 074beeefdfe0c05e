"""Loss and accuracy at the end of training against workers: whether more workers cost accuracy."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, hued
from dlbench.report.figures._rows import learned, synthetic_note
from dlbench.report.figures._scaling import WORKERS
from dlbench.report.figures._shown import in_chart, left_out_note, needs_two, select_panels
from dlbench.report.lines import Part, parts, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 55
# Accuracies before losses and validation first, two in a row: that is what the question is about.
SHOWN = {
    "validation_accuracy": Axis("validation accuracy"),
    "train_accuracy": Axis("training accuracy"),
    "validation_loss": Axis("validation loss (nats)"),
    "train_loss": Axis("training loss (nats)"),
}


def chart(data: "ReportData") -> Chart:
    """Return the last losses and accuracies of every run against workers, one line for each way of training.

    Raises:
        MissingRowsError: There are no two numbers of workers, or no loss and no accuracy that means something.
    """
    runs, completed = learned(data.runs), learned(data.completed)
    shown = [column for column in SHOWN if completed[column].notna().any()]
    if not shown:
        raise MissingRowsError("needs completed runs with a loss or an accuracy, on data that can be learned")
    candidates = [(part, list(_panels(part, shown))) for part in parts(runs, x="workers")]
    counts = sorted(completed["workers"].dropna().unique().tolist())
    found = select_panels(candidates, needs_two("completed runs with two or more numbers of workers", counts))
    return Chart(
        title="Loss and accuracy at the end of training by number of workers",
        panels=hued(found.panels),
        columns=min(2, len(shown)),
        notes=(
            *_notes(found.runs),
            *synthetic_note(data.runs),
            *left_out_note(found.left_out, "with one number of workers only"),
        ),
        runs=in_chart(found.runs, shown),
    )


def _panels(part: Part, shown: list[str]) -> Iterator[Panel]:
    for column in shown:
        yield Panel(part.title, WORKERS, SHOWN[column], series(part, "workers", column))


def _notes(runs: "pd.DataFrame") -> Iterator[str]:
    """Yield what else changes with the workers and may explain a difference."""
    yield "Training values are sums over the last epoch, taken while the weights still changed."
    if (runs["batch_scope"] == "per-worker").fillna(False).any():
        yield (
            "Where the batch counts the samples of one worker, the global batch grows with the workers: a difference "
            "may come from that batch and its learning rate, not from the workers."
        )
    if (runs["divide"] == "epochs").fillna(False).any():
        yield "Where epochs are divided, each worker passes over all samples, fewer times the more workers there are."
