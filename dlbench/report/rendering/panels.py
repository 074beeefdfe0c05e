"""One panel into matplotlib's axes: lines through medians, or stacked bars; `cells` draws maps."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.transforms import offset_copy

from dlbench.report.chart import Axis, Mark, Panel, Role, Series
from dlbench.report.rendering import hover
from dlbench.report.rendering.cells import columns_of, draw_cells
from dlbench.report.rendering.style import (
    AT_LEAST_MARKER,
    FAILED_MARKER,
    MARKER_PT,
    POINT_PT,
    RING_MARKER,
    RING_PT,
    Style,
    wrapped,
)
from dlbench.report.rendering.ticks import BASES, can_show, set_names, set_ticks, tick_places

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Roles with values of runs, all of which must be visible.
OF_VALUES = (Role.MEASURED, Role.BASE_LINE, Role.TOTAL, Role.PUBLISHED)
# Stacked roles; ideals, fits and published numbers are drawn over bars as lines.
STACKED = (Role.MEASURED, Role.BASE_LINE)
# Room beyond the outermost places, and to the left of names beside marks, as shares of the axis.
ROOM, ROOM_FOR_NAMES = 0.06, 0.3
# Series that share places stand so far apart, and take at most this share of the distance to the next place.
APART, MOST_APART = 0.013, 0.45
# The points of one place are spread over this share of the axis, or of a bar's slot.
SPREAD, BAR_SPREAD = 0.012, 0.3
# Lines join values at this many places: fewer are no curve. Lines of more than MOST_MARKERS have FEW_MARKERS.
CURVE, MOST_MARKERS, FEW_MARKERS = 3, 24, 8
# More points than this in one series become an image inside the picture.
MAX_POINTS = 2_000
# Between the values and the horizontal axis, for crosses and counts of failed runs.
STRIP_PT, CROSS_PT = 26.0, 20.0
BAR_WIDTH = 0.7
# So many bold letters take the room of one other.
BOLD = 0.85
# Bars are no wider than if there were this many.
FEWEST_SLOTS = 4
PERCENT_TOP = 1.1
# A mark, its place on the horizontal axis, and the height that it stands on.
Stand = tuple[float, Mark, float]
NOTHING = "nothing to show here:\nno run has these values"


def draw_panel(axes: "Axes", panel: Panel, letters: int, style: Style, rings: frozenset[str] = frozenset()) -> None:
    """Draw a panel into empty axes, with its title, labels and ticks.

    Args:
        axes: Where to draw.
        panel: What to draw.
        letters: How many letters fit beside each other.
        style: Colours and sizes.
        rings: Flags of marks that get a ring, or a star in a cell.
    """
    axes.set_title(wrapped(panel.title, int(BOLD * letters)))
    labels = (wrapped(panel.x.label, letters, 2), wrapped(num_left_out(panel), letters))
    axes.set_xlabel("\n".join(filter(None, labels)))
    if not has_content(panel):
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=axes.transAxes)
        return
    if panel.form == "cells":
        draw_cells(axes, panel, letters, style, rings)
        return
    axes.set_ylabel(wrapped(panel.y.label, 30, 2))
    panel = drawable(slotted(panel) if panel.form == "bars" else panel)
    for axis, set_scale in ((panel.x, axes.set_xscale), (panel.y, axes.set_yscale)):
        if axis.scale in BASES:
            set_scale("log", base=BASES[axis.scale])
    _limit_x(axes, panel)
    if panel.form == "bars":
        _draw_bars(axes, panel, style)
    shifts = shifts_of(axes, panel)
    for series, shift in zip(panel.series, shifts, strict=True):
        if panel.form == "lines" or series.role not in STACKED:
            _draw_line(axes, panel, series, shift, style, rings)
    _limit_y(axes, panel.y)
    _draw_failures(axes, panel, style)
    if panel.x.categories:
        set_names(axes, panel.x.categories, letters)
    else:
        of_runs = [one for one in panel.series if one.role in OF_VALUES] or panel.series
        tick_places(axes, panel.x, sorted({float(mark.x) for one in of_runs for mark in one.marks}), letters)
    if any(mark.points or mark.ended or mark.interval for one in panel.series for mark in one.marks):
        set_ticks(axes.yaxis, panel.y)
    else:  # failed runs alone
        axes.set_yticks([])


def has_content(panel: Panel) -> bool:
    """Whether anything of a panel can be drawn."""
    return any(
        can_show(mark.x, panel.x.scale) and (mark.num_failed or _values(mark))
        for series in panel.series
        for mark in series.marks
    )


def num_left_out(panel: Panel) -> str:
    """Say how many values of runs have no place on the axes of lines or bars; NaN (unknown) does not count."""
    x, y = panel.x.scale, panel.y.scale
    if panel.form == "bars":
        x = y = "linear"
    count = 0
    for mark in (mark for one in panel.series if one.role in OF_VALUES for mark in one.marks):
        count += 0 if can_show(mark.x, x) else mark.num_failed
        count += sum(not (can_show(mark.x, x) and can_show(value, y)) for value in _values(mark))
    why = "not finite" if x == y == "linear" else "at or below 0 on a logarithmic scale, or not finite"
    return f"{count} value{'' if count == 1 else 's'} not shown: {why}" if count and panel.form != "cells" else ""


def _values(mark: Mark) -> list[float]:
    """Return the values of runs at a place; of a median without its runs the median."""
    alone = (mark.interval.value,) if mark.interval and not mark.points else ()
    return [value for value in (*mark.points, *mark.ended, *alone) if not math.isnan(value)]


def drawable(panel: Panel) -> Panel:
    """Return a panel of lines or bars without what has no place on its axes."""

    def cleaned(mark: Mark) -> Mark:
        shown, late = ([can_show(value, panel.y.scale) for value in values] for values in (mark.points, mark.ended))
        kept = {"points": shown, "runs": shown, "ended": late, "ended_runs": late}
        parts: dict[str, Any] = {name: tuple(compress(getattr(mark, name), which)) for name, which in kept.items()}
        is_shown = mark.interval and can_show(mark.interval.value, panel.y.scale)
        return replace(mark, interval=mark.interval if is_shown else None, **parts)

    series = [
        replace(one, marks=tuple(cleaned(mark) for mark in one.marks if can_show(mark.x, panel.x.scale)))
        for one in panel.series
    ]
    return replace(panel, series=tuple(series))


def slotted(panel: Panel) -> Panel:
    """Return the panel with a linear vertical axis, and each place on the horizontal one as a category."""
    y = replace(panel.y, scale="linear", low=0.0 if panel.y.low is None else min(panel.y.low, 0.0))
    places, names = columns_of(panel)
    slots = {place: float(slot) for slot, place in enumerate(places)}
    series = tuple(
        replace(one, marks=tuple(replace(mark, x=slots[mark.x]) for mark in one.marks if mark.x in slots))
        for one in panel.series
    )
    return replace(panel, x=Axis(panel.x.label, categories=tuple(names)), y=y, series=series)


def is_joined(panel: Panel, series: Series) -> bool:
    """Whether a line joins the values of a series: through two places, or categories, it would suggest a trend."""
    if series.role not in OF_VALUES:
        return True
    places = {mark.x for mark in series.marks if mark.interval}
    return panel.form == "lines" and not (panel.x.categories or panel.is_scatter) and len(places) >= CURVE


def moved(axes: "Axes", xs: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return places moved to the right by shares of the horizontal axis, whatever its scale."""
    scale = axes.xaxis.get_transform()
    low, high = scale.transform(np.array(axes.get_xlim()))
    at = scale.transform(np.array(xs, dtype=float)) + np.array(shares) * (high - low)
    return [float(x) for x in scale.inverted().transform(at)]


def shifts_of(axes: "Axes", panel: Panel) -> list[float]:
    """Return by what share of the axis each series stands aside, so that marks at one place do not hide each other.

    Lines without runs and long ones stay, and so do the marks of a panel whose places are measured. Real and emulated
    runs of one way share a slot.
    """
    own = [one for one in panel.series if one.role in OF_VALUES and (panel.form == "lines" or one.role not in STACKED)]
    counts = Counter(mark.x for one in own for mark in one.marks)
    places, own = sorted(counts), [one for one in own if any(counts[mark.x] > 1 for mark in one.marks)]
    slots = list(dict.fromkeys(one.label for one in own))
    if panel.is_exact or panel.is_scatter or not slots or len(places) > MOST_MARKERS:
        return [0.0] * len(panel.series)
    scale = axes.xaxis.get_transform()
    low, high = scale.transform(np.array(axes.get_xlim()))
    nearest = min((b - a for a, b in pairwise(scale.transform(np.array(places, dtype=float)))), default=high - low)
    step = min(APART, MOST_APART * nearest / (high - low) / len(slots))
    middle = (len(slots) - 1) / 2
    return [step * (slots.index(one.label) - middle) if one in own else 0.0 for one in panel.series]


def _limit_x(axes: "Axes", panel: Panel) -> None:
    """Put the ends of the horizontal axis beyond its places and the ends that it asks for."""
    if panel.x.categories:
        axes.set_xlim(-0.5, len(panel.x.categories) - 0.5)
        return
    marks = [mark for one in panel.series for mark in one.marks]
    asked = [end for end in (panel.x.low, panel.x.high) if end is not None and can_show(end, panel.x.scale)]
    scale = axes.xaxis.get_transform()
    places = scale.transform(np.array([*asked, *(mark.x for mark in marks)], dtype=float))
    low, high = float(places.min()), float(places.max())
    span = high - low or (1.0 if panel.x.scale in BASES else abs(low) or 1.0)
    left = ROOM_FOR_NAMES if any(mark.name for mark in marks) else ROOM
    ends = scale.inverted().transform(np.array([low - left * span, high + ROOM * span]))
    axes.set_xlim(panel.x.low if panel.x.low == min((mark.x for mark in marks), default=0) else ends[0], ends[1])


def _limit_y(axes: "Axes", wanted: Axis) -> None:
    """Extend the vertical axis to the ends it asks for; values outside of them stay in sight."""
    bottom, top = axes.get_ylim()
    least, most = axes.dataLim.intervaly if np.isfinite(axes.dataLim.intervaly).all() else (bottom, top)
    low, high = wanted.low, wanted.high
    if wanted.percent and wanted.scale == "linear":
        low, high = low or 0.0, high or PERCENT_TOP
    if low is not None and can_show(low, wanted.scale) and low <= least:
        bottom = low
        top = top if wanted.scale in BASES else max(top, most + ROOM * (most - bottom))  # the highest markers are whole
    if high is not None and most <= high:
        top = high
    if wanted.most is not None:
        top = min(top, wanted.most + ROOM * (wanted.most - bottom))
    axes.set_ylim(bottom, top)


def _draw_line(axes: "Axes", panel: Panel, series: Series, shift: float, style: Style, rings: frozenset[str]) -> None:
    """Draw the runs of a series, its intervals and the line through its medians, moved sideways."""
    looks, marks = style.line(series, is_joined=is_joined(panel, series)), series.marks
    if not marks:
        return
    xs = moved(axes, [mark.x for mark in marks], [shift] * len(marks))
    stands = [(x, mark, 0.0) for x, mark in zip(xs, marks, strict=True)]
    _draw_runs(axes, panel, stands, looks["color"], SPREAD, is_hollow=bool(series.emulated))
    medians = [mark.interval.value if mark.interval else math.nan for mark in marks]
    if looks["marker"] == "none" and len(marks) == 1:
        looks["marker"] = "_"  # a line without markers would be invisible at one place
    every = 1 if len(marks) <= MOST_MARKERS else math.ceil(len(marks) / FEW_MARKERS)
    first = series.hue % every  # long lines have their markers at different places
    (line,) = axes.plot(xs, medians, markevery=(first, every), **looks)
    hover.say(line, [hover.of_median(series, mark, panel.y) for mark in marks[first::every] if mark.interval])
    for x, median, mark in zip(xs, medians, marks, strict=True):
        if rings.intersection(mark.flags.split(";")) and mark.interval:
            axes.plot([x], [median], **look("ring", style.foreground), zorder=3.5)
        if mark.name and mark.interval:  # on a Pareto front no other arm is to the left and below
            axes.annotate(mark.name, (x, median), (-4, -4), textcoords="offset points", ha="right", va="top")


def look(kind: Literal["ring", "at least", "cross"], colour: str) -> dict[str, Any]:
    """Return matplotlib's settings of marks that are explained once: flagged, ended before, and failed runs."""
    marker, size, edge = {
        "ring": (RING_MARKER, RING_PT, 0.9), "at least": (AT_LEAST_MARKER, MARKER_PT + 1, 1.0),
        "cross": (FAILED_MARKER, 5.5, 1.4),
    }[kind]  # fmt: skip
    return {
        "marker": marker, "color": colour, "markersize": size, "markeredgewidth": edge, "markerfacecolor": "none",
        "linestyle": "none",
    }  # fmt: skip


def _draw_runs(
    axes: "Axes", panel: Panel, stands: Sequence[Stand], colour: str, spread: float, *, is_hollow: bool = False
) -> None:
    """Draw a dot for each run, those of one place side by side, a triangle for each that ended before, and intervals.

    An interval that reaches below a logarithmic axis ends at its edge.
    """
    dot = {
        "marker": "o", "color": colour, "markersize": POINT_PT, "markeredgewidth": 0.5, "alpha": 0.6,
        "linestyle": "none", "markerfacecolor": "none" if is_hollow else colour,
    }  # fmt: skip
    marks = [mark for _, mark, _ in stands]
    for values, looks, order, texts in (
        ([mark.points for mark in marks], dot, 1.9, hover.of_points(marks, panel.y)),
        ([mark.ended for mark in marks], look("at least", colour), 3.4, hover.of_ended(marks, panel.y)),
    ):
        at = [
            (x, spread * ((n + 0.5) / len(found) - 0.5), bottom + value)
            for (x, _, bottom), found in zip(stands, values, strict=True)
            for n, value in enumerate(found)
        ]
        if at:
            xs, shares, ys = zip(*at, strict=True)
            (dots,) = axes.plot(moved(axes, xs, shares), ys, **looks, zorder=order, rasterized=len(ys) > MAX_POINTS)
            hover.say(dots, texts)
    ends = [
        (x, bottom + one.low, bottom + one.high)
        for x, mark, bottom in stands
        if (one := mark.interval) and one.low is not None and one.high is not None
        if can_show(one.low, "linear") and can_show(one.high, "linear")
    ]
    is_dense = len(ends) > MOST_MARKERS
    if ends:  # one broken line is drawn in half of the time of `errorbar`, and a tenth of its size
        axes.plot(
            [x for x, _, _ in ends for x in (x, x, math.nan)],
            [y for _, low, high in ends for y in (low, high, math.nan)],
            color=colour, linewidth=0.5 if is_dense else 1.0, marker="none" if is_dense else "_", markersize=4,
            markeredgewidth=1.0, zorder=2.4,
        )  # fmt: skip


def _draw_bars(axes: "Axes", panel: Panel, style: Style) -> None:
    """Draw stacked bars, the first series at the bottom, with runs and intervals at the end of each part.

    Each part stands on those before it; negative ones hang below zero.
    """
    slots = len(panel.x.categories)
    width, spread = BAR_WIDTH * min(1.0, slots / FEWEST_SLOTS), BAR_SPREAD / max(slots, FEWEST_SLOTS)
    tops: dict[tuple[float, bool], float] = {}
    for series in panel.series:
        if series.role not in STACKED:
            continue
        stands = []
        for mark in series.marks:
            height = mark.interval.value if mark.interval else 0.0
            bottom = tops.get((mark.x, height < 0), 0.0)
            tops[mark.x, height < 0] = bottom + height
            stands.append((mark.x, mark, bottom))
            if height:
                (box,) = axes.bar(mark.x, height, width, bottom, zorder=1.5, **style.part(series))
                hover.say(box, [hover.of_median(series, mark, panel.y)])
        _draw_runs(axes, panel, stands, style.foreground, spread)
    axes.axhline(0.0, color=style.foreground, linewidth=0.8)


def _draw_failures(axes: "Axes", panel: Panel, style: Style) -> None:
    """Count the runs that did not complete, at each place, in a strip below all values."""
    counts: Counter[float] = Counter()
    for mark in (mark for series in panel.series for mark in series.marks if mark.num_failed):
        counts[mark.x] += mark.num_failed
    if not counts:
        return
    axes.spines.bottom.set_position(("outward", STRIP_PT))
    below = offset_copy(axes.get_xaxis_transform(), axes.get_figure(root=True), y=-CROSS_PT, units="points")
    axes.plot(list(counts), [0.0] * len(counts), transform=below, clip_on=False, zorder=4, **look("cross", style.alarm))
    for x, count in counts.items():
        axes.annotate(str(count), (x, 0), (0, 4), xycoords=below, textcoords="offset points", ha="center", va="bottom")
