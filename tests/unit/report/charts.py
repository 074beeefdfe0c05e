"""Small charts made by hand: every form, every role, and what a user's own names may hold."""

from dataclasses import replace

from dlbench.analysis.statistics.intervals import median_interval
from dlbench.report.chart import Axis, Chart, Mark, Panel, Role, Series, line_mark

HOSTILE = (
    "<script>alert(1)</script>",
    "$x^2_i$ and $",
    "_underscore %s",
    "two\nlines",
    "한글 이름",
    '"quoted" & \'single\' id="a" href="#b" url(#c)',
    "=cmd|' /C calc'!A0",
    "\x1b[31mred\x00",
    "a" * 400,
    "word " * 200,
)

WORKERS = Axis("workers", "log2")
RATE = Axis("throughput (samples/s)", low=0.0)
EFFICIENCY = Axis("efficiency", percent=True)


def luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb`, 0 for black to 1 for white (WCAG 2.2, relative luminance)."""
    channels = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 for equal ones to 21 (WCAG 2.2, contrast ratio)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mark(x: float, *points: float, failed: int = 0, ended: tuple[float, ...] = ()) -> Mark:
    """Return a mark of runs with their median and interval."""
    return Mark(x, points, median_interval(points) if points else None, ended, failed)


def measured(label: str = "mpi", **settings: object) -> Series:
    marks = (mark(1, 100.0, 104.0, 102.0), mark(2, 190.0, 201.0, 195.0), mark(4, 350.0, 340.0, 361.0), mark(8, 600.0))
    return replace(Series(label, marks), **settings)  # type: ignore[arg-type]


def every_role() -> tuple[Series, ...]:
    """Return series of all roles, an emulated one, runs that ended early and runs that failed."""
    places = (1.0, 2.0, 4.0, 8.0)
    return (
        measured("mpi", hue=0),
        Series(
            "horovod", (mark(1, 90.0, 99.0), mark(2, failed=2), mark(4, 300.0, ended=(310.0,)), mark(8, 500)), hue=1
        ),
        measured("shared cores", hue=2, emulated="oversubscribed"),
        Series("one worker alone", (mark(1, 101.0, 99.0, 103.0),), Role.BASE_LINE),
        Series("ideal", tuple(line_mark(x, 102 * x) for x in places), Role.IDEAL),
        Series("paper", tuple(line_mark(x, 80 * x) for x in places), Role.PUBLISHED, hue=3),
        Series("fit of mpi", tuple(line_mark(x, 99 * x**0.9) for x in places), Role.FITTED),
    )


def lines(*series: Series, x: Axis = WORKERS, y: Axis = RATE, title: str = "digits, mlp") -> Chart:
    return Chart("Throughput against workers", (Panel(title, x, y, series or every_role()),))


def bars(**settings: object) -> Chart:
    """Return stacked parts of steps: three bars, one of which failed."""
    axis = Axis("", categories=("one worker alone", "mpi, 2 workers, batch 32", "mpi, 4 workers, batch 32"))
    series = (
        Series("waiting for data", (mark(0, 1.0, 1.2, 1.1), mark(1, 1.3, 1.2), mark(2, failed=3)), hue=0),
        Series("forward and backward", (mark(0, 8.0, 8.2, 8.1), mark(1, 8.3, 8.2)), hue=1),
        Series("all-reduce", (mark(1, 2.3, 2.2),), hue=2, emulated="oversubscribed"),
    )
    panel = Panel("mlp", axis, Axis("time per step (ms)", low=0.0), series, form="bars")
    return Chart("Where the time of a step goes", (replace(panel, **settings),))  # type: ignore[arg-type]


def cells(num_columns: int = 3, **settings: object) -> Chart:
    """Return a map of three rows, with a place where nothing is known and one where all runs failed."""
    columns = range(num_columns)
    series = (
        Series("one worker alone", (mark(0, 101.0, 99.0, 103.0),), Role.BASE_LINE),
        Series("mpi", tuple(mark(column, 100.0 * 2**column) for column in columns)),
        Series("mirrored", (mark(0, 90.0), mark(1, failed=5)), emulated="logical-devices"),
    )
    axis = Axis("workers", categories=tuple(str(2**column) for column in columns))
    panel = Panel("strong scaling", axis, Axis("throughput (samples/s)"), series, form="cells")
    return Chart("Throughput by strategy", (replace(panel, **settings),))  # type: ignore[arg-type]


def many_panels(count: int = 40, columns: int = 3, *series: Series) -> Chart:
    (panel,) = lines(*series).panels
    panels = tuple(replace(panel, title=f"panel {number}") for number in range(count))
    return Chart("Many panels", panels, columns=columns)


def hostile() -> Chart:
    """Return a chart all of whose texts are what nobody should write."""
    series = tuple(measured(label, hue=hue) for hue, label in enumerate(HOSTILE))
    panels = tuple(
        Panel(text, replace(WORKERS, label=text), replace(RATE, label=text), series[number : number + 2])
        for number, text in enumerate(HOSTILE)
    )
    named = Axis(HOSTILE[0], categories=HOSTILE)
    rows = tuple(Series(label, tuple(mark(place, 1.0) for place in range(len(HOSTILE)))) for label in HOSTILE)
    more = (
        Panel(HOSTILE[1], named, Axis(HOSTILE[2]), rows[:3], form="bars"),
        Panel(HOSTILE[8], named, Axis(HOSTILE[9]), rows, form="cells"),
    )
    return Chart(HOSTILE[9], (*panels, *more), notes=HOSTILE)


EVERY = {
    "lines": lines(),
    "bars": bars(),
    "cells": cells(),
    "wide cells": cells(24),
    "efficiency": lines(Series("mpi", (mark(1, 1.0), mark(8, 0.7, 0.75, 1.3))), y=EFFICIENCY),
    "one point": lines(Series("mpi", (mark(4, 350.0),))),
    "one value": lines(Series("mpi", (mark(1, 5.0, 5.0, 5.0), mark(2, 5.0, 5.0, 5.0)))),
    "tiny to huge": lines(Series("mpi", (mark(1, 1e-12), mark(2, 1e12))), y=Axis("bytes", "log10")),
    "zeros on logs": lines(
        Series("mpi", (mark(0, 3.0), mark(1, 0.0, -1.0, 4.0), mark(2, 8.0, float("inf")), mark(4, float("nan")))),
        y=Axis("updates", "log2"),
    ),
    "only failed": lines(Series("mpi", (mark(1, failed=3), mark(2, failed=5)))),
    "no series": Chart("Nothing", (Panel("empty", WORKERS, RATE, ()),)),
    "no panel": Chart("Nothing", ()),
    "categories": lines(
        Series("arms", (mark(0, 1.0, 2.0), mark(1, 3.0, 4.0))), x=Axis("", categories=("a plain name", "another"))
    ),
    "long axis": lines(Series("loss", tuple(mark(x, 100.0 / x, 101.0 / x) for x in range(1, 201))), x=Axis("epoch")),
    "close values": lines(Series("mpi", tuple(mark(x, 1.0) for x in (1, 2, 4, 8, 16, 32, 64, 128))), x=Axis("workers")),
    "cells without values": cells(series=(Series("mpi", (Mark(0),)),)),
}
