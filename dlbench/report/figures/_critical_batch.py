"""Updates to the target: perfect scaling, the fit of S = S_min (1 + B_c / B), and the critical batch size."""

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import counted, number, percent
from dlbench.analysis.metrics.critical_batch import CriticalBatch, NotIdentifiableError, critical_batch
from dlbench.report.chart import Axis, Panel, Role, Series, line_mark
from dlbench.report.figures._places import Placed
from dlbench.report.figures._rows import numbers
from dlbench.report.figures._target import ended, target_notes, with_ends

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

PLACE = ("batch_size_global", Axis("global batch (samples)", "log2"))


def rows_with_updates(data: "ReportData") -> "pd.DataFrame":
    """Return the runs with their updates to the target: epochs to it x steps of an epoch; and without `batch_size`.

    That follows from the global batch and the workers, and would otherwise give every point a series of its own.
    """
    runs = with_ends(data.runs)
    per_epoch = numbers(runs, "steps") / numbers(runs, "epochs_completed")
    reached, late = runs["epochs_to_target"] * per_epoch, runs[ended("epochs_to_target")] * per_epoch
    return runs.assign(**{"updates": reached, ended("updates"): late}).drop(columns="batch_size")


def perfect_scaling_and_fits(_: "ReportData", __: Placed, panel: Panel) -> tuple[list[Series], Iterable[str]]:
    """Return 1/B through the median at the panel's smallest batch, and a fit of each series that has one."""
    lines, notes = [], ["Dashed: perfect scaling, 1/B through the smallest batch."]
    known = [(mark.x, mark.interval.value) for one in panel.series for mark in one.marks if mark.interval is not None]
    if known:
        x, steps = min(known, key=lambda place: place[0])
        places = sorted({mark.x for one in panel.series for mark in one.marks})
        marks = tuple(line_mark(place, steps * x / place) for place in places)
        lines.append(Series("perfect scaling", marks, Role.IDEAL))
    for one in panel.series:
        name = ", ".join(filter(None, (panel.title, one.label, one.emulated and "emulated")))
        try:
            fit = _fit(one)
        except NotIdentifiableError as error:
            notes.append(f"Critical batch of {name}: not identifiable; {error}.")
            continue
        marks = tuple(line_mark(mark.x, fit.steps(mark.x)) for mark in one.marks)
        lines.append(Series(f"fit of {one.label}", marks, Role.FITTED, one.emulated, like=one.label))
        notes.append(_fit_note(name, fit))
    return lines, notes


def _fit(one: Series) -> CriticalBatch:
    """Fit a series without the batch sizes at which a run ended before the target: those that reached it had luck."""
    runs = [(mark.x, steps) for mark in one.marks if not mark.ended for steps in mark.points if steps > 0]
    return critical_batch([batch for batch, _ in runs], [steps for _, steps in runs])


def _fit_note(name: str, fit: CriticalBatch) -> str:
    ends = ""
    if fit.low is not None and fit.high is not None:
        ends = f" [{number(fit.low)}, {number(fit.high) if math.isfinite(fit.high) else 'beyond all batch sizes'}]"
    return (
        f"Critical batch of {name}: {number(fit.batch)}{ends} samples, S_min {number(fit.steps_min)} updates "
        f"(fit of S = S_min (1 + B_c / B) to {counted(fit.n, 'run')}, residuals {percent(fit.rms)})."
    )


def update_notes(data: "ReportData", runs: "pd.DataFrame") -> Iterator[str]:
    """Say that one rule gave all learning rates, where it did, and how runs that were late count."""
    rules = runs[["learning_rate_base", "learning_rate_base_batch", "learning_rate_scale"]].drop_duplicates()
    if len(rules) == 1:
        yield "One rule gave all learning rates, none was tuned for its batch size: part of the bend may be theirs."
    yield from target_notes(data, runs)
