"""Scales and ticks: matplotlib's locators, at the values that occur where somebody chose them."""

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, PercentFormatter

from dlbench.analysis.formatting import chosen
from dlbench.report.chart import Axis, Scale
from dlbench.report.rendering.style import wrapped

BASES = {"log2": 2, "log10": 10}
MAX_TICKS = 6
# Below this many powers of ten a logarithmic axis has even ticks; up to that many for a tick those of 1, 2 and 5.
FEW_DECADES, FINE_DECADES = 0.7, 0.43
# Longer names under axes are cut; rows of upright names are two letters apart.
UPRIGHT_LETTERS, LINE_LETTERS = 36, 2.2


def can_show(value: float | None, scale: Scale) -> TypeGuard[float]:
    """Whether there is a number that has a place on a scale: no huge one, and above zero where it is logarithmic."""
    # Beyond these ends sums and powers of floats overflow.
    low, high = (1e-150, 1e150) if scale in BASES else (-1e300, 1e300)
    return value is not None and low <= value <= high


def set_ticks(axis: MatplotlibAxis, wanted: Axis, num_ticks: int = MAX_TICKS) -> None:
    """Put about this many ticks on an axis whose limits are set."""
    low, high = sorted(map(float, axis.get_view_interval()))
    is_log, decades = wanted.scale in BASES, math.log10(high / low) if low > 0 else 0.0
    if wanted.scale == "log2" and high > 4 * low:
        axis.set_major_locator(LogLocator(2, numticks=num_ticks))
    elif is_log and decades >= FEW_DECADES:
        is_fine = decades < FINE_DECADES * num_ticks
        subs, most = ((1.0, 2.0, 5.0), 20) if is_fine else ((1.0,), num_ticks)
        axis.set_major_locator(LogLocator(10, subs, numticks=most))
    else:
        axis.set_major_locator(MaxNLocator(num_ticks, steps=[1, 2, 2.5, 5, 10]))
    if wanted.percent:
        axis.set_major_formatter(PercentFormatter(xmax=1.0))
    elif is_log or high >= 1000:  # from there on numbers have separators, as in the page's text
        axis.set_major_formatter(FuncFormatter(lambda value, _: chosen(value)))
    # Else matplotlib's own writes the same number of digits at all ticks.
    axis.minorticks_off()


def tick_places(axes: Axes, wanted: Axis, places: Sequence[float], letters: int) -> None:
    """Put ticks at the places that occur, where somebody chose them and their labels fit; else at round ones."""
    labels = list(map(chosen, places))
    # Somebody may have chosen batch 96 and rate 0.05, not 41.37 s.
    are_chosen = all(place.is_integer() or float(f"{place:.2g}") == place for place in places)
    if are_chosen and nearest(axes, places) * letters >= max(map(len, labels), default=0) + 1:
        axes.set_xticks(places, labels)
        axes.xaxis.minorticks_off()
    else:
        # A tick's label takes 7 letters, with the distance to the next.
        set_ticks(axes.xaxis, wanted, min(MAX_TICKS, max(2, letters // 7)))


def nearest(axes: Axes, places: Sequence[float]) -> float:
    """Return the smallest distance of two of some sorted places, as a share of the horizontal axis."""
    low, high, *at = axes.xaxis.get_transform().transform(np.array([*axes.get_xlim(), *places], dtype=float))
    return float(min(np.diff(at), default=high - low) / (high - low))


def set_names(axes: Axes, names: Sequence[str], letters: int, first: float = 0.0) -> None:
    """Put names under the horizontal axis: in lines where their words fit, else upright, and not all of too many."""
    room = letters // max(len(names), 1) - 1
    if all(len(word) <= room for name in names for word in name.split()):
        axes.set_xticks(np.arange(len(names)) + first, [wrapped(name, room) for name in names])
    else:
        step = max(1, math.ceil(LINE_LETTERS * len(names) / letters))
        texts = [wrapped(name, UPRIGHT_LETTERS, 1) for name in names[::step]]
        axes.set_xticks(np.arange(0, len(names), step) + first, texts, rotation=90)
