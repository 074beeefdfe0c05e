"""Arms turned into lines: arms that do different work apart, emulated and real ones apart, failed runs counted.

Arms stand at one place of x each, or along a course: at each place of what a table such as `epochs.csv` says of a run.
"""

import math
from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median
from typing import Any, cast

from dlbench.analysis.arms import EFFICIENCY, Arm, Row, equal_columns
from dlbench.analysis.formatting import joined
from dlbench.analysis.groups import (
    ALONE,
    APART,
    by_emulation,
    described,
    groups,
    is_shared,
    may_follow,
    task_columns,
    values_of,
    varying,
    ways,
    with_strategy,
    without_base_lines,
)
from dlbench.analysis.statistics.intervals import Interval, censored_median
from dlbench.report.chart import Mark, Role, Series
from dlbench.report.data import run_of

# More lines than this in one panel are hard to distinguish; further ones get other panels.
MOST_SERIES = 7
# Column of the words that hold of a run's value, joined by `;`.
FLAGS = ".flags"
# What is known of each run, by study and run_id, at each place. A failed run has one place, at which it is counted.
Course = dict[tuple[str, str], dict[float, dict[str, Any]]]


@dataclass(frozen=True)
class Part:
    """Arms that may share a panel.

    Attributes:
        title: What they have in common, and which share of the series they are where these are too many.
        arms: The arms, base lines among them.
        keys: What distinguishes series.
        x: The column of the horizontal axis.
    """

    title: str
    arms: tuple[Arm, ...]
    keys: tuple[str, ...]
    x: str


def parts(arms: Sequence[Arm], *, x: str, always: Iterable[str] | None = None, most: int = MOST_SERIES) -> list[Part]:
    """Split arms so that each part has one task and few enough series.

    Args:
        arms: Arms; base lines stay with those they belong to.
        x: The column of the horizontal axis.
        always: Settings whose values never share a panel: what was trained, where it is None.
        most: Series of a part.
    """
    keys = ways_vary(arms, x=x)
    always = set(task_columns(arms) if always is None else always)
    apart = [key for key in keys if key in always]
    left = [key for key in keys if key not in apart]
    others = without_base_lines(arms)
    while left and _most_series(others, apart, left) > most:
        fewest = {key: _most_series(others, [*apart, key], [name for name in left if name != key]) for key in left}
        key = min(left, key=lambda name: (fewest[name], len(values_of(arms, name))))
        if fewest[key] == 1:  # a panel for each series compares nothing
            break
        apart.append(key)
        left.remove(key)
    divided = []
    for values, alike in groups(others, apart):
        common = {key: value for key, value in values.items() if is_shared(key)}
        base = [arm for arm in arms if arm.baseline and all(arm.get(key) == value for key, value in common.items())]
        every = [series for _, series in groups(alike, left)]
        size = math.ceil(len(every) / math.ceil(len(every) / most))
        shares = [every[start : start + size] for start in range(0, len(every), size)]
        for place, share in enumerate(shares, 1):
            which = f"{place} of {len(shares)}" if len(shares) > 1 else ""
            divided.append(Part(joined(described(values), which), (*chain(*share), *base), tuple(left), x))
    return divided or [Part("", tuple(arms), tuple(left), x)]


def ways_vary(arms: Sequence[Arm], x: str = "") -> tuple[str, ...]:
    """Return the strategy and the settings in which ways to train differ; one worker alone is the base line.

    So a way has one name, and one colour, in charts with base lines and in those without. A single way is named by what
    makes it differ from the base line.
    """
    parallel = ways(arms)
    return with_strategy(parallel, varying(parallel, x=x) or varying(arms, x=x))


def brief_keys(part: Part) -> Part:
    """Return the part without keys that follow from the others, or where they may from `x`, so that labels are short.

    What synchronises and where stays: by that a line is known.
    """
    keys = list(part.keys)
    arms = ways(part.arms) or without_base_lines(part.arms)
    for key in reversed([key for key in keys if key not in ("strategy", "placement", "algorithm", "compression")]):
        others = [name for name in keys if name != key]
        along = [part.x] if may_follow(arms, key) else []
        if _num_combinations(arms, [*others, *along]) == _num_combinations(arms, [*keys, *along]):
            keys = others
    return replace(part, keys=tuple(keys))


def _num_combinations(arms: Iterable[Arm], keys: Sequence[str]) -> int:
    return len({tuple(map(arm.get, keys)) for arm in arms})


def _most_series(arms: Sequence[Arm], apart: Sequence[str], keys: Sequence[str]) -> int:
    """Return how many combinations of values of `keys` there are at most with one of `apart`."""
    return max((_num_combinations(alike, keys) for _, alike in groups(arms, apart)), default=0)


def series(part: Part, column: str, *others: str) -> tuple[Series, ...]:
    """Return one series for each combination of the part's keys, emulated and real arms apart, base lines last.

    One worker alone is the base line of the others, whoever asked for it.

    Args:
        part: The arms.
        column: The column whose values are shown: see `marks`.
        others: Columns of which a line may have values instead.
    """
    every = (
        [Series(name, marks(arms, part.x, each), role, emulated) for each in dict.fromkeys((column, *others))]
        for role, name, alike in named(part)
        for emulated, arms in by_emulation(alike)
    )
    return tuple(
        curves[0]
        for curves in every
        if any(mark.points or mark.ended or mark.num_failed for curve in curves for mark in curve.marks)
    )


def named(part: Part) -> Iterator[tuple[Role, str, list[Arm]]]:
    """Yield the role, the name and the arms of each line of a part, base lines last."""
    parallel = ways(part.arms) or without_base_lines(part.arms)
    is_own = set(parallel)
    base = [arm for arm in part.arms if arm not in is_own]
    shared = tuple(filter(is_shared, part.keys))
    # Base lines that differ in nothing else are distinguished by what decides a step alone.
    of_base = shared
    if _num_combinations(base, shared) <= 1:
        of_base = (*equal_columns(shared), *filter(APART.__contains__, shared))
    for values, alike in groups(parallel, part.keys):
        yield Role.MEASURED, described(values) or (ALONE if all(arm.is_alone for arm in alike) else "measured"), alike
    for values, alike in groups(base, of_base):
        yield Role.BASE_LINE, joined(ALONE, described(values)), alike


def ended(column: str) -> str:
    """Return the column with where a run was when it ended, of those that may not have reached `column`."""
    return f"{column}.ended"


def marks(arms: Iterable[Arm], x: str, column: str) -> tuple[Mark, ...]:
    """Return what is known at each x: every completed run's value, their median and interval, flags, failed runs.

    Args:
        arms: The arms of one series.
        x: The column of the horizontal axis.
        column: The column whose values are shown. Where a run has `ended(column)` alone, its value is at least that
            (censored), and medians allow for it. A column FLAGS has the flags of a run's value.
    """
    places = ((values[x], alike) for values, alike in groups(arms, [x]))
    return tuple(_mark(float(place), alike, column) for place, alike in places if place is not None)


def _mark(place: float, arms: Sequence[Arm], column: str) -> Mark:
    completed = [row for arm in arms for row in arm.completed]
    reached = [row for row in completed if row.get(column) is not None]
    late = [row for row in completed if row.get(column) is None and row.get(ended(column)) is not None]
    points = tuple(float(row[column]) for row in reached)
    ends = tuple(float(row[ended(column)]) for row in late)
    interval = censored_median(points, ends)
    if column == EFFICIENCY and points:  # its interval knows how much the base line scatters
        judged = [arm.efficiency for arm in arms if arm.efficiency]
        interval = judged[0] if len(judged) == 1 else Interval(median(points), None, None, len(points), None)
    return Mark(
        place,
        points,
        interval,
        ends,
        num_failed=sum(len(arm.rows) - arm.n for arm in arms),
        flags=";".join(sorted({flag for row in reached for flag in str(row.get(FLAGS) or "").split(";") if flag})),
        runs=tuple(row["run_id"] for row in reached),
        ended_runs=tuple(row["run_id"] for row in late),
    )


def of_runs(arms: Iterable[Arm], runs: Container[tuple[str, str]]) -> list[Arm]:
    """Return the arms with some of their runs alone, and those without any not at all."""
    kept = [(arm, tuple(row for row in arm.rows if run_of(row) in runs)) for arm in arms]
    return [replace(arm, rows=rows) for arm, rows in kept if rows]


def along(part: Part, course: Course) -> Part:
    """Return a part with its arms at each place of their runs, which is their x."""
    arms: list[Arm] = []
    for arm in part.arms:
        places: dict[float, list[Row]] = {}
        for row in arm.rows:
            for place, columns in course.get(run_of(row), {}).items():
                # Not a copy of all columns of a run for each of its places.
                here = ChainMap({**columns, part.x: place}, cast("dict[str, Any]", row))
                places.setdefault(place, []).append(here)
        arms += [replace(arm, rows=tuple(rows)) for rows in places.values()]
    return replace(part, arms=tuple(arms))


def known_series(part: Part, column: str) -> list[Series]:
    """Return the series of a part along a course, without the places where nothing is known of a column."""
    return [
        replace(curve, marks=tuple(mark for mark in curve.marks if mark.points or mark.num_failed))
        for curve in series(part, column)
    ]
