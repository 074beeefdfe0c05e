"""Scales and ticks: matplotlib's locators, at the values that occur where somebody chose them."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
    PercentFormatter,
    ScalarFormatter,
)

from dlbench.report.chart import Axis, Panel, Scale
from dlbench.report.formatting import tick
from dlbench.report.rendering.series_style import OF_VALUES
from dlbench.report.rendering.style import Style, letter_pt, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Locator

# Beyond these limits sums and powers of floats overflow.
SMALLEST, LARGEST = 1e-300, 1e300
BASES = {"log2": 2, "log10": 10}
MAX_TICKS = 6
# The series of a logarithmic axis of powers of ten, by which several ticks stand far enough apart.
SERIES = ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), (1.0,))
LEAST_TICKS, MOST_TICKS, TICK_PT = 3, 8, 34.0
# From here on numbers have separators, as in the page's text.
THOUSAND = 1000.0
# More places than this have neither a marker nor a tick each.
MAX_MARKERS = 24
# Longest names under axes.
UPRIGHT_PT = 240.0


def can_show(value: float, scale: Scale) -> bool:
    """Whether a number has a place on a scale: finite, and above zero where it is logarithmic."""
    if not math.isfinite(value) or abs(value) > LARGEST:
        return False
    return scale == "linear" or value > SMALLEST


def scaled(axes: "Axes", places: Iterable[float]) -> list[float]:
    """Return places of the horizontal axis in the unit in which it is even: octaves, decades, or their own."""
    return list(map(float, axes.xaxis.get_transform().transform(np.array(list(places), dtype=float))))


def unscaled(axes: "Axes", places: Iterable[float]) -> list[float]:
    """Return the places that `scaled` returns these for."""
    return list(map(float, axes.xaxis.get_transform().inverted().transform(np.array(list(places), dtype=float))))


def set_ticks(axes: "Axes", panel: Panel, width_pt: float, style: Style) -> None:
    """Put ticks on both axes, whose limits are set; failed runs alone have no vertical scale."""
    axes.minorticks_off()
    if panel.x.categories:
        set_names(axes, panel.x.categories, width_pt, style)
    else:
        _set_x_ticks(axes, panel, width_pt, style)
    if not any(mark.points or mark.ended or mark.interval for series in panel.series for mark in series.marks):
        axes.set_yticks([])
        return
    axes.grid(axis="y")
    _set_locator(axes.yaxis, panel.y, *axes.get_ylim())


def _set_locator(axis: "matplotlib.axis.Axis", wanted: Axis, low: float, high: float, most: int = MOST_TICKS) -> None:
    locator = _locator(wanted, low, high, most)
    if wanted.most is not None:
        locator = FixedLocator([value for value in locator.tick_values(low, high) if value <= wanted.most + 1e-9])
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    if wanted.percent:
        axis.set_major_formatter(PercentFormatter(xmax=1.0))
    elif wanted.scale in BASES or high >= THOUSAND:
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    else:
        even = ScalarFormatter()  # the same number of digits at all ticks
        even.set_scientific(False)
        axis.set_major_formatter(even)


def _locator(axis: Axis, low: float, high: float, most: int) -> "Locator":
    """Return powers of two, or of the series of 1, 2, 5, of finer ones and of powers of ten the first that fits."""
    even = MaxNLocator(min(MAX_TICKS, most), steps=[1, 2, *([2.5] if axis.percent else []), 5, 10])
    if axis.scale not in BASES:
        return even
    series = SERIES if axis.scale == "log10" else ((1.0,),)
    candidates = [LogLocator(BASES[axis.scale], subs=subs, numticks=MAX_MARKERS) for subs in series]
    counts = [sum(low <= value <= high for value in one.tick_values(low, high)) for one in candidates]
    fitting = [one for one, count in zip(candidates, counts, strict=True) if LEAST_TICKS <= count <= most]
    some = [one for one, count in zip(candidates, counts, strict=True) if 1 < count <= most]
    return next(iter((*fitting, *some)), candidates[-1] if counts[-1] > 1 else even)


def _set_x_ticks(axes: "Axes", panel: Panel, width_pt: float, style: Style) -> None:
    """Put ticks at the places that occur, where somebody chose them and they are not too many to be labelled."""
    series = [one for one in panel.series if one.role in OF_VALUES] or panel.series
    places = sorted({float(mark.x) for one in series for mark in one.marks})
    distances, (low, high) = scaled(axes, places), scaled(axes, axes.get_xlim())
    labels = [f"{100 * place:g}%" if panel.x.percent else tick(place) for place in places]
    nearest = min((right - left for left, right in pairwise(distances)), default=math.inf)
    needed = (max(map(len, labels), default=0) + 1) * letter_pt("", style.small_pt)
    if all(map(_is_round, places)) and nearest / (high - low) * width_pt >= needed:
        axes.set_xticks(places, labels)
        return
    for most in range(max(2, int(width_pt / TICK_PT)), 0, -1):
        _set_locator(axes.xaxis, panel.x, *axes.get_xlim(), most=most)
        if _fit(axes, width_pt, style):
            break
    if len(places) <= MAX_MARKERS and all(map(_is_round, places)):
        axes.set_xticks(places, minor=True)


def _fit(axes: "Axes", width_pt: float, style: Style) -> bool:
    """Whether the labels at the ticks of the horizontal axis stand beside each other."""
    low, high = axes.get_xlim()
    ticks = sorted(value for value in axes.xaxis.get_major_locator().tick_values(low, high) if low <= value <= high)
    at = [place * width_pt / (scaled(axes, [high])[0] - scaled(axes, [low])[0]) for place in scaled(axes, ticks)]
    half_pt = [(len(tick(value)) + 1) * letter_pt("", style.small_pt) / 2 for value in ticks]
    return all(right - left >= one + other for (left, one), (right, other) in pairwise(zip(at, half_pt, strict=True)))


def _is_round(value: float) -> bool:
    """Whether a value may have been chosen (batch 96, rate 0.05) rather than measured (41.37 s)."""
    return value.is_integer() or float(f"{value:.2g}") == value


def set_names(axes: "Axes", names: Sequence[str], width_pt: float, style: Style, first: float = 0.0) -> None:
    """Put names under the horizontal axis: in lines where their words fit, else upright, and not all of too many."""
    slot = width_pt / len(names) - style.small_pt
    texts = [wrapped(name, slot, style.small_pt) for name in names]
    longest = max((len(word) * letter_pt(word, style.small_pt) for name in names for word in name.split()), default=0.0)
    if longest <= slot and all(text.count("\n") < 3 for text in texts):
        axes.set_xticks(np.arange(len(names)) + first, texts)
        return
    step = max(1, math.ceil(1.4 * style.small_pt * len(names) / width_pt))
    upright = [wrapped(name, UPRIGHT_PT, style.small_pt, max_lines=1) for name in names[::step]]
    axes.set_xticks(np.arange(0, len(names), step) + first, upright, rotation=90)
