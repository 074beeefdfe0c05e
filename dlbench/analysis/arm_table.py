"""The table of arms that the terminal and `report.md` both show: the same columns, numbers, marks and notes.

First a column for each setting that varies. Then what decides between arms: the time to the target, where there is one,
and the training time. Then what came of it, and last the rate in the timed window, which decides nothing.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import median
from typing import Any

from dlbench.analysis.arms import (
    COUNTED,
    EFFICIENCY,
    UNSTEADY,
    Arm,
    Row,
    are_numbers,
    distinct,
    is_alone,
    is_simulated,
    is_unsteady,
    reported,
    stated_of,
    window_needed,
)
from dlbench.analysis.formatting import Unit, joined, listed, number, one_line, percent, rounded, unit_of
from dlbench.analysis.groups import (
    ALONE,
    learning_rate_note,
    naming,
    place_of,
    setting_text,
    tuned_columns,
    tuned_of,
    varying,
    written_name,
)
from dlbench.analysis.judge import ENOUGH_REPEATS
from dlbench.analysis.metrics.lost_time import lost_time, sentence
from dlbench.analysis.statistics.intervals import LEVEL, Interval
from dlbench.records.result import MIN_TIMED_S
from dlbench.scenario.expand.arms import is_shared
from dlbench.scenario.expand.points import axis_keys
from dlbench.scenario.metrics import BUILT_IN, MFU, QUALITY, RATE, TIME_TO_TARGET, TRAIN_TIME
from dlbench.scenario.run_spec import RunSpec, arm_name
from dlbench.scenario.scenario import Scenario

_DECISIVE = (TIME_TO_TARGET, TRAIN_TIME, *(BUILT_IN[name] for name in QUALITY))
# Metric, heading, and how values are written.
COLUMNS = (
    *((one.column, joined(one.title, one.unit), Unit(unit_of(one).written)) for one in _DECISIVE),
    (EFFICIENCY, "efficiency", Unit(percent)),
    (MFU.column, "MFU", Unit(percent)),
    (RATE.column, "steady samples/s", Unit(number)),
)
# What `batch_scope` holds fixed, by the name that papers give the comparison.
SCALING = {"per-worker": "each worker (weak scaling)", "global": "all workers (strong scaling)"}
# What stands behind a rate, and what that means.
EXTENDED = " *"
# Behind what an arm was measured at.
EDGE, UNTUNED = " ^", " !"
TUNED_NOTES = {
    EDGE: "the least or greatest value that was tried: others beyond may be better",
    UNTUNED: "not searched for",
}
NOTES = {
    EXTENDED: "steps after training were timed too (`extend_window`); they are in no training time",
    UNSTEADY: "not steady; `warmup_detected` and `rate_drift` say in which repeats",
}

# How a cell says what chance may have done: what the title says of it, and what writes a median with it.
Spread = tuple[str, Callable[[Unit, Interval], str]]
INTERVALS: Spread = ("Median [interval that covers at least {}%]", Unit.with_ends)
# Narrower, for a terminal.
MARGINS: Spread = ("Median ± the farther end of the interval that covers at least {}%", Unit.with_margin)


@dataclass(frozen=True)
class ArmTable:
    """Arms in rows.

    Attributes:
        title: What stands in the cells.
        columns: Cells as plain text by heading; empty where nothing is known.
        notes: What all arms have in common, what efficiency compares, and what marks mean.
        texts: The headings of columns that hold words.
    """

    title: str
    columns: Mapping[str, Sequence[str]]
    notes: tuple[str, ...]
    texts: frozenset[str]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The cells of each arm."""
        return list(zip(*self.columns.values(), strict=True))


def in_order(arms: Sequence[Arm]) -> list[Arm]:
    """Return arms as a person reads them, not as they were made: by study, what varies, base lines first."""
    keys = dict.fromkeys(("study", *varying(arms)))
    return sorted(arms, key=lambda arm: (*(place_of(arm.get(key)) for key in keys), not arm.baseline))


def reading_order(scenario: Scenario, runs: Iterable[RunSpec]) -> list[str]:
    """Return the names of a study's arms as its scenario writes them, not as runs were executed.

    The last axis is the fastest, and each base line comes before the arms of its group.
    """
    written = [axes for _, axes in scenario.axes()]
    written += [{key: (value,) for key, value in included.items()} for included in scenario.include]
    # The values of each axis as they are written; those of included points follow, and those from `base` come last.
    places = {
        key: list(dict.fromkeys(_text(value) for axes in written for value in axes.get(key, ())))
        for key in axis_keys(scenario)
    }

    def place_on(key: str, run: RunSpec) -> int:
        value = _text(run.axes.get(key))
        if run.baseline and not is_shared(key):
            return -1
        return places[key].index(value) if value in places[key] else len(places[key])

    ordered = sorted(runs, key=lambda run: (*(place_on(key, run) for key in places), not run.baseline))
    return list(dict.fromkeys(arm_name(run.run_id) for run in ordered))


def _text(value: Any) -> str:
    """Return a value as it can be compared: 0 is 0.0, and a hyphen and an underscore mean the same in names."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    return json.dumps(value, sort_keys=True, default=str).replace("-", "_")


def arm_table(arms: Sequence[Arm], spread: Spread = INTERVALS) -> ArmTable:
    """Return the table of arms with completed runs; measures that no arm has are left out.

    Args:
        arms: The arms.
        spread: How a cell says what chance may have done.
    """
    columns, texts = _names(arms)
    for column in tuned_columns(arms):
        columns[written_name(column)] = [_tuned_cell(arm, column) for arm in arms]
    columns["n"] = [str(arm.n) for arm in arms]
    if any(arm.metrics[TIME_TO_TARGET.column] for arm in arms):
        columns["reached"] = list(map(_reached, arms))
    own_columns = reported([row for arm in arms for row in arm.completed])
    shown = [*COLUMNS[:-3], *((name, name.replace("_", " "), Unit(number)) for name in own_columns), *COLUMNS[-3:]]
    for metric, heading, unit in shown:
        if any(cells := [_cell(arm, metric, unit, spread) for arm in arms]):
            columns[heading] = cells
    notes = list(_notes(arms))
    emulated = [arm.emulated.replace(";", ", ") for arm in arms]
    if len(set(emulated)) > 1:
        columns["emulated"] = emulated
        texts.add("emulated")
    elif any(emulated):
        notes.insert(0, f"emulated: {emulated[0]}, all arms")
    intervals = (_interval(arm, metric) for arm in arms for metric in arm.metrics)
    covered = [interval.coverage for interval in intervals if interval and interval.coverage]
    title = "Median of n completed repeats"
    if covered:
        title = f"{spread[0].format(math.floor(100 * min(covered)))} of n completed repeats"
    elif all(arm.n == 1 for arm in arms):
        title = "One completed repeat of each arm: nothing is known of chance"
    return ArmTable(title, columns, tuple(notes), frozenset(texts))


def _names(arms: Sequence[Arm]) -> tuple[dict[str, list[str]], set[str]]:
    """Return what tells arms apart, and which of it is words: a column for each setting, or else their labels."""
    keys = naming(arms)
    if "strategy" not in keys and any(arm.baseline for arm in arms):
        keys = ("strategy", *keys)
    columns = {written_name(key): [name_of(key, arm.first) for arm in arms] for key in keys}
    if len(set(zip(*columns.values(), strict=True))) < len(arms):
        return {"arm": [one_line(label_of(arm.first) or arm.name) for arm in arms]}, {"arm"}
    return columns, {written_name(key) for key in keys if not are_numbers(arm.get(key) for arm in arms)}


def _tuned_cell(arm: Arm, column: str) -> str:
    """Return what an arm was measured at; marked where others beyond may be better, or nothing was searched for."""
    text, at_edge = setting_text(arm.first.get(column)), str(arm.get("tuned_at_edge") or "").split("; ")
    if any(edge.startswith(f"{written_name(column)} ") for edge in at_edge):
        return text + EDGE
    return text if column in tuned_of(arm) or not text else text + UNTUNED


def name_of(key: str, row: Row) -> str:
    """Return the value of a setting of a run as tables write it: that of its strategy names one worker alone."""
    return ALONE if key == "strategy" and is_alone(row) else setting_text(row.get(key))


def label_of(row: Row) -> str:
    """Return the label of a run, in which a base line has its one name; empty where it has no label."""
    label = str(row.get("label") or "")
    return label.replace("baseline", ALONE, 1) if row.get("baseline") else label


def _reached(arm: Arm) -> str:
    """Return how many of an arm's runs reached the target, such as `4/5`."""
    times = arm.comparable(TIME_TO_TARGET.column).values()
    return f"{sum(map(math.isfinite, times))}/{len(times)}" if times else ""


def _interval(arm: Arm, metric: str) -> Interval | None:
    """Return a median of an arm, without an interval where it is of fewer repeats than its others."""
    interval = arm.metrics.get(metric)
    # That of a ratio covers the same at any number of repeats.
    if interval is None or interval.n >= arm.n or metric == EFFICIENCY:
        return interval
    return replace(interval, low=None, high=None, coverage=None)


def _cell(arm: Arm, metric: str, unit: Unit, spread: Spread) -> str:
    """Return what an arm has under a heading; where some runs have no value, or reached no target, how many have."""
    interval = _interval(arm, metric)
    if interval is None:
        return short_rate(arm.completed) if metric == RATE.column else ""
    if math.isinf(interval.value):
        return "not reached"
    text = spread[1](unit, interval)
    if metric == TIME_TO_TARGET.column and not all(map(math.isfinite, arm.comparable(metric).values())):
        return f"{text} ({_reached(arm)} reached)"
    if metric == RATE.column:
        text += marks(arm.completed)
    return text if interval is arm.metrics[metric] else f"{text} ({interval.n} of {arm.n})"


def short_rate(rows: Sequence[Row]) -> str:
    """Return what completed runs show of their rate where their windows are too short for one that counts.

    Such as `~2.0 M/s, 1.1 s window`. Empty where a run has a rate that counts, or none had a timed window. Of several
    runs the medians count.
    """
    timed = [row for row in rows if all(map(row.get, ("timed_samples", "timed_window_s", "timed_steps")))]
    if not timed or any(row.get(RATE.column) is not None for row in rows):
        return ""
    rate = median(row["timed_samples"] / row["timed_window_s"] for row in timed)
    window_s, steps = (median(row[name] for row in timed) for name in ("timed_window_s", "timed_steps"))
    # Of simulated time any length is exact: there only steps can be too few.
    is_short = window_s < MIN_TIMED_S and not all(map(is_simulated, timed))
    length = f"{rounded(window_s)} s window" if is_short else f"{steps:.0f} steps"
    return f"~{rounded(rate)}/s, {length}"


def marks(rows: Sequence[Row]) -> str:
    """Return the marks behind the rate of completed runs; none where they have no rate."""
    if all(row.get(RATE.column) is None for row in rows):
        return ""
    return EXTENDED * any(row.get("extended_steps") for row in rows) + UNSTEADY * any(map(is_unsteady, rows))


def _notes(arms: Sequence[Arm]) -> Iterator[str]:
    if scopes := {arm.get("batch_scope") for arm in arms if arm.efficiency}:
        held = "; ".join(f"of {SCALING[scope]}" for scope in sorted(filter(None, scopes)))
        text = f"steady samples/s of each worker / steady samples/s of {ALONE}"
        # Of few repeats the intervals of medians cover much less, and are narrower.
        is_wider = any(ratio.coverage and ratio.n < ENOUGH_REPEATS for arm in arms if (ratio := arm.efficiency))
        covered = f"; its intervals cover {percent(LEVEL)}" * is_wider
        sizes = f"at the same batch size {held}" if held else "whatever their batch sizes are"
        yield f"efficiency: {text}, {sizes}{covered}"
    if note := learning_rate_note(arms):
        yield note
    sentences = [(arm.workers, sentence(arm, lost)) for arm in arms if arm.workers > 1 and (lost := lost_time(arm))]
    yield from [max(sentences, key=itemgetter(0))[1]] if sentences else []
    if stated := dict.fromkeys(name for arm in arms for row in arm.completed for name in stated_of(row)):
        yield f"{listed(stated)}: as the script, or a table, says (`stated`); dlbench did not measure it"
    for noun in sorted(distinct([row for arm in arms for row in arm.completed], COUNTED)):
        yield f"samples are {noun}: the table counts them"
    tuned = "".join(_tuned_cell(arm, column) for column in tuned_columns(arms) for arm in arms)
    yield from (f"{mark.strip()}: {text}" for mark, text in TUNED_NOTES.items() if mark in tuned)
    yield from rate_notes([arm.completed for arm in arms])


def rate_notes(cells: Sequence[Sequence[Row]]) -> Iterator[str]:
    """Say what the marks at rates mean, each the rate of some runs."""
    if short := [row for rows in cells if short_rate(rows) for row in rows]:
        yield f"~ before a rate: its window is too short ({window_needed(short)}): this rate is compared with no other"
    marked = "".join(map(marks, cells))
    yield from (f"{mark.strip()}: {text}" for mark, text in NOTES.items() if mark in marked)
