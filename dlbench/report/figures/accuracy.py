"""Accuracy and loss at the end of training against batch size or workers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.figures._places import Placed, against, placed
from dlbench.report.figures._rows import labels, learned, synthetic_note
from dlbench.report.figures._shown import in_chart, left_out_note, needs_two, select_panels
from dlbench.report.lines import series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 40
# Validation first, two in a row: that is what the question is about.
SHOWN = {
    "validation_accuracy": Axis("validation accuracy", most=1.0),
    "validation_loss": Axis("validation loss (nats)"),
    "train_accuracy": Axis("training accuracy", most=1.0),
    "train_loss": Axis("training loss (nats)"),
}
SCALES = {
    "none": "was the same at every batch size",
    "linear": "grew with the global batch",
    "sqrt": "grew with the square root of the global batch",
}


def chart(data: "ReportData") -> Chart:
    """Return the last losses and accuracies of every run, one line for each way to train.

    Raises:
        MissingRowsError: There are no two arms of one task, or no loss and no accuracy that means something.
    """
    runs, completed = learned(data.runs), learned(data.completed)
    shown = [column for column in SHOWN if completed[column].notna().any()]
    if not shown:
        raise MissingRowsError("needs completed runs with a loss or an accuracy, on data that can be learned")
    candidates = [(one.part, list(_panels(one, shown))) for one in placed(runs)]
    arms = list(dict.fromkeys(labels(completed)))
    found = select_panels(candidates, needs_two("completed runs of two or more arms with a loss or accuracy", arms))
    return Chart(
        title=against("Accuracy and loss at the end of training", found.panels),
        panels=found.panels,
        columns=min(2, len(shown)),
        notes=(
            *_notes(found.runs),
            *synthetic_note(data.runs),
            *left_out_note(found.left_out, "without a second arm"),
        ),
        runs=in_chart(found.runs, shown),
    )


def _panels(one: Placed, shown: list[str]) -> Iterator[Panel]:
    for column in shown:
        yield Panel(one.part.title, one.axis, SHOWN[column], series(one.part, one.x, column))


def _notes(runs: "pd.DataFrame") -> Iterator[str]:
    """Yield what else changes with the batch size or the workers and may explain a difference."""
    yield "Training loss and accuracy are means over the last epoch, while the weights still change."
    epochs = runs["epochs"].dropna().unique().tolist()
    if runs["batch_size_global"].nunique() > 1 and len(epochs) == 1:
        passes = f"{epochs[0]} epoch{'' if epochs[0] == 1 else 's'}"
        yield f"Every run was to train {passes}, in which a larger global batch makes fewer updates."
    yield from _learning_rate(runs)
    if (runs["batch_scope"] == "per-worker").fillna(False).any() and runs["workers"].nunique() > 1:
        yield (
            "Where the batch counts the samples of one worker, the global batch grows with the workers: a difference "
            "may come from that batch and its learning rate, not from the workers."
        )
    if (runs["divide"] == "epochs").fillna(False).any():
        yield "Where epochs are divided, each worker passes over all samples, fewer times the more workers there are."
    if runs["target_stop"].fillna(False).any():
        yield "Some runs ended as soon as they reached their target."


def _learning_rate(runs: "pd.DataFrame") -> Iterator[str]:
    bases = runs["learning_rate_base"].dropna().unique().tolist()
    scales = runs["learning_rate_scale"].dropna().unique().tolist()
    if len(bases) == len(scales) == 1 and scales[0] in SCALES and runs["batch_size_global"].nunique() > 1:
        at = runs["learning_rate_base_batch"].dropna().unique().tolist() if scales[0] != "none" else []
        base = f"{bases[0]:g}" + (f" at a global batch of {at[0]}" if len(at) == 1 else "")
        yield f"The learning rate ({base}) {SCALES[scales[0]]}; it was not tuned for each."
