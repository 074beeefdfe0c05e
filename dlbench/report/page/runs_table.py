"""The table of runs: one row for the last attempt of each, what varies and what was measured, nothing invented."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arm_table import EXTENDED, NOTES
from dlbench.analysis.arms import UNSTEADY, efficiencies, is_unsteady
from dlbench.analysis.formatting import number, percent, unit_of
from dlbench.analysis.groups import is_base_line, naming, ranks_of, setting_text, varying
from dlbench.analysis.short_rate import NOTE, short_rate
from dlbench.records.columns import RUNS
from dlbench.records.outcome import Status
from dlbench.report.data import RUN, ReportData
from dlbench.report.formatting import values
from dlbench.scenario.metrics import BUILT_IN

if TYPE_CHECKING:
    import pandas as pd

EFFICIENCY = "efficiency"
# What is measured, in the order of reading, and what it is called here.
MEASURES = {
    "train_time_s": "training time",
    "time_to_target_s": "time to target",
    "validation_accuracy": "validation accuracy",
    "validation_loss": "validation loss",
    "train_accuracy": "training accuracy",
    "train_loss": "training loss",
    EFFICIENCY: "efficiency",
    "samples_per_s": "steady throughput",
    "wall_time_s": "wall time",
}
WRITTEN = {EFFICIENCY: percent, **{name: unit_of(metric).written for name, metric in BUILT_IN.items()}}
UNITS = {column.name: column.unit for column in RUNS}
YES = "yes"
# What runs are ordered by, besides what varies.
BASE, REPEAT = "base", "repeat"
# More rows than this make a page slow, and are read by nobody.
MOST_ROWS = 5_000


@dataclass(frozen=True)
class Heading:
    """One column of the table.

    Attributes:
        name: The column of `runs.csv`.
        title: What it is called here.
        unit: Its unit; empty where it has none.
        is_number: Whether it is set as numbers are.
        is_choice: Whether rows can be chosen by its values.
    """

    name: str
    title: str
    unit: str = ""
    is_number: bool = False
    is_choice: bool = False


@dataclass(frozen=True)
class Cell:
    """One cell: what is shown, and of a number its value in full for sorting; both empty where it is unknown."""

    text: str = ""
    value: str = ""


@dataclass(frozen=True)
class Row:
    """One run: its name, how its last attempt ended, which attempt that was, and a cell for each heading."""

    study: str
    run_id: str
    status: str
    attempt: int
    cells: tuple[Cell, ...]

    @property
    def is_completed(self) -> bool:
        """Whether it has results."""
        return self.status == Status.COMPLETED

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of the attempt in a report."""
        return self.study, self.run_id, self.attempt


@dataclass(frozen=True)
class Table:
    """Headings of the cells, and the rows; run and status stand in front of them.

    Attributes:
        headings: Of the cells.
        rows: The runs, the first MOST_ROWS of them.
        total: How many runs there are.
        notes: What marks mean.
    """

    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    total: int
    notes: tuple[str, ...] = ()


def table(data: ReportData) -> Table:
    """Return the table of runs; columns in which no run has anything are left out."""
    every = in_order(data.runs)
    runs = every.assign(**{EFFICIENCY: efficiencies(every)})[:MOST_ROWS]
    headings = tuple(_headings(runs))
    columns = [_cells(runs, heading) for heading in headings]
    studies, run_ids, statuses, attempts = (values(runs[name]) for name in (*RUN, "status", "attempt"))
    cells = zip(*columns, strict=True)
    marked = "".join(_marks(runs))
    notes = tuple(f"{mark.strip()}: {text}" for mark, text in NOTES.items() if mark in marked)
    if any(_short_rates(runs)):
        notes = (f"~ before a rate: {NOTE}", *notes)
    return Table(headings, tuple(map(Row, studies, run_ids, statuses, attempts, cells)), len(every), notes)


def in_order(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return runs as a person reads them, not as they were made: by study, what varies, base lines first, repeat."""
    keys = _keys(runs)
    ranks = runs[list(keys)].apply(ranks_of).assign(**{BASE: ~is_base_line(runs), REPEAT: runs["repeat"]})
    return runs.loc[ranks.sort_values([*keys, BASE, REPEAT]).index].reset_index(drop=True)


def _keys(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Return the columns in which runs differ: the study, where there are several, and the settings that vary."""
    return tuple(dict.fromkeys((*(["study"] if runs["study"].nunique() > 1 else []), *varying(runs))))


def _headings(runs: "pd.DataFrame") -> Iterator[Heading]:
    for name in dict.fromkeys((*(["study"] if runs["study"].nunique() > 1 else []), *naming(runs))):
        yield Heading(name, name, is_number=_are_numbers(values(runs[name])), is_choice=True)
    if is_base_line(runs).any():
        yield Heading("baseline", "base line", is_choice=True)
    for name, title in MEASURES.items():
        if runs[name].notna().any() or (name == "samples_per_s" and any(_short_rates(runs))):
            yield Heading(name, title, UNITS.get(name, ""), is_number=True)
    if runs["emulated"].fillna("").ne("").any():
        yield Heading("emulated", "emulated", is_choice=True)
    yield Heading("attempt", "attempt", is_number=True)


def _cells(runs: "pd.DataFrame", heading: Heading) -> list[Cell]:
    found = values(runs[heading.name])
    if heading.name == "baseline":
        return [Cell(YES) if value else Cell() for value in found]
    if heading.name == "emulated":
        return [Cell((value or "").replace(";", ", ")) for value in found]
    if heading.name == "samples_per_s":
        return [
            Cell(rate) if value is None else Cell(number(value) + mark, _exact(value))
            for value, mark, rate in zip(found, _marks(runs), _short_rates(runs), strict=True)
        ]
    if heading.name in MEASURES:
        written = WRITTEN.get(heading.name, number)
        return [Cell() if value is None else Cell(written(value), _exact(value)) for value in found]
    return [_setting(value) for value in found]


def _marks(runs: "pd.DataFrame") -> list[str]:
    """Return the marks of each run's rate, those of the table of arms; none where it has no rate."""
    names = ("samples_per_s", "extended_steps", "warmup_detected", "rate_drift")
    rows = [dict(zip(names, row, strict=True)) for row in zip(*(values(runs[name]) for name in names), strict=True)]
    return [
        EXTENDED * bool(row["extended_steps"]) + UNSTEADY * is_unsteady(row) if row["samples_per_s"] is not None else ""
        for row in rows
    ]


def _short_rates(runs: "pd.DataFrame") -> list[str]:
    """Return what each run shows of its rate where it has none that counts."""
    names = ("samples_per_s", "timed_samples", "timed_window_s", "timed_steps")
    if "timed_samples" not in runs:  # an older study
        return [""] * len(runs)
    columns = (values(runs[name]) for name in names)
    return [short_rate([dict(zip(names, row, strict=True))]) for row in zip(*columns, strict=True)]


def _setting(value: Any) -> Cell:
    """Return a setting as it is written in a scenario."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(setting_text(value), _exact(value) if is_number else "")


def _are_numbers(found: Iterable[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in found if value is not None)


def _exact(value: float) -> str:
    """Return a number so that a script reads the same number."""
    return {"inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
