"""What marks say where the mouse rests: a run with its repeat and value, or a median with its interval.

An artist's group id carries the texts into the SVG, as JSON; `svg` makes titles of them.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import accuracy, number, percent
from dlbench.report.chart import Axis, Mark, Series
from dlbench.report.formatting import one_line

if TYPE_CHECKING:
    from matplotlib.artist import Artist

_UNIT = re.compile(r"(.*) \((.*)\)")
# The repeat at the end of a run_id.
_REPEAT = re.compile(r".*-r(\d+)")


def say(artist: "Artist", texts: Sequence[str]) -> None:
    """Have the marks of an artist say texts, one each in the order of drawing."""
    artist.set_gid(json.dumps(texts))


def said(group_id: str) -> list[str]:
    """Return the texts that `say` gave to an artist with this group id; none of another."""
    return list(json.loads(group_id)) if group_id.startswith("[") else []


def of_mark(series: Series, mark: Mark, axis: Axis) -> list[str]:
    """Return the texts of a median and of its runs."""
    runs, ended = of_runs(mark.runs, mark.points, axis), of_runs(mark.ended_runs, mark.ended, axis, "at least ")
    return [of_median(series, mark, axis), *runs, *ended]


def of_median(series: Series, mark: Mark, axis: Axis) -> str:
    """Return what is known of a mark as a whole; empty where nothing is."""
    interval, name = mark.interval, one_line(", ".join(filter(None, (series.label, mark.name))))
    if interval is None:
        return ""
    text = f"{name}: {_quantity(axis, interval.value)}"
    if interval.low is None or interval.high is None:
        return text
    return f"{text} [{_text(interval.low, axis)}, {_text(interval.high, axis)}], median of {interval.n} runs"


def of_runs(runs: Sequence[str], values: Sequence[float], axis: Axis, bound: str = "") -> Iterator[str]:
    """Yield a text for each value but NaN, with its run where these are known."""
    for run, value in zip(runs if len(runs) == len(values) else [""] * len(values), values, strict=True):
        if math.isnan(value):
            continue
        repeat = _REPEAT.fullmatch(run)
        name = f"run {one_line(run)}{f', repeat {repeat.group(1)}' if repeat else ''}: " if run else ""
        yield name + _quantity(axis, value, bound)


def _quantity(axis: Axis, value: float, bound: str = "") -> str:
    """Return a value with its name: `training time 6.24 s`."""
    name = one_line(_UNIT.sub(r"\1", axis.label))
    return f"{name} {bound}{_text(value, axis)}".lstrip()


def _text(value: float, axis: Axis) -> str:
    """Return a value with its unit: `6.24 s`, `85%`."""
    unit = None if axis.percent else _UNIT.fullmatch(axis.label)
    return f"{written(axis)(value)} {unit.group(2)}" if unit else written(axis)(value)


def written(axis: Axis) -> Callable[[float], str]:
    """Return what writes the values of an axis; accuracies have an end."""
    return percent if axis.percent else accuracy if axis.most == 1 else number
