"""Updates to the target: perfect scaling, the fit of S = S_min (1 + B_c / B), and the critical batch size."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dlbench.analysis.answer.batches import refuse_coarse
from dlbench.analysis.arms import Arm, Row
from dlbench.analysis.formatting import Unit, counted, number, percent
from dlbench.analysis.metrics.critical_batch import NotIdentifiableError, critical_batch
from dlbench.analysis.statistics.intervals import Interval
from dlbench.report.chart import Axis, Panel, Role, Series, line_mark
from dlbench.report.figures._target import EPOCHS, with_ends
from dlbench.report.lines import Part, ended, named, parts


def with_updates(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms with their runs' updates to the target: epochs to it x steps of an epoch; without `batch_size`.

    That follows from the global batch and the workers, and would otherwise give every point its own series.
    """
    columns = {
        "updates": lambda row: _updates(row, EPOCHS),
        ended("updates"): lambda row: _updates(row, ended(EPOCHS)),
        "batch_size": lambda row: None,
    }
    return [arm.having(**columns) for arm in with_ends(arms)]


def _updates(row: Row, epochs: str) -> float | None:
    steps, in_all = row.get("steps"), row.get("epochs_completed")
    return row[epochs] * (steps / in_all) if row.get(epochs) is not None and steps is not None and in_all else None


def by_global_batch(arms: Sequence[Arm]) -> Iterator[tuple[Part, Axis]]:
    """Yield the parts that stand against the global batch."""
    for part in parts(arms, x="batch_size_global"):
        yield part, Axis("global batch (samples)", "log2")


def with_fits(part: Part, panel: Panel) -> tuple[Panel, Iterable[str]]:
    """Return a panel with 1/B through the median at its smallest batch, and a fit of each series that has one."""
    lines, notes = list(panel.series), ["Dashed: perfect scaling, 1/B through the smallest batch."]
    marks = [mark for series in panel.series for mark in series.marks]
    if medians := [(mark.x, mark.interval.value) for mark in marks if mark.interval is not None]:
        x, steps = min(medians, key=lambda place: place[0])
        ideal = (line_mark(place, steps * x / place) for place in sorted({mark.x for mark in marks}))
        lines.append(Series("perfect scaling", tuple(ideal), Role.IDEAL))
    arms_of = {label: arms for _, label, arms in named(part)}
    for series in panel.series:
        name = ", ".join(filter(None, (panel.title, series.label, series.emulated and "emulated")))
        # Not of batch sizes at which a run ended before the target: those that reached it there had luck.
        fitted = [mark for mark in series.marks if not mark.ended]
        runs = [(mark.x, steps) for mark in fitted for steps in mark.points if steps > 0]
        names = {name for mark in fitted for name in mark.runs}
        try:
            refuse_coarse(row for arm in arms_of[series.label] for row in arm.completed if row["run_id"] in names)
            fit = critical_batch([batch for batch, _ in runs], [steps for _, steps in runs])
        except NotIdentifiableError as error:
            notes.append(f"Critical batch of {name}: not identifiable; {error}.")
            continue
        curve = tuple(line_mark(mark.x, fit.steps(mark.x)) for mark in series.marks)
        lines.append(Series(f"fit of {series.label}", curve, Role.FITTED, series.emulated, like=series.label))
        batch = Unit(number).with_ends(Interval(fit.batch, fit.low, fit.high, fit.n, None))
        notes.append(
            f"Critical batch of {name}: {batch} samples, S_min {number(fit.steps_min)} updates "
            f"(fit of S = S_min (1 + B_c / B) to {counted(fit.n, 'run')}, residuals {percent(fit.rms)})."
        )
    return replace(panel, series=tuple(lines)), notes
