"""One panel into matplotlib's axes: lines through medians, or stacked bars; `cells` draws maps."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import offset_copy

from dlbench.analysis.formatting import counted, joined
from dlbench.report.chart import OF_RUNS, Axis, Mark, Panel, Role, Series
from dlbench.report.rendering import svg
from dlbench.report.rendering.cells import BOLD, draw_cells
from dlbench.report.rendering.style import (
    CROSS,
    DASH_DOT,
    DENSE_INTERVALS,
    DOT,
    INTERVALS,
    RING,
    TRIANGLE,
    Sheet,
    legend_label,
    wrapped,
)
from dlbench.report.rendering.ticks import BASES, can_show, nearest, set_names, set_ticks, tick_places

# Roles with values of runs, all of which must be visible.
OF_VALUES = (*OF_RUNS, Role.PUBLISHED)
# Stacked roles; ideals, fits and published numbers are drawn over bars as lines.
STACKED = (Role.MEASURED, Role.BASE_LINE)
# Room beyond the outermost places, and to the left of names beside marks, as shares of the axis.
ROOM, ROOM_FOR_NAMES = 0.06, 0.3
# Lines join values at this many places: fewer are no curve. Lines of more than MOST_MARKERS have FEW_MARKERS.
CURVE, MOST_MARKERS, FEW_MARKERS = 3, 24, 8
# More points than this in one series become an image inside the picture.
MAX_POINTS = 2_000
# Between the values and the horizontal axis, for crosses and counts of failed runs.
STRIP_PT, CROSS_PT = 26.0, 20.0
# Bars take this share of their slot, and are no wider than if there were FEWEST_SLOTS.
BAR_WIDTH, FEWEST_SLOTS = 0.7, 4
NOTHING = "nothing to show here:\nno run has these values"
# Names in the legend: what marks mean that are not a series.
HOLLOW, RINGED = "hollow: emulated", "flagged: see the caption"
AT_LEAST, FAILED = "at least: the run ended before", "runs that did not complete, counted"
NO_VALUE = " (no value)"


def draw_panel(axes: Axes, panel: Panel, letters: int, sheet: Sheet) -> float:
    """Draw a panel into empty axes, with its title, labels and ticks.

    Args:
        axes: Where to draw.
        panel: What to draw.
        letters: How many letters fit beside each other.
        sheet: Colours and sizes, and the legend.

    Returns:
        The height in inches that it needs between its labels; 0 where any will do.
    """
    # Cells have no axis that names what they show.
    title = joined(panel.title, panel.y.label, sep=": ") if panel.form == "cells" else panel.title
    axes.set_title(wrapped(title, int(BOLD * letters)))
    axes.set_xlabel(joined(wrapped(panel.x.label, letters, 2), wrapped(num_left_out(panel), letters), sep="\n"))
    if not _num_values(panel, tuple(Role)):
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=axes.transAxes)
        return 0.0
    if panel.form == "cells":
        return draw_cells(axes, panel, letters, sheet)
    axes.set_ylabel(wrapped(panel.y.label, 30, 2))
    panel = drawable(panel)
    for axis, set_scale in ((panel.x, axes.set_xscale), (panel.y, axes.set_yscale)):
        if axis.scale in BASES:
            set_scale("log", base=BASES[axis.scale])
    _limit_x(axes, panel)
    if panel.form == "bars":
        _draw_bars(axes, panel, sheet)
    for series, shift in zip(panel.series, _shifts(axes, panel), strict=True):
        if panel.form == "lines" or series.role not in STACKED:
            _draw_line(axes, panel, series, shift, sheet)
    _limit_y(axes, panel.y)
    _draw_failures(axes, panel, sheet)
    if panel.x.categories:
        set_names(axes, panel.x.categories, letters)
    else:
        of_runs = panel.marks(OF_VALUES) or panel.marks()
        tick_places(axes, panel.x, sorted({float(mark.x) for mark in of_runs}), letters)
    if any(map(values_of, panel.marks())):
        set_ticks(axes.yaxis, panel.y)
    else:  # failed runs alone
        axes.set_yticks([])
    return 0.0


def num_left_out(panel: Panel) -> str:
    """Say how many values of runs have no place on the axes of lines or bars; NaN (unknown) does not count."""
    count = _num_values(panel) - _num_values(drawable(panel))
    why = "not finite, too large, or at or below 0 on a logarithmic scale"
    return f"{counted(count, 'value')} not shown: {why}" if count and panel.form != "cells" else ""


def _num_values(panel: Panel, roles: Sequence[Role] = OF_VALUES) -> int:
    return sum(mark.num_failed + len(values_of(mark)) for mark in panel.marks(roles))


def values_of(mark: Mark) -> list[float]:
    """Return the values of runs at a place; of a median without its runs the median."""
    alone = (mark.interval.value,) if mark.interval and not mark.points else ()
    return [value for value in (*mark.points, *filter(math.isfinite, mark.ended), *alone) if not math.isnan(value)]


def drawable(panel: Panel) -> Panel:
    """Return a panel of lines or bars, which begin at 0, in which values without a place on its axes are NaN."""
    y = replace(panel.y, scale="linear") if panel.form == "bars" else panel.y

    def shown(values: Sequence[float]) -> tuple[float, ...]:
        return tuple(value if can_show(value, y.scale) else math.nan for value in values)

    def cleaned(mark: Mark) -> Mark:
        interval = mark.interval if mark.interval and can_show(mark.interval.value, y.scale) else None
        return replace(mark, points=shown(mark.points), ended=shown(mark.ended), interval=interval)

    series = [
        replace(curve, marks=tuple(cleaned(mark) for mark in curve.marks if can_show(mark.x, panel.x.scale)))
        for curve in panel.series
    ]
    return replace(panel, y=y, series=tuple(series))


def _moved(axes: Axes, xs: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return places moved to the right by shares of the horizontal axis, whatever its scale."""
    scale = axes.xaxis.get_transform()
    low, high = scale.transform(np.array(axes.get_xlim()))
    at = scale.transform(np.array(xs, dtype=float)) + np.array(shares) * (high - low)
    return list(map(float, scale.inverted().transform(at)))


def _shifts(axes: Axes, panel: Panel) -> list[float]:
    """Return by what share of the axis each series stands aside, so that marks at one place do not hide each other.

    Lines without runs and long ones stay, and so do the marks of a panel whose places are measured. Real and emulated
    runs of one way share a slot. The axis grows so that all are inside; categories have room.
    """
    curves = [curve for curve in panel.series if curve.role in OF_VALUES]
    counts = Counter(mark.x for curve in curves for mark in curve.marks)
    slots = list(dict.fromkeys(curve.label for curve in curves if any(counts[mark.x] > 1 for mark in curve.marks)))
    if panel.is_scatter or panel.form == "bars" or not slots or len(counts) > MOST_MARKERS:
        return [0.0] * len(panel.series)
    # A share of the axis, but together at most this one of the distance to the next place.
    step = min(0.013, 0.45 * nearest(axes, sorted(counts)) / len(slots))
    farthest = step * (len(slots) - 1) / 2
    if not panel.x.categories:
        axes.set_xlim(*_moved(axes, axes.get_xlim(), [-farthest, farthest]))
    shifts = {label: step * slot - farthest for slot, label in enumerate(slots)}
    return [shifts.get(curve.label, 0.0) if curve.role in OF_VALUES else 0.0 for curve in panel.series]


def _limit_x(axes: Axes, panel: Panel) -> None:
    """Put the ends of the horizontal axis beyond its places."""
    if panel.x.categories:
        axes.set_xlim(-0.5, len(panel.x.categories) - 0.5)
        return
    marks = panel.marks()
    axes.update_datalim([(mark.x, 1.0) for mark in marks], updatey=False)
    axes.margins(x=ROOM)
    axes.autoscale(axis="x")
    left = -ROOM_FOR_NAMES if any(mark.name for mark in marks) else 0.0
    axes.set_xlim(*_moved(axes, axes.get_xlim(), [left, 0.0]))


def _limit_y(axes: Axes, wanted: Axis) -> None:
    """Extend the vertical axis to the ends it asks for; values outside of them stay in sight."""
    for end in (wanted.low, wanted.high):
        if can_show(end, wanted.scale):
            axes.axhline(end, visible=False).sticky_edges.y.append(end)
    axes.autoscale(axis="y")
    if wanted.most is not None:
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom, min(top, wanted.most + ROOM * (wanted.most - bottom)))


def _draw_line(axes: Axes, panel: Panel, series: Series, shift: float, sheet: Sheet) -> None:
    """Draw the runs of a series, its intervals and the line through its medians, moved sideways.

    Between two places, or categories, there is none: it would suggest a trend.
    """
    marks, medians = series.marks, {mark.x: mark.interval.value for mark in series.marks if mark.interval}
    is_curve = panel.form == "lines" and not (panel.x.categories or panel.is_scatter) and len(medians) >= CURVE
    is_joined = is_curve or series.role not in OF_VALUES
    looks = sheet.style.line(series) | ({} if is_joined else {"linestyle": "none"})
    name = series.label if panel.form == "bars" else legend_label(series)
    sheet.legend.setdefault(name if series.label in sheet.valued else name + NO_VALUE, Line2D([], [], **looks))
    xs = _moved(axes, [mark.x for mark in marks], [shift] * len(marks))
    _draw_runs(axes, panel, series, xs, sheet)
    if looks["marker"] == "none" and len(marks) == 1:
        looks["marker"] = "_"  # a line without markers would be invisible at one place
    every = 1 if len(marks) <= MOST_MARKERS else math.ceil(len(marks) / FEW_MARKERS)
    first = series.hue % every  # long lines have their markers at different places
    ys = [mark.interval.value if mark.interval else math.nan for mark in marks]
    (line,) = axes.plot(xs, ys, markevery=(first, every), **looks)
    svg.say(line, [svg.median_text(series, mark, panel.y) for mark in marks[first::every] if mark.interval])
    shown = [(x, y, mark) for x, y, mark in zip(xs, ys, marks, strict=True) if mark.interval]
    if flagged := [(x, y) for x, y, mark in shown if sheet.rings.intersection(mark.flags.split(";"))]:
        (sheet.legend[RINGED],) = axes.plot(*zip(*flagged, strict=True), color=sheet.style.foreground, **RING)
    for x, y, mark in shown:
        if mark.name:  # on a Pareto front no other arm is to the left and below
            axes.annotate(mark.name, (x, y), (-4, -4), textcoords="offset points", ha="right", va="top")


def _draw_runs(axes: Axes, panel: Panel, series: Series, xs: Sequence[float], sheet: Sheet) -> None:
    """Draw a dot for each run, those of one place side by side, a triangle for each that ended before, and intervals.

    An interval that reaches below a logarithmic axis ends at its edge.
    """
    colour, marks = sheet.style.line(series)["color"], series.marks
    pale = to_rgba(colour, 0.6)
    dot = DOT | {"color": pale, "markerfacecolor": "none" if series.emulated else pale}
    for looks, bound, of_runs in (
        (dot, "", [(mark.runs, mark.points) for mark in marks]),
        (TRIANGLE | {"color": colour}, "at least ", [(mark.ended_runs, mark.ended) for mark in marks]),
    ):
        at = [
            (x, 0.012 * ((n + 0.5) / len(values) - 0.5), value)  # spread over this share of the axis
            for x, (_, values) in zip(xs, of_runs, strict=True)
            for n, value in enumerate(values)
        ]
        if at:
            places, shares, ys = zip(*at, strict=True)
            (dots,) = axes.plot(_moved(axes, places, shares), ys, rasterized=len(at) > MAX_POINTS, **looks)
            svg.say(dots, [text for runs, values in of_runs for text in svg.run_texts(runs, values, panel.y, bound)])
    if any(math.isfinite(end) for mark in marks for end in mark.ended):
        sheet.legend[AT_LEAST] = Line2D([], [], color=sheet.style.foreground, **TRIANGLE)
    ends = [
        [(x, interval.low), (x, interval.high), (x, math.nan)]
        for x, interval in zip(xs, (mark.interval for mark in marks), strict=True)
        if interval and can_show(interval.low, "linear") and can_show(interval.high, "linear")
    ]
    if ends:  # one broken line is drawn in half of the time of `errorbar`, and a tenth of its size
        looks = DENSE_INTERVALS if len(ends) > MOST_MARKERS else INTERVALS
        axes.plot(*np.concatenate(ends).T, color=colour, **looks)


def _draw_bars(axes: Axes, panel: Panel, sheet: Sheet) -> None:
    """Draw stacked bars of medians, the first series at the bottom; negative ones hang below zero."""
    width = BAR_WIDTH * min(1.0, len(panel.x.categories) / FEWEST_SLOTS)
    tops: defaultdict[tuple[float, bool], float] = defaultdict(float)
    for series in panel.series:
        for mark in series.marks if series.role in STACKED else ():
            if mark.interval and (height := mark.interval.value):
                bottom = tops[mark.x, height < 0]
                tops[mark.x, height < 0] += height
                (box,) = axes.bar(mark.x, height, width, bottom, zorder=1.5, **sheet.style.part(series))
                svg.say(box, [svg.median_text(series, mark, panel.y)])
                sheet.legend.setdefault(series.label, Patch(**sheet.style.part(replace(series, emulated=""))))
                if series.emulated:
                    sheet.legend[HOLLOW] = Patch(facecolor="none", edgecolor=sheet.style.foreground, linestyle=DASH_DOT)
    axes.axhline(0.0, color=sheet.style.foreground, linewidth=0.8)


def _draw_failures(axes: Axes, panel: Panel, sheet: Sheet) -> None:
    """Count the runs that did not complete, at each place, in a strip below all values."""
    counts = Counter(mark.x for mark in panel.marks() for _ in range(mark.num_failed))
    if not counts:
        return
    axes.spines.bottom.set_position(("outward", STRIP_PT))
    below = offset_copy(axes.get_xaxis_transform(), axes.get_figure(root=True), y=-CROSS_PT, units="points")
    (sheet.legend[FAILED],) = axes.plot(
        list(counts), [0.0] * len(counts), color=sheet.style.alarm, transform=below, clip_on=False, **CROSS
    )
    for x, count in counts.items():
        axes.annotate(str(count), (x, 0), (0, 4), xycoords=below, textcoords="offset points", ha="center", va="bottom")
