"""Arms along a course: what a table such as `epochs.csv` says of each run at each place of it."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Any

from dlbench.analysis.arms import Arm, Row

# Study and run_id.
Run = tuple[str, str]


def run_of(row: Row) -> Run:
    """Return study and run_id of a row of any table."""
    return row["study"], row["run_id"]


def of_runs(arms: Iterable[Arm], runs: Container[Run]) -> list[Arm]:
    """Return the arms with some of their runs alone, and those without any not at all."""
    kept = [(arm, tuple(row for row in arm.rows if run_of(row) in runs)) for arm in arms]
    return [replace(arm, rows=rows) for arm, rows in kept if rows]


def along(arms: Iterable[Arm], x: str, course: Mapping[Run, Mapping[float, Mapping[str, Any]]]) -> tuple[Arm, ...]:
    """Return each arm at each place of its runs' courses, so that `dlbench.report.lines.series` makes lines of them.

    Args:
        arms: Arms.
        x: The column that gets the place.
        course: Further columns of each run at each place. A failed run is counted where it has a place.
    """
    found: list[Arm] = []
    for arm in arms:
        places: dict[float, list[Row]] = {}
        for row in arm.rows:
            for place, columns in course.get(run_of(row), {}).items():
                places.setdefault(place, []).append({**row, x: place, **columns})
        found += [replace(arm, rows=tuple(rows)) for rows in places.values()]
    return tuple(found)
