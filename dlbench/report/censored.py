"""Series of what some runs reached and others ended before; those are in the chart too, as at least so much."""

from dataclasses import replace

from dlbench.analysis.statistics.intervals import censored_median
from dlbench.report.chart import Mark, Role, Series
from dlbench.report.lines import Part, series

Key = tuple[Role, str, str]

# What `series` asks of runs beside what is shown; it cuts them into many pieces, each as wide as its columns.
NEEDED = ("baseline", "status", "emulated", "strategy", "workers")


def censored_series(part: Part, x: str, reached: str, ended: str) -> tuple[Series, ...]:
    """Return the series of a part as `lines.series` does, with censored values and medians that allow for them.

    Args:
        part: The runs.
        x: The column of the horizontal axis.
        reached: The column with the values of runs that reached what is shown, unknown in those that did not.
        ended: The column with what these had come to when they ended, unknown in those that reached it.
    """
    part = replace(part, runs=part.runs[list(dict.fromkeys((*NEEDED, *part.keys, x, reached, ended)))])
    known = part.runs[reached].fillna(part.runs[ended])
    whole = series(replace(part, runs=part.runs.assign(known=known)), x, "known")
    values = {column: {_key(one): one.marks for one in series(part, x, column)} for column in (reached, ended)}
    return tuple(
        replace(one, marks=_joined(one.marks, values[reached].get(_key(one), ()), values[ended].get(_key(one), ())))
        for one in whole
    )


def _key(one: Series) -> Key:
    return one.role, one.label, one.emulated


def _joined(marks: tuple[Mark, ...], reached: tuple[Mark, ...], ended: tuple[Mark, ...]) -> tuple[Mark, ...]:
    points = {mark.x: mark.points for mark in reached}
    late = {mark.x: mark.points for mark in ended}
    return tuple(_mark(mark, points.get(mark.x, ()), late.get(mark.x, ())) for mark in marks)


def _mark(mark: Mark, points: tuple[float, ...], ended: tuple[float, ...]) -> Mark:
    return replace(mark, points=points, ended=ended, interval=censored_median(points, ended))
