"""What a figure shows, before anything is drawn: panels of series of marks, and the same as tidy rows.

A figure file makes a `Chart` out of rows, without matplotlib; `dlbench.report.rendering` makes a picture of it.
"""

import math
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from dlbench.analysis.statistics.intervals import Interval
from dlbench.analysis.summary_tables import defused
from dlbench.records.tables import line

Scale = Literal["linear", "log2", "log10"]
# What a colour stands for: a way to train, a batch size, a way to change it, or a part of a step.
Palette = Literal["ways", "sizes", "policies", "parts"]


class MissingRowsError(Exception):
    """The rows that a figure needs are not there; the message says which."""


class Role(StrEnum):
    """What a series is, and so how it is drawn: solid with points, dashed, dotted, or grey; TOTAL ends stacked bars."""

    MEASURED = "measured"
    BASE_LINE = "base line"
    TOTAL = "total"
    IDEAL = "ideal"
    PUBLISHED = "published"
    FITTED = "fitted"


# Flags of a time that is no result; all others are of rates that count.
FAULTS = ("nothing", "missed")
# Series of which a number of runs is known.
OF_RUNS = (Role.MEASURED, Role.BASE_LINE, Role.TOTAL)
# The columns of a figure's CSV file.
COLUMNS = (
    "figure", "panel", "series", "role", "x_label", "x", "category", "y_label", "value", "low", "high", "n", "coverage",
    "num_ended", "num_failed", "emulated", "flags",
)  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """What is known at one place of a series.

    Attributes:
        x: The place: a number, or the number of a category from 0.
        points: One value of each run that has one; none for an ideal, published or fitted line.
        interval: Median and interval; of a line without points, its value alone.
        ended: One value of each run that ended before it reached what is shown (censored): the value is at least that;
            infinite where it is not known when it ended.
        num_failed: Runs here that did not complete and have no value.
        flags: Flags of the value, words joined by `;`: see `dlbench.report.caption.FLAGS`.
        name: A text beside the mark.
        runs: The run_id of each of `points`; empty where they are not known.
        ended_runs: The same of `ended`.
    """

    x: float
    points: tuple[float, ...] = ()
    interval: Interval | None = None
    ended: tuple[float, ...] = ()
    num_failed: int = 0
    flags: str = ""
    name: str = ""
    runs: tuple[str, ...] = ()
    ended_runs: tuple[str, ...] = ()


def line_mark(x: float, value: float, n: int = 1) -> Mark:
    """Return a mark that has a value alone, of `n` runs or of none: of ideals, fits and published numbers."""
    return Mark(x, interval=Interval(value, None, None, n, None))


@dataclass(frozen=True)
class Series:
    """Marks that belong together: one line.

    Attributes:
        label: Its name in the legend, which distinguishes it from the others.
        marks: In the order of x.
        role: What it is.
        emulated: Why it was not measured on real hardware: reasons joined by `;`. Drawn hollow and named so.
        hue: Number of its colour and marker in its palette, by `Hues`; equal ones are the same thing in all charts.
        like: Label of the series whose colour it has; its own where empty.
        palette: What its colour stands for.
    """

    label: str
    marks: tuple[Mark, ...]
    role: Role = Role.MEASURED
    emulated: str = ""
    hue: int = 0
    like: str = ""
    palette: Palette = "ways"


@dataclass(frozen=True)
class Axis:
    """One axis: its label with the unit, its scale, and categories in place of numbers where it has them.

    Attributes:
        label: What it shows, with the unit.
        scale: Even, or logarithmic.
        categories: Names in place of numbers.
        low: The lowest end of a vertical axis, unless values lie below.
        high: The highest end, unless values lie above.
        most: The largest value that there can be: the axis ends just above.
        percent: Whether shares are shown in per cent.
    """

    label: str
    scale: Scale = "linear"
    categories: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    most: float | None = None
    percent: bool = False

    @property
    def name(self) -> str:
        """The label without the unit."""
        return self.label.partition(" (")[0]


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: Distinguishes it from the chart's other panels; may be empty.
        x: The horizontal axis.
        y: The vertical axis.
        series: What is drawn.
        is_scatter: Whether places along x were measured: no line joins marks, which stay where they are.
        form: `lines`; `bars` of medians at categories, stacked in the order of series; or `cells` at categories, a map
            of colours: series are rows.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    form: Literal["lines", "bars", "cells"] = "lines"
    is_scatter: bool = False

    def marks(self, roles: Container[Role] = tuple(Role)) -> list[Mark]:
        """Return the marks of all series that have one of these roles."""
        return [mark for series in self.series if series.role in roles for mark in series.marks]

    @property
    def places(self) -> list[float]:
        """The places of all marks, each once, in their order."""
        return sorted({mark.x for mark in self.marks()})


@dataclass(frozen=True)
class Chart:
    """A figure: panels in rows of `columns`, a title, and what its caption says of it.

    Attributes:
        title: What it shows, as a sentence or a noun phrase without a full stop.
        panels: In reading order.
        columns: Panels in one row.
        lead: The sentence that its caption begins with: what a reader must know to read it; may be empty.
        notes: Sentences for the details: definitions, what was left out and why.
        runs: The run_ids whose values are in it, for `n` and the hardware in the caption.
    """

    title: str
    panels: tuple[Panel, ...]
    columns: int = 3
    lead: str = ""
    notes: tuple[str, ...] = ()
    runs: frozenset[tuple[str, str]] = frozenset()

    def marks(self, roles: Container[Role] = tuple(Role)) -> list[Mark]:
        """Return the marks of all panels whose series have one of these roles."""
        return [mark for panel in self.panels for mark in panel.marks(roles)]


class Hues:
    """Numbers of colours: one for each label, the same in all charts that it is asked about, by first appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}

    def applied(self, chart: Chart) -> Chart:
        """Return the chart with the number of each series; neutral ideals, and parts, keep theirs.

        Base lines are grey: their numbers are those of their markers.
        """
        panels = [replace(panel, series=tuple(map(self._numbered, panel.series))) for panel in chart.panels]
        return replace(chart, panels=tuple(panels))

    def _numbered(self, series: Series) -> Series:
        if series.role in (Role.IDEAL, Role.TOTAL) or series.palette == "parts":
            return series
        numbers = self._numbers.setdefault("grey" if series.role is Role.BASE_LINE else series.palette, {})
        return replace(series, hue=numbers.setdefault(series.like or series.label, len(numbers)))


def ringed(chart: Chart) -> frozenset[str]:
    """Return the flags that are drawn as rings: what all marks have, or most but for FAULTS, is said in words."""
    valued = [mark.flags.split(";") for mark in chart.marks(OF_RUNS) if mark.interval]
    counts = Counter(flag for flags in valued for flag in flags if flag)
    most = {flag: len(valued) - 1 if flag in FAULTS else len(valued) // 2 for flag in counts}
    return frozenset(flag for flag, count in counts.items() if count <= most[flag])


def chart_rows(name: str, chart: Chart) -> list[dict[str, object]]:
    """Return a row for each mark of a chart, with the keys COLUMNS in order; what is unknown is None.

    Args:
        name: The figure's.
        chart: What it shows.
    """
    return [
        _row(name, panel, series, mark) for panel in chart.panels for series in panel.series for mark in series.marks
    ]


def chart_csv(name: str, chart: Chart) -> str:
    """Return the rows of a chart as CSV; texts that a spreadsheet would compute get a `'` in front."""
    return line(COLUMNS) + "".join(line(map(defused, row.values())) for row in chart_rows(name, chart))


def _row(name: str, panel: Panel, series: Series, mark: Mark) -> dict[str, object]:
    interval = mark.interval
    value, low, high, coverage = (_number(getattr(interval, key, None)) for key in ("value", "low", "high", "coverage"))
    # An ideal, a fit and a published number stand for no runs.
    num_runs = None if series.role not in OF_RUNS else interval.n if interval else len(mark.points)
    x = _number(mark.x)
    is_whole = x is not None and x.is_integer() and abs(x) < 2**53
    category = panel.x.categories[int(mark.x)] if is_whole and 0 <= mark.x < len(panel.x.categories) else None
    cells = (
        name, panel.title or None, series.label or None, str(series.role), panel.x.label or None,
        int(mark.x) if is_whole else x, category, panel.y.label or None, value, low, high, num_runs, coverage,
        len(mark.ended), mark.num_failed, series.emulated or None, mark.flags or None,
    )  # fmt: skip
    return dict(zip(COLUMNS, cells, strict=True))


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
