"""Arms along a course: what a table such as `epochs.csv` says of each run at each place of it."""

from collections import ChainMap
from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any, cast

from dlbench.analysis.arms import Arm, Row
from dlbench.report.chart import Series
from dlbench.report.lines import Part, series

# Study and run_id.
Run = tuple[str, str]
# What is known of each run at each place. A failed run has one place, at which it is counted.
Course = dict[Run, dict[float, dict[str, Any]]]


def run_of(row: Row) -> Run:
    """Return study and run_id of a row of any table."""
    return row["study"], row["run_id"]


def of_runs(arms: Iterable[Arm], runs: Container[Run]) -> list[Arm]:
    """Return the arms with some of their runs alone, and those without any not at all."""
    kept = [(arm, tuple(row for row in arm.rows if run_of(row) in runs)) for arm in arms]
    return [replace(arm, rows=rows) for arm, rows in kept if rows]


def along(part: Part, course: Course) -> Part:
    """Return a part with its arms at each place of their runs, which is their x; `lines` makes lines of them."""
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


def lines(part: Part, column: str) -> list[Series]:
    """Return the series of a part along a course, without the places where nothing is known of a column."""
    return [
        replace(curve, marks=tuple(mark for mark in curve.marks if mark.points or mark.num_failed))
        for curve in series(part, column)
    ]
