"""What marks on the page say where the mouse rests: a run with its repeat and value, or a median with its interval.

An artist's group id carries the texts into the SVG, as JSON; `inline_svg` makes titles of them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dlbench.report.chart import Axis, Mark, Series
from dlbench.report.formatting import number, one_line

if TYPE_CHECKING:
    from matplotlib.artist import Artist

_UNIT = re.compile(r"(.*) \((.*)\)")
# The repeat at the end of a run_id.
_REPEAT = re.compile(r".*-r(\d+)")


def say(artist: "Artist", texts: Sequence[str]) -> None:
    """Have the marks of an artist say texts, one each in the order of drawing; empty ones say nothing."""
    artist.set_gid(json.dumps(texts))


def said(group_id: str) -> list[str]:
    """Return the texts that `say` gave to an artist with this group id; none of another."""
    return list(json.loads(group_id)) if group_id.startswith("[") else []


def of_points(marks: Iterable[Mark], axis: Axis) -> list[str]:
    """Return a text for each point of each mark."""
    return [_of_run(*one, axis) for mark in marks for one in _paired(mark.runs, mark.points)]


def of_ended(marks: Iterable[Mark], axis: Axis) -> list[str]:
    """Return a text for each run of each mark that ended before it reached what is shown."""
    return [_of_run(*one, axis, "at least ") for mark in marks for one in _paired(mark.ended_runs, mark.ended)]


def of_median(series: Series, mark: Mark, axis: Axis) -> str:
    """Return what is known of a mark as a whole; empty where nothing is."""
    interval, name = mark.interval, one_line(", ".join(filter(None, (series.label, mark.name))))
    if interval is None:
        return ""
    what = f"{name}: {_quantity(axis)}{value_text(interval.value, axis)}"
    if interval.low is None or interval.high is None:
        return what
    ends = f"{value_text(interval.low, axis)}, {value_text(interval.high, axis)}"
    return f"{what} [{ends}], median of {interval.n} runs"


def value_text(value: float, axis: Axis) -> str:
    """Return a value with its unit: `6.240 s`, `85.10%`."""
    if axis.percent:
        return f"{number(100 * value)}%"
    found = _UNIT.fullmatch(axis.label)
    return f"{number(value)} {found.group(2)}" if found else number(value)


def _quantity(axis: Axis) -> str:
    found = _UNIT.fullmatch(axis.label)
    name = found.group(1) if found else axis.label
    return f"{one_line(name)} " if name else ""


def _of_run(run: str, value: float, axis: Axis, bound: str = "") -> str:
    found = _REPEAT.fullmatch(run)
    repeat = f", repeat {found.group(1)}" if found else ""
    what = f"{_quantity(axis)}{bound}{value_text(value, axis)}"
    return f"run {one_line(run)}{repeat}: {what}" if run else what


def _paired(runs: Sequence[str], values: Sequence[float]) -> Iterable[tuple[str, float]]:
    """Return each value with the name of its run, empty where it is unknown."""
    return zip(runs if len(runs) == len(values) else [""] * len(values), values, strict=True)
