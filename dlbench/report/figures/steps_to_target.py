"""Updates to the target against the global batch: perfect scaling, the fit, and the critical batch size."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import counted
from dlbench.analysis.groups import groups
from dlbench.analysis.metrics.critical_batch import CriticalBatch, NotIdentifiableError, critical_batch
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._rows import numbers, synthetic_note
from dlbench.report.figures._shown import in_chart, left_out_note, needs_two, select_panels
from dlbench.report.figures._target import TARGET, end_notes, ended, target_name, with_ends, with_target
from dlbench.report.formatting import brief
from dlbench.report.lines import Part, censored_series, parts

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 80
X = "batch_size_global"
PLACE = Axis("global batch (samples)", "log2")
SHOWN = Axis("updates to target", "log10")


def chart(data: "ReportData") -> Chart:
    """Return updates to the target against the global batch, with the 1/B line and fits of S = S_min (1 + B_c / B).

    Raises:
        MissingRowsError: No run had a target, none of them completed, or there are no two global batches.
    """
    runs = _with_updates(with_ends(data.runs))
    targets = list(groups(runs, TARGET))
    only = target_name(targets[0][0]) if len(targets) == 1 else ""
    candidates = [
        (part, _panels("" if only else target_name(values), part))
        for values, rows in targets
        for part in parts(rows, x=X)
    ]
    found = select_panels(candidates, _lacking(runs))
    fitted = [_with_fits(_with_ideal(panel)) for panel in found.panels]
    return Chart(
        title=f"Updates to a {only} by global batch" if only else "Updates to the targets by global batch",
        panels=tuple(panel for panel, _ in fitted),
        columns=2 if len(fitted) > 1 else 1,
        notes=(
            "Dashed: perfect scaling, 1/B through the smallest batch.",
            *(note for _, notes in fitted for note in notes),
            *_tuning_note(found.runs),
            *end_notes(found.runs),
            *synthetic_note(with_target(data.runs)),
            *left_out_note(found.left_out, "with one global batch only"),
        ),
        runs=in_chart(found.runs, ["updates", ended("updates")]),
    )


def _with_updates(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs with their updates to the target: epochs to it x steps of an epoch; and without `batch_size`.

    That follows from the global batch and the workers, and would otherwise give every point a series of its own.
    """
    per_epoch = numbers(runs, "steps") / numbers(runs, "epochs_completed")
    reached, late = runs["epochs_to_target"] * per_epoch, runs[ended("epochs_to_target")] * per_epoch
    return runs.assign(**{"updates": reached, ended("updates"): late}).drop(columns="batch_size")


def _lacking(runs: "pd.DataFrame") -> MissingRowsError:
    known = runs[runs["updates"].notna() | runs[ended("updates")].notna()]
    batches = sorted(known[X].dropna().unique().tolist())
    return needs_two("completed runs with a target at two or more global batches", batches)


def _panels(title: str, part: Part) -> list[Panel]:
    name = ": ".join(filter(None, (title, part.title)))
    return [Panel(name, PLACE, SHOWN, censored_series(part, X, "updates", ended("updates")))]


def _with_ideal(panel: Panel) -> Panel:
    """Add 1/B through the median at the panel's smallest batch; of several series there, the first one's."""
    known = [(mark.x, mark.interval.value) for one in panel.series for mark in one.marks if mark.interval is not None]
    if not known:
        return panel
    x, steps = min(known, key=lambda place: place[0])
    places = sorted({mark.x for one in panel.series for mark in one.marks})
    marks = tuple(line_mark(place, steps * x / place) for place in places)
    return replace(panel, series=(*panel.series, Series("perfect scaling", marks, Role.IDEAL)))


def _with_fits(panel: Panel) -> tuple[Panel, list[str]]:
    """Add a fitted line to each series whose critical batch is identifiable, and a note on each series."""
    lines, notes = [], []
    for one in panel.series:
        if one.role is not Role.IDEAL:
            name = ", ".join(filter(None, (panel.title, one.label, one.emulated and "emulated")))
            try:
                found = _fit(one)
            except NotIdentifiableError as error:
                notes.append(f"Critical batch of {name}: not identifiable; {error}.")
            else:
                lines.append(_fitted_line(one, found))
                notes.append(_fit_note(name, found))
    return replace(panel, series=(*panel.series, *lines)), notes


def _fit(one: Series) -> CriticalBatch:
    """Fit a series without the batch sizes at which a run ended before the target: those that reached it had luck."""
    runs = [(mark.x, steps) for mark in one.marks if not mark.ended for steps in mark.points if steps > 0]
    return critical_batch([batch for batch, _ in runs], [steps for _, steps in runs])


def _fitted_line(one: Series, found: CriticalBatch) -> Series:
    marks = tuple(line_mark(mark.x, found.steps(mark.x)) for mark in one.marks)
    return Series(f"fit of {one.label}", marks, Role.FITTED, one.emulated, like=one.label)


def _fit_note(name: str, found: CriticalBatch) -> str:
    ends = ""
    if found.low is not None and found.high is not None:
        ends = f" [{brief(found.low)}, {brief(found.high) if math.isfinite(found.high) else 'beyond all batch sizes'}]"
    return (
        f"Critical batch of {name}: {brief(found.batch)}{ends} samples, S_min {brief(found.steps_min)} updates "
        f"(fit of S = S_min (1 + B_c / B) to {counted(found.n, 'run')}, residuals {found.rms:.1%})."
    )


def _tuning_note(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Say that one rule gave all learning rates, where it did."""
    rules = runs[["learning_rate_base", "learning_rate_base_batch", "learning_rate_scale"]].drop_duplicates()
    text = "One rule gave all learning rates, none was tuned for its batch size: part of the bend may be theirs."
    return (text,) if len(rules) == 1 else ()
