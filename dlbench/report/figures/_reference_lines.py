"""What figures compare arms with: ideals through single workers, 100 %, perfect scaling and the fit of S(B)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from statistics import median

from dlbench.analysis.answer.batches import BATCH, refuse_coarse
from dlbench.analysis.arms import (
    EFFICIENCY,
    Arm,
    Row,
    can_extend,
    emulation,
    flags_of,
    has_fixed_batch,
    quotient,
    updates_of,
    window_needed,
)
from dlbench.analysis.formatting import Unit, counted, joined, listed, number, percent
from dlbench.analysis.groups import ALONE, APART, by_emulation, described, groups, values_of
from dlbench.analysis.metrics.critical_batch import NotIdentifiableError, critical_batch
from dlbench.analysis.statistics.intervals import Interval
from dlbench.grouping import by_key
from dlbench.report.chart import Axis, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.data import run_of
from dlbench.report.figures._places import meanings
from dlbench.report.figures._shown import RATE, label, left_out_note, rate_note
from dlbench.report.figures._target import EPOCHS, target_notes, with_ends
from dlbench.report.lines import FLAGS, Part, ended, named, parts

WHOLE = "as fast as one worker alone"
# An update of a batch that is so near to the global one, as a share, is of all workers.
_NEAR = 0.05
IDEAL_IS = (
    "Ideal: the median of one worker x workers; of one worker alone, without any communication library, if measured."
)


def with_rates(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms with the flags of their rates.

    Raises:
        MissingRowsError: None has a rate.
    """
    if not any(arm.values(RATE) for arm in arms):
        rows = [row for arm in arms for row in arm.rows]
        can_step_on = any(map(can_extend, rows))
        remedy = "`extend_window: true` steps on until it is" if can_step_on else "train longer"
        raise MissingRowsError(
            f"needs completed runs with steady samples/s: a timed window of at least {window_needed(rows)} ({remedy})"
        )
    return [arm.having(**{FLAGS: flags_of}) for arm in arms]


def with_ideals(part: Part, panel: Panel) -> tuple[Panel, list[str]]:
    """Return a panel with what real runs of several workers could reach at best, then the same of emulated ones.

    That is a straight line on axes that are both logarithmic, for each study and device with base lines of its own.
    """
    if part.x != "workers":
        return panel, []
    lines: list[Series] = []
    apart = [key for key in APART if key in part.keys]
    rated = [arm for arm in part.arms if arm.values(RATE) and not arm.is_alone]
    places = [by_key((_where(arm, apart), arm) for arm in alike) for _, alike in by_emulation(rated)]
    for where, arms in chain.from_iterable(place.items() for place in places):
        base = {run_of(row): row for arm in arms for row in arm.base_line if row.get(RATE)}
        if alone := list(base.values()):
            lines.append(_line(f"ideal: {joined(ALONE, where)} x workers", alone, arms))
            continue
        # Else through each series' own single worker of a batch size, which has a communication library and no peer.
        held = "batch_size" if len({arm.get("batch_size_global") for arm in arms}) > 1 else "batch_size_global"
        for values, alike in groups(arms, (*part.keys, held)):
            of = f" of {text}" if (text := described({key: values[key] for key in part.keys})) else ""
            if single := [row for arm in alike if arm.workers == 1 for row in arm.completed if row.get(RATE)]:
                lines.append(_line(f"ideal: 1 worker{of} x workers", single, alike))
    lines = [line for line in lines if len(line.marks) > 1]
    notes = [*meanings(part.arms), *[IDEAL_IS] * bool(lines)]
    return replace(panel, y=replace(panel.y, scale="log10", low=None), series=(*panel.series, *lines)), notes


def _where(arm: Arm, keys: Iterable[str]) -> str:
    """Say where the single worker of an arm's ideal was measured, or without one the arm."""
    row = next((row for row in arm.base_line if row.get(RATE)), arm.first)
    return described({key: row.get(key) for key in keys})


def _line(name: str, single: Sequence[Row], arms: Iterable[Arm]) -> Series:
    """Return a straight line through the median of single workers, from one worker as far as the arms go."""
    rate = median(row[RATE] for row in single)
    marks = (line_mark(float(x), rate * x, len(single)) for x in sorted({1, *(arm.workers for arm in arms)}))
    return Series(name, tuple(marks), Role.IDEAL, emulation(row.get("emulated") for row in single))


def with_efficiencies(every: Sequence[Arm]) -> list[Arm]:
    """Return the arms of several workers, or of one that could communicate, with the efficiency of each run.

    Raises:
        MissingRowsError: No run has a rate, or no arm a base line that is its equal.
    """
    arms = [arm.having(**{EFFICIENCY: arm.efficiency_of}) for arm in with_rates(every) if not arm.is_alone]
    if not any(arm.efficiency for arm in arms):
        raise MissingRowsError(
            "needs completed runs with steady samples/s of one worker alone (`strategy: single` or `baseline: auto`) "
            "that are equal to other arms in model, data, batch size, cores and precision, and as real or emulated"
        )
    return arms


def with_whole(part: Part, panel: Panel) -> tuple[Panel, Iterable[str]]:
    """Return a panel with the line at 100 %."""
    line = Series(WHOLE, tuple(line_mark(x, 1.0) for x in panel.places), Role.IDEAL)
    return replace(panel, series=(*panel.series, line)), meanings(part.arms) if part.x == "workers" else ()


def efficiency_notes(arms: Sequence[Arm], _: Sequence[Arm]) -> Iterator[str]:
    """Say what efficiency is of, and name the arms that have a rate and nothing to compare it with."""
    scopes = values_of([arm for arm in arms if arm.efficiency], "batch_scope")
    held = " at the same batch size" if scopes else ", whatever their batch sizes are"
    yield (
        f"Efficiency is steady samples/s of one of the workers over those of one worker alone{held}; the interval is "
        "Welch's, of logarithms."
    )
    rated = (arm for arm in arms if arm.values(RATE) and not arm.is_alone)
    if without := dict.fromkeys(label(arm) for arm in rated if arm.efficiency is None):
        yield f"No efficiency, for lack of a base line with equal settings: {listed(without)}."
    yield from rate_note(arms, arms)


def with_updates(arms: Sequence[Arm]) -> list[Arm]:
    """Return the arms with their runs' updates to the target: epochs to it x updates of an epoch; without `batch_size`.

    That follows from the global batch and the workers, and would otherwise give every point its own series. The global
    batch is that of one update; arms whose batch changes are left out.
    """
    columns = {
        "updates": lambda row: _updates(row, EPOCHS),
        ended("updates"): lambda row: _updates(row, ended(EPOCHS)),
        "batch_size": lambda row: None,
    }
    placed = [(arm, _batch_of_update(arm)) for arm in with_ends(arms) if has_fixed_batch(arm.first)]
    return [arm.having(**columns, **{BATCH: lambda row, batch=batch: batch}) for arm, batch in placed]


def update_notes(arms: Sequence[Arm], shown: Sequence[Arm]) -> Iterator[str]:
    """Say what `target_notes` says, and which arms are left out because their batch changes."""
    yield from target_notes(arms, shown)
    changing = (arm for arm in arms if arm.get("target_value") is not None and not has_fixed_batch(arm.first))
    yield from left_out_note(map(label, changing), "of a batch that changes")


def _updates(row: Row, epochs: str) -> float | None:
    each = quotient(updates_of(row), row.get("epochs_completed"))
    return None if row.get(epochs) is None or each is None else row[epochs] * each


def _batch_of_update(arm: Arm) -> float | None:
    """Return the global batch, or as many workers' batches as enter an update in the median run."""
    batch, sizes = arm.get(BATCH), arm.values("samples_per_update")
    if not batch or not sizes:
        return None if batch is None else float(batch)
    size, samples = median(sizes), arm.get("train_samples") or batch
    # The last step of an epoch is made of what remains.
    if any(abs(size - whole) <= _NEAR * whole for whole in (batch, samples / ceil(samples / batch))):
        return float(batch)
    of_worker: float = batch / arm.workers
    return of_worker * max(1, round(size / of_worker))


def by_global_batch(arms: Sequence[Arm]) -> Iterator[tuple[Part, Axis]]:
    """Yield the parts that stand against the global batch."""
    for part in parts(arms, x=BATCH):
        yield part, Axis("global batch (samples)", "log2")


def with_fits(part: Part, panel: Panel) -> tuple[Panel, Iterable[str]]:
    """Return a panel with 1/B through its smallest batch, and a fit of each series that has one.

    That is through one worker alone, which no luck of several arms has chosen, or else the least median.
    """
    lines, notes = list(panel.series), ["Dashed: perfect scaling, 1/B through the smallest batch."]
    if any(arm.get("samples_per_update") is not None for arm in part.arms):
        notes.append("Where servers apply gradients as they arrive, the global batch is what enters one update.")
    if medians := [(mark.x, mark.interval.value) for mark in panel.marks() if mark.interval is not None]:
        x, steps = min(medians)
        base_lines = (mark for series in panel.series if series.role is Role.BASE_LINE for mark in series.marks)
        alone = (mark.interval.value for mark in base_lines if mark.x == x and mark.interval is not None)
        steps = min(alone, default=steps)
        ideal = (line_mark(place, steps * x / place) for place in panel.places)
        lines.append(Series("perfect scaling", tuple(ideal), Role.IDEAL))
    arms_of = {label: arms for _, label, arms in named(part)}
    for series in panel.series:
        name = joined(panel.title, series.label, series.emulated and "emulated")
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
