"""What marks say where the mouse rests: a run with its repeat and value, or a median with its interval.

An artist's group id carries the texts into the SVG, as JSON; `svg` makes titles of them.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence

from matplotlib.artist import Artist

from dlbench.analysis.formatting import Unit, accuracy, number, percent
from dlbench.report.chart import Axis, Mark, Series
from dlbench.report.formatting import one_line

_UNIT = re.compile(r"(.*) \((.*)\)")
# The repeat at the end of a run_id.
_REPEAT = re.compile(r".*-r(\d+)")


def say(artist: Artist, texts: Sequence[str]) -> None:
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
    what, unit = quantity_of(axis)
    of = f", median of {interval.n} runs" if interval.low is not None else ""
    return f"{name}: {what}{unit.with_ends(interval)}{of}"


def of_runs(runs: Sequence[str], values: Sequence[float], axis: Axis, bound: str = "") -> Iterator[str]:
    """Yield a text for each value but NaN, with its run where these are known."""
    what, unit = quantity_of(axis)
    for run, value in zip(runs if len(runs) == len(values) else [""] * len(values), values, strict=True):
        if not math.isnan(value):
            repeat = _REPEAT.fullmatch(run)
            name = f"run {one_line(run)}{f', repeat {repeat.group(1)}' if repeat else ''}: " if run else ""
            yield f"{name}{what}{bound}{unit.shown(value)}"


def quantity_of(axis: Axis) -> tuple[str, Unit]:
    """Return the beginning `training time ` of a text, and how the values of an axis are written: `6.24 s`."""
    named = _UNIT.fullmatch(axis.label)
    what, suffix = (named[1], f" {named[2]}") if named else (axis.label, "")
    # Accuracies have an end.
    written = percent if axis.percent else accuracy if axis.most == 1 else number
    return f"{one_line(what)} ".lstrip(), Unit(written, "" if axis.percent else suffix)
