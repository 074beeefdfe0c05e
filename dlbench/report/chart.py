"""What a figure shows, before anything is drawn: panels of series of marks. The summary files are these, as tables.

A figure file makes a `Chart` out of rows, without matplotlib; `dlbench.report.rendering` makes a picture of it.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from dlbench.analysis.statistics.intervals import Interval

Scale = Literal["linear", "log2", "log10"]


class MissingRowsError(Exception):
    """The rows that a figure needs are not there; the message says which."""


class Role(StrEnum):
    """What a series is, and so how it is drawn: solid with points, dashed, dotted, or grey."""

    MEASURED = "measured"
    BASE_LINE = "base line"
    IDEAL = "ideal"
    PUBLISHED = "published"
    FITTED = "fitted"


@dataclass(frozen=True)
class Mark:
    """What is known at one place of a series.

    Attributes:
        x: The place: a number, or the number of a category from 0.
        points: One value of each run that has one; none for an ideal, published or fitted line.
        interval: Median and interval; of a line without points, its value alone.
        ended: One value of each run that ended before it reached what is shown (censored): the value is at least that.
        num_failed: Runs here that did not complete and have no value.
    """

    x: float
    points: tuple[float, ...] = ()
    interval: Interval | None = None
    ended: tuple[float, ...] = ()
    num_failed: int = 0


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
        hue: Number of its colour and marker in the chart; series with one hue in several panels are the same thing.
    """

    label: str
    marks: tuple[Mark, ...]
    role: Role = Role.MEASURED
    emulated: str = ""
    hue: int = 0


@dataclass(frozen=True)
class Axis:
    """One axis: its label with the unit, its scale, and categories in place of numbers where it has them."""

    label: str
    scale: Scale = "linear"
    categories: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    percent: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: Distinguishes it from the chart's other panels; may be empty.
        x: The horizontal axis.
        y: The vertical axis.
        series: What is drawn.
        form: `lines`; `bars`, stacked in the order of series; or `cells`, a map of colours: series are rows.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    form: Literal["lines", "bars", "cells"] = "lines"


@dataclass(frozen=True)
class Chart:
    """A figure: panels in rows of `columns`, a title, and notes that its caption ends with.

    Attributes:
        title: What it shows, as a sentence or a noun phrase without a full stop.
        panels: In reading order.
        columns: Panels in one row.
        notes: Sentences: definitions, what was left out and why.
        runs: The run_ids whose values are in it, for `n` and the hardware in the caption.
    """

    title: str
    panels: tuple[Panel, ...]
    columns: int = 3
    notes: tuple[str, ...] = ()
    runs: frozenset[tuple[str, str]] = frozenset()


def hued(panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
    """Return the panels with one hue for each label, the same in all of them, in the order of first appearance."""
    hues: dict[str, int] = {}
    for panel in panels:
        for series in panel.series:
            if series.role in (Role.MEASURED, Role.PUBLISHED):
                hues.setdefault(series.label, len(hues))
    return tuple(
        replace(panel, series=tuple(replace(series, hue=hues.get(series.label, series.hue)) for series in panel.series))
        for panel in panels
    )
