"""The table of arms that the terminal and `report.md` both show: the same columns, numbers, marks and notes.

First a column for each setting that varies. Then what decides between arms: the time to the target, where there is one,
and the training time. Then what came of it, and last the rate in the timed window, which decides nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dlbench.analysis.arms import TIME_TO_TARGET, UNSTEADY, Arm
from dlbench.analysis.formatting import SHARE, Unit, accuracy, number
from dlbench.analysis.groups import Names, frame, setting_text, varying, written_name
from dlbench.analysis.short_rate import NOTE, short_rate
from dlbench.analysis.statistics.intervals import Interval

EFFICIENCY = "efficiency"
BASE_LINE = "base line"
RATE = "samples_per_s"
# Metric, heading, and how values are written.
COLUMNS = (
    (TIME_TO_TARGET, "time to target, s", Unit(number)),
    ("train_time_s", "training time, s", Unit(number)),
    ("validation_accuracy", "validation accuracy", Unit(accuracy)),
    ("validation_loss", "validation loss", Unit(number)),
    (EFFICIENCY, "efficiency", SHARE),
    (RATE, "steady samples/s", Unit(number)),
)
# What `batch_scope` holds fixed, by the name that papers give the comparison.
SCALING = {"per-worker": "each worker (weak scaling)", "global": "all workers (strong scaling)"}
# What stands behind a rate, and what that means.
EXTENDED = " *"
NOTES = {
    EXTENDED: "steps after training were timed too (`extend_window`); they are in no training time",
    UNSTEADY: "not steady; `warmup_detected` and `rate_drift` say in which repeats",
}


@dataclass(frozen=True)
class Spread:
    """How a cell says what chance may have done.

    Attributes:
        words: What the title says of it.
        written: Writes a median with it.
    """

    words: str
    written: Callable[[Unit, Interval], str]


INTERVALS = Spread("Median [interval that covers at least {}%]", Unit.with_ends)
# Narrower, for a terminal.
MARGINS = Spread("Median ± the farther end of the interval that covers at least {}%", Unit.with_margin)


@dataclass(frozen=True)
class ArmTable:
    """Arms in rows.

    Attributes:
        title: What stands in the cells.
        headings: Of the columns.
        rows: Cells as plain text; empty where nothing is known.
        notes: What all arms have in common, what efficiency compares, and what marks mean.
        texts: The headings of columns that hold words.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    texts: frozenset[str]

    def cell(self, row: tuple[str, ...], heading: str) -> str:
        """Return what a row has under a heading."""
        return row[self._places[heading]]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {heading: place for place, heading in enumerate(self.headings)}


def arm_table(
    found: Sequence[Arm],
    spread: Spread = INTERVALS,
    names: Names = varying,
) -> ArmTable:
    """Return the table of arms with completed runs; measures that no arm has are left out.

    Args:
        found: The arms.
        spread: How a cell says what chance may have done.
        names: Returns the settings that have a column.
    """
    known = {arm: _measured(arm) for arm in found}
    rates = {arm: short_rate(arm.completed) for arm in found}
    shown = [
        column
        for column in COLUMNS
        if any(own[column[0]] for own in known.values()) or (column[0] == RATE and any(rates.values()))
    ]
    columns, texts = _names(found, names)
    columns["n"] = [str(arm.n) for arm in found]
    if any(own[TIME_TO_TARGET] for own in known.values()):
        columns["reached"] = [_reached(arm) for arm in found]
    for metric, heading, unit in shown:
        cells = [_cell(own[metric], unit, spread) for own in known.values()]
        if metric == RATE:
            cells = [cell + marks(arm) or rates[arm] for arm, cell in zip(found, cells, strict=True)]
        columns[heading] = cells
    emulated = [arm.emulated.replace(";", ", ") for arm in found]
    if len(set(emulated)) > 1:
        columns["emulated"] = emulated
        texts.add("emulated")
    rows = tuple(zip(*columns.values(), strict=True))
    return ArmTable(_title(list(known.values()), spread), tuple(columns), rows, _notes(found), frozenset(texts))


def _names(found: Sequence[Arm], names: Names) -> tuple[dict[str, list[str]], set[str]]:
    """Return what tells arms apart, and which of it is words: a column for each setting to name, and base lines.

    Where these do not tell them apart, or there is none, the labels.
    """
    if len(found) == 1 and found[0].is_alone:
        return {"arm": [found[0].label]}, {"arm"}
    runs = frame(arm.first for arm in found)
    keys = names(runs)
    columns = {written_name(key): [setting_text(value) for value in runs[key]] for key in keys}
    words = {written_name(key) for key in keys if runs[key].dtype in (object, bool, "boolean", "string")}
    if columns and any(arm.baseline for arm in found):
        columns[BASE_LINE] = ["yes" if arm.baseline else "" for arm in found]
        words.add(BASE_LINE)
    if len(set(zip(*columns.values(), strict=True))) < len(found):
        return {"arm": [arm.label for arm in found]}, {"arm"}
    return columns, words


def _reached(arm: Arm) -> str:
    """Return how many of an arm's runs reached the target, such as `4/5`."""
    times = arm.comparable(TIME_TO_TARGET).values()
    return f"{sum(map(math.isfinite, times))}/{len(times)}" if times else ""


def _measured(arm: Arm) -> dict[str, Interval | None]:
    return {TIME_TO_TARGET: arm.time_to_target, **arm.metrics, EFFICIENCY: arm.efficiency}


def _cell(interval: Interval | None, unit: Unit, spread: Spread) -> str:
    if interval is None:
        return ""
    return "not reached" if math.isinf(interval.value) else spread.written(unit, interval)


def marks(arm: Arm) -> str:
    """Return the marks behind an arm's rate."""
    return EXTENDED * arm.is_extended + UNSTEADY * bool(arm.unsteady) if arm.metrics[RATE] else ""


def _title(known: Sequence[dict[str, Interval | None]], spread: Spread) -> str:
    covered = [interval.coverage for own in known for interval in own.values() if interval and interval.coverage]
    if not covered:
        return "One completed repeat of each arm: nothing is known of chance"
    return f"{spread.words.format(math.floor(100 * min(covered)))} of n completed repeats"


def _notes(found: Sequence[Arm]) -> tuple[str, ...]:
    notes = []
    if len(emulated := {arm.emulated for arm in found}) == 1 and (reasons := emulated.pop()):
        notes.append(f"emulated: {reasons.replace(';', ', ')}, all arms")
    if scopes := {arm.batch_scope for arm in found if arm.efficiency and arm.batch_scope}:
        held = "; ".join(f"of {SCALING[scope]}" for scope in sorted(scopes))
        text = "steady samples/s of one worker / steady samples/s of its base line"
        notes.append(f"efficiency: {text}, at the same batch size {held}")
    if any(short_rate(arm.completed) for arm in found):
        notes.append(f"~ before a rate: {NOTE}")
    return (*notes, *mark_notes(found))


def mark_notes(found: Sequence[Arm]) -> tuple[str, ...]:
    """Say what the marks of these arms mean."""
    marked = "".join(map(marks, found))
    return tuple(f"{mark.strip()}: {text}" for mark, text in NOTES.items() if mark in marked)
