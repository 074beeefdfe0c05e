"""Training time, throughput, loss and accuracy against batch size."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Panel, hued
from dlbench.report.figures._rows import OF_WHOM, SYNTHETIC, batch_axis, by_scope, numbers
from dlbench.report.figures._shown import (
    RATE,
    RATE_AXIS,
    in_chart,
    left_out_note,
    needs_two,
    num_places,
    rate_note,
)
from dlbench.report.lines import Part, has_several, parts, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 10
# Column, axis, title. Two in a row: cost, then training beside validation.
SHOWN = (
    ("train_time_s", Axis("training time (s)", low=0.0), "training time"),
    (RATE, RATE_AXIS, "throughput"),
    ("train_loss", Axis("training loss (nats)"), "training loss"),
    ("validation_loss", Axis("validation loss (nats)"), "validation loss"),
    ("train_accuracy", Axis("training accuracy"), "training accuracy"),
    ("validation_accuracy", Axis("validation accuracy"), "validation accuracy"),
)
SCORES = ("train_loss", "validation_loss", "train_accuracy", "validation_accuracy")
SCALES = {
    "none": "was the same at every batch size",
    "linear": "grew with the global batch",
    "sqrt": "grew with the square root of the global batch",
}


def chart(data: "ReportData") -> Chart:
    """Return what each batch size costs and brings, batches of one worker and of all workers in panels apart.

    Raises:
        MissingRowsError: There are no completed runs at two batch sizes that are equal in all else.
    """
    import pandas as pd

    found = [(part, list(_panels(part))) for part in _parts(_scored(data.runs))]
    kept = [(part, panels) for part, panels in found if any(num_places(panel) > 1 for panel in panels)]
    panels = tuple(panel for _, made in kept for panel in made if num_places(panel) > 1)
    if not any(map(has_several, panels)):
        sizes = sorted(data.completed["batch_size"].dropna().unique().tolist())
        raise needs_two("completed runs at two or more batch sizes", sizes)
    runs = pd.concat([part.runs for part, _ in kept])
    titles = [part.title for part, _ in found if not any(part is shown for shown, _ in kept)]
    return Chart(
        title="Time, throughput, loss and accuracy by batch size",
        panels=hued(panels),
        columns=2,
        notes=(*_notes(runs), *rate_note(runs), *left_out_note(titles, "with one batch size only")),
        runs=in_chart(runs, [column for column, _, _ in SHOWN]),
    )


def _scored(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs without the scores of those that trained on random numbers: their times count, these do not."""
    means_something = runs["input"].fillna("") != SYNTHETIC
    return runs.assign(**{column: numbers(runs, column).where(means_something) for column in SCORES})


def _parts(runs: "pd.DataFrame") -> Iterator[Part]:
    """Yield what may share a panel; a batch of one worker and one of all are different things, also in one study."""
    has_both = runs["batch_scope"].nunique(dropna=False) > 1
    for whose, rows in by_scope(runs):
        scope = f"batch{OF_WHOM.get(whose, ' of unknown scope')}" if has_both else ""
        for part in parts(rows, x="batch_size"):
            yield Part(", ".join(filter(None, (part.title, scope))), part.runs, part.keys)


def _panels(part: Part) -> Iterator[Panel]:
    for column, axis, title in SHOWN:
        if part.runs[column].notna().any():
            made = series(part, "batch_size", column)
            yield Panel(": ".join(filter(None, (part.title, title))), batch_axis(part.runs), axis, made)


def _notes(runs: "pd.DataFrame") -> Iterator[str]:
    """Say what else changes with the batch size: updates, and the learning rate, which is rarely tuned for each."""
    epochs = runs["epochs"].dropna().unique().tolist()
    if len(epochs) == 1:
        passes = f"{epochs[0]} epoch{'' if epochs[0] == 1 else 's'}"
        yield f"Every run was to train {passes}, in which a larger batch makes fewer updates."
    yield from _learning_rate(runs)
    if runs["target_stop"].fillna(False).any():
        yield "Some runs ended as soon as they reached their target."
    if (runs["input"] == SYNTHETIC).fillna(False).any():
        yield "Losses and accuracies on synthetic input mean nothing and are left out."
    yield "Training time leaves evaluations out; training values are of the last epoch, while weights still changed."


def _learning_rate(runs: "pd.DataFrame") -> Iterator[str]:
    bases = runs["learning_rate_base"].dropna().unique().tolist()
    scales = runs["learning_rate_scale"].dropna().unique().tolist()
    if len(bases) == len(scales) == 1 and scales[0] in SCALES:
        at = runs["learning_rate_base_batch"].dropna().unique().tolist() if scales[0] != "none" else []
        base = f"{bases[0]:g}" + (f" at a global batch of {at[0]}" if len(at) == 1 else "")
        yield f"The learning rate ({base}) {SCALES[scales[0]]}; it was not tuned for each."
