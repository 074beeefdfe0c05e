"""What marks on the page say where the mouse rests: a run with its repeat and value, or a median with its interval.

An artist's group id carries the texts into the SVG, as JSON; `inline_svg` makes titles of them.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import accuracy, number, percent
from dlbench.report.chart import Axis, Mark, Series
from dlbench.report.formatting import one_line

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

_UNIT = re.compile(r"(.*) \((.*)\)")
# The repeat at the end of a run_id.
_REPEAT = re.compile(r".*-r(\d+)")


def say(artist: "Artist", texts: Sequence[str]) -> None:
    """Have the marks of an artist say texts, one each in the order of drawing."""
    artist.set_gid(json.dumps(texts))


def taken(figure: "Figure") -> list[tuple["Artist", str]]:
    """Silence a figure, for files; return who said what."""
    said_by = [(artist, gid) for artist in figure.findobj() if (gid := artist.get_gid() or "").startswith("[")]
    for artist, _ in said_by:
        artist.set_gid(None)
    return said_by


def say_all(said_by: Iterable[tuple["Artist", str]]) -> None:
    """Have artists say what they said before `taken`."""
    for artist, gid in said_by:
        artist.set_gid(gid)


def said(group_id: str) -> list[str]:
    """Return the texts that `say` gave to an artist with this group id; none of another."""
    return list(json.loads(group_id)) if group_id.startswith("[") else []


def of_points(marks: Iterable[Mark], axis: Axis) -> list[str]:
    """Return a text for each point of each mark."""
    return [text for mark in marks for text in _of_runs(mark.runs, mark.points, axis)]


def of_ended(marks: Iterable[Mark], axis: Axis) -> list[str]:
    """Return a text for each run of each mark that ended before it reached what is shown."""
    return [text for mark in marks for text in _of_runs(mark.ended_runs, mark.ended, axis, "at least ")]


def of_mark(series: Series, mark: Mark, axis: Axis) -> list[str]:
    """Return the texts of a median and of its runs."""
    return [of_median(series, mark, axis), *of_points([mark], axis), *of_ended([mark], axis)]


def of_median(series: Series, mark: Mark, axis: Axis) -> str:
    """Return what is known of a mark as a whole; empty where nothing is."""
    interval, name = mark.interval, one_line(", ".join(filter(None, (series.label, mark.name))))
    if interval is None:
        return ""
    text = f"{name}: {_quantity(axis)}{value_text(interval.value, axis)}"
    if interval.low is None or interval.high is None:
        return text
    return f"{text} [{value_text(interval.low, axis)}, {value_text(interval.high, axis)}], median of {interval.n} runs"


def value_text(value: float, axis: Axis) -> str:
    """Return a value with its unit: `6.24 s`, `85%`."""
    unit = None if axis.percent else _UNIT.fullmatch(axis.label)
    return f"{written(axis)(value)} {unit.group(2)}" if unit else written(axis)(value)


def written(axis: Axis) -> Callable[[float], str]:
    """Return what writes the values of an axis; accuracies have an end."""
    return percent if axis.percent else accuracy if axis.most == 1 else number


def _quantity(axis: Axis) -> str:
    name = one_line(_UNIT.sub(r"\1", axis.label))
    return f"{name} " if name else ""


def _of_runs(runs: Sequence[str], values: Sequence[float], axis: Axis, bound: str = "") -> Iterable[str]:
    for run, value in zip(runs if len(runs) == len(values) else [""] * len(values), values, strict=True):
        repeat = _REPEAT.fullmatch(run)
        who = f"run {one_line(run)}{f', repeat {repeat.group(1)}' if repeat else ''}: " if run else ""
        yield f"{who}{_quantity(axis)}{bound}{value_text(value, axis)}"
