"""The table of runs: one row for the last attempt of each, what varies and what was measured, nothing invented."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dlbench.analysis.arm_table import in_order, marks, name_of, rate_notes, short_rate
from dlbench.analysis.arms import EFFICIENCY, Arm, Row, are_numbers, reported
from dlbench.analysis.formatting import number, percent, unit_of
from dlbench.analysis.groups import naming
from dlbench.records.columns import RUNS
from dlbench.report.data import ReportData
from dlbench.scenario.metrics import BUILT_IN, MFU, RATE, TIME_TO_TARGET, TRAIN_TIME

# What is measured, in the order of reading, and what it is called here.
MEASURES = {
    **{metric.column: metric.title for metric in (TRAIN_TIME, TIME_TO_TARGET)},
    **{column: metric.title for column, metric in BUILT_IN.items() if metric.is_score},
    EFFICIENCY: "efficiency",
    **{metric.column: metric.title for metric in (MFU, RATE)},
    "wall_time_s": "wall time",
}
WRITTEN = {EFFICIENCY: percent, **{name: unit_of(metric).written for name, metric in BUILT_IN.items()}}
# Unit and meaning of what is measured.
MEANINGS = {column.name: (column.unit, column.meaning) for column in RUNS}
# More rows than this make a page slow, and are not read.
MOST_ROWS = 5_000


@dataclass(frozen=True)
class Heading:
    """One column of the table.

    Attributes:
        name: The column of `runs.csv`.
        title: What it is called here.
        unit: Its unit; empty where it has none.
        meaning: What `runs.csv` has in it; empty for settings, and for what it does not have.
        is_number: Whether it is set as numbers are.
        is_choice: Whether rows can be chosen by its values.
    """

    name: str
    title: str
    unit: str = ""
    meaning: str = ""
    is_number: bool = False
    is_choice: bool = False


class Cell(NamedTuple):
    """One cell: what is shown, and of a number its value in full as scripts read it; both empty where it is unknown."""

    text: str = ""
    value: str = ""


@dataclass(frozen=True)
class Table:
    """Headings of the cells, and the runs; run and status stand in front of them.

    Attributes:
        headings: Of the cells.
        rows: The first MOST_ROWS of the runs, each with a cell for every heading.
        notes: What marks mean.
    """

    headings: tuple[Heading, ...]
    rows: tuple[tuple[Row, tuple[Cell, ...]], ...]
    notes: tuple[str, ...]


def runs_table(data: ReportData) -> Table:
    """Return the table of runs as a person reads them; columns in which no run has anything are left out."""
    arms = ((arm, sorted(arm.rows, key=lambda row: row.get("repeat") or 0)) for arm in in_order(data.arms))
    shown = [(arm, row) for arm, rows in arms for row in rows][:MOST_ROWS]
    columns = {heading: [_cell(arm, row, heading) for arm, row in shown] for heading in _headings(data)}
    columns = {heading: cells for heading, cells in columns.items() if any(cell.text for cell in cells)}
    rows = zip((row for _, row in shown), zip(*columns.values(), strict=True), strict=True)
    return Table(tuple(columns), tuple(rows), tuple(rate_notes([[row] for _, row in shown])))


def _headings(data: ReportData) -> Iterator[Heading]:
    for name in dict.fromkeys((*(["study"] if len(data.studies) > 1 else []), *naming(data.arms))):
        yield Heading(name, name, is_number=are_numbers(row.get(name) for row in data.runs), is_choice=True)
    for name, title in {**MEASURES, **{name: name.replace("_", " ") for name in reported(data.completed)}}.items():
        yield Heading(name, title, *MEANINGS.get(name, ("", "")), is_number=True)
    yield Heading("emulated", "emulated", is_choice=True)
    yield Heading("attempt", "attempt", is_number=True)


def _cell(arm: Arm, row: Row, heading: Heading) -> Cell:
    name = heading.name
    value = arm.efficiency_of(row) if name == EFFICIENCY else row.get(name)
    if value is None:
        return Cell(short_rate([row]) if name == RATE.column else "")
    if heading.is_number and not heading.is_choice:
        return Cell(WRITTEN.get(name, number)(value) + (marks([row]) if name == RATE.column else ""), json.dumps(value))
    if name == "emulated":
        return Cell(str(value).replace(";", ", "))
    return Cell(name_of(name, row), json.dumps(value) if are_numbers([value]) else "")
