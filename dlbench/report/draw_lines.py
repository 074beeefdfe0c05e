"""Panels of lines: medians joined, every point, intervals as bars, runs that ended early, runs that failed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from matplotlib.transforms import ScaledTranslation

from dlbench.report.axes import POINTS, category_ticks, frame, name_axes, name_ticks, number_ticks, size_pt, value_ticks
from dlbench.report.chart import Axis, Mark, Panel, Role, Series
from dlbench.report.looks import AT_LEAST_MARKER, FAILED_MARKER, MARKER_PT, SEEN, SMALL_MARKER_PT, Look, face, look
from dlbench.report.scales import backward, can_show, forward, limits
from dlbench.report.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

# Points of one place are spread over this share of the axis.
SPREAD = 0.02
# A line through more places than this has markers at some of them only.
MOST_MARKERS, FEW_MARKERS = 24, 8
# More points than this in one series are drawn as one image inside the picture.
MOST_POINTS = 2_000
# Height of the strip below all values where failed runs are counted, and where crosses and counts stand in it.
STRIP_PT, CROSS_PT, COUNT_PT = 28.0, 6.0, 7.5
ALARM_PT = 5.5
# Series that have values at one place stand so far apart there, and take so much of the room to the next place at most.
APART_PT, MOST_APART = 4.0, 0.35


@dataclass(frozen=True)
class Dots:
    """Places and values of points, in the same order."""

    xs: Sequence[float]
    ys: Sequence[float]


def draw_lines(axes: "Axes", panel: Panel, style: Style) -> None:
    """Draw a panel of lines into empty axes."""
    marks = [mark for series in panel.series for mark in series.marks]
    values = [value for mark in marks for value in values_of(mark)]
    strip = STRIP_PT / size_pt(axes)[1] if any(mark.num_failed for mark in marks) else 0.0
    frame(axes, panel, _ends(panel.x, [mark.x for mark in marks]), _ends(panel.y, values, strip))
    asides = asides_pt(axes, panel)
    _widen(axes, panel, max(map(abs, asides), default=0.0))
    for series, aside in zip(panel.series, asides, strict=True):
        draw_series(axes, panel, series, style, aside)
    draw_failures(axes, panel, style)
    dress(axes, panel, values, style)


def asides_pt(axes: "Axes", panel: Panel) -> list[float]:
    """Return how far each series is drawn beside its places, so that intervals at one place do not hide each other.

    Lines that nobody ran, and long ones, are where they are.
    """
    own = [series for series in panel.series if series.role in SEEN]
    known = [{mark.x for mark in series.marks if can_show(mark.x, panel.x.scale)} for series in own]
    places = sorted(set().union(*known))
    if not 0 < len(places) <= MOST_MARKERS or sum(map(len, known)) == len(places):
        return [0.0] * len(panel.series)
    place = forward(panel.x.scale)
    low, high = map(place, axes.get_xlim())
    apart = min((place(right) - place(left) for left, right in pairwise(places)), default=high - low)
    nearest = apart / (high - low) * size_pt(axes)[0]
    step = min(APART_PT, MOST_APART * nearest / (len(own) - 1))
    numbers = {id(series): number - (len(own) - 1) / 2 for number, series in enumerate(own)}
    return [step * numbers.get(id(series), 0.0) for series in panel.series]


def _widen(axes: "Axes", panel: Panel, most_pt: float) -> None:
    """Give series that are drawn aside as much room at both ends."""
    place, value = forward(panel.x.scale), backward(panel.x.scale)
    low, high = map(place, axes.get_xlim())
    more = most_pt / size_pt(axes)[0] * (high - low)
    axes.set_xlim(value(low - more), value(high + more))


def values_of(mark: Mark) -> list[float]:
    """Return every number at one place that has to be in sight."""
    interval = mark.interval
    known = (interval.value, interval.low, interval.high) if interval else ()
    return [*mark.points, *mark.ended, *(value for value in known if value is not None)]


def _ends(axis: Axis, values: Iterable[float], strip: float = 0.0) -> tuple[float, float]:
    """Return the limits of an axis; categories have a slot each."""
    if not axis.categories:
        return limits(axis, values, strip=strip)
    beyond = [value for value in values if can_show(value, "linear")]
    low, high = min(beyond, default=0.0), max(beyond, default=0.0)
    low, high = min(low, 0.0) - 0.5, max(high, len(axis.categories) - 1.0) + 0.5
    return low - strip * (high - low), high


def dress(axes: "Axes", panel: Panel, values: Sequence[float], style: Style) -> None:
    """Put ticks and labels on axes whose limits are set; without any value there are none to read it by."""
    if panel.x.categories:
        category_ticks(axes, panel.x.categories, style)
    else:
        number_ticks(axes, panel, style)
    if panel.y.categories:
        name_ticks(axes, panel.y.categories, style)
    elif any(can_show(value, panel.y.scale) for value in values):
        value_ticks(axes, panel.y, limits(panel.y, values)[0])
    else:
        axes.set_yticks([])
    name_axes(axes, panel.x.label, panel.y.label, style)


def draw_series(axes: "Axes", panel: Panel, series: Series, style: Style, aside_pt: float = 0.0) -> None:
    """Draw one series, aside from its places: its points, its intervals, what is at least so much, and its line."""
    found = look(series, style)
    moved = axes.transData + ScaledTranslation(aside_pt / POINTS, 0, axes.figure.dpi_scale_trans)
    marks = [mark for mark in series.marks if can_show(mark.x, panel.x.scale)]
    if any(mark.points for mark in marks):
        _draw_dots(axes, _dots(axes, panel, [(mark.x, mark.points) for mark in marks]), found, moved)
    if any(mark.ended for mark in marks):
        ended = _dots(axes, panel, [(mark.x, mark.ended) for mark in marks])
        axes.plot(
            ended.xs, ended.ys, AT_LEAST_MARKER, color=found.colour, markerfacecolor="none",
            markersize=MARKER_PT + 1, zorder=found.order + 1, transform=moved,
        )  # fmt: skip
    _draw_intervals(axes, panel, marks, found, moved)
    _draw_line(axes, panel, series, marks, style, moved)


def _draw_line(
    axes: "Axes", panel: Panel, series: Series, marks: Sequence[Mark], style: Style, moved: "Transform"
) -> None:
    """Join medians; where one is unknown the line is broken, and between categories there is none."""
    found = look(series, style)
    medians = [_median(mark, panel.y) for mark in marks]
    num_known = sum(not math.isnan(median) for median in medians)
    is_joined = not panel.x.categories or series.role in (Role.IDEAL, Role.FITTED)
    axes.plot(
        [mark.x for mark in marks],
        medians,
        color=found.colour,
        linestyle=found.dash if is_joined else "none",
        linewidth=found.line_pt,
        # A line without markers through one place would not be seen.
        marker=found.marker or ("_" if num_known == 1 else "none"),
        markersize=found.marker_pt,
        markerfacecolor=face(found, style),
        markevery=_every(len(marks), series.hue),
        zorder=found.order,
        transform=moved,
    )


def _every(num_marks: int, hue: int) -> tuple[int, int]:
    """Return the first mark with a marker and the distance to the next; on long lines not the same for all series."""
    if num_marks <= MOST_MARKERS:
        return 0, 1
    distance = math.ceil(num_marks / FEW_MARKERS)
    return hue % distance, distance


def _median(mark: Mark, axis: Axis) -> float:
    if mark.interval is None or not can_show(mark.interval.value, axis.scale):
        return math.nan
    return mark.interval.value


def _dots(axes: "Axes", panel: Panel, places: Iterable[tuple[float, tuple[float, ...]]]) -> Dots:
    """Spread the values of each place a little to both sides, so that equal ones are seen; always in the same way."""
    place, value = forward(panel.x.scale), backward(panel.x.scale)
    low, high = (place(end) for end in axes.get_xlim())
    xs: list[float] = []
    ys: list[float] = []
    for x, found in places:
        seen = [y for y in found if can_show(y, panel.y.scale)]
        shares = [(number + 0.5) / len(seen) - 0.5 for number in range(len(seen))]
        xs += [value(place(x) + share * SPREAD * (high - low)) for share in shares]
        ys += seen
    return Dots(xs, ys)


def _draw_dots(axes: "Axes", dots: Dots, found: Look, moved: "Transform") -> None:
    axes.plot(
        dots.xs,
        dots.ys,
        "o",
        color=found.colour,
        markersize=SMALL_MARKER_PT,
        markeredgewidth=0.5,
        markerfacecolor="none" if found.is_hollow else found.colour,
        alpha=0.6,
        zorder=1.9,
        rasterized=len(dots.xs) > MOST_POINTS,
        transform=moved,
    )


def _draw_intervals(axes: "Axes", panel: Panel, marks: Iterable[Mark], found: Look, moved: "Transform") -> None:
    """Draw each interval as a bar with ends; one that reaches what the axis cannot show ends at its edge."""
    floor = axes.get_ylim()[0]
    bars = [
        (mark.x, interval.low if can_show(interval.low, panel.y.scale) else floor, interval.high)
        for mark in marks
        if (interval := mark.interval) is not None
        and interval.low is not None
        and interval.high is not None
        and can_show(interval.high, panel.y.scale)
    ]
    is_dense = len(bars) > MOST_MARKERS
    if bars:
        # One broken line is a tenth of the size of as many lines as there are bars.
        axes.plot(
            [x for x, _, _ in bars for x in (x, x, math.nan)],
            [y for _, low, high in bars for y in (low, high, math.nan)],
            color=found.colour,
            linewidth=0.5 if is_dense else 1.0,
            marker="none" if is_dense else "_",
            markersize=4,
            markeredgewidth=1.0,
            zorder=found.order,
            transform=moved,
        )


def draw_failures(axes: "Axes", panel: Panel, style: Style) -> None:
    """Count, in the strip below all values, the runs at each place that did not complete."""
    counts: dict[float, int] = {}
    for mark in (mark for series in panel.series for mark in series.marks):
        if mark.num_failed and can_show(mark.x, panel.x.scale):
            counts[mark.x] = counts.get(mark.x, 0) + mark.num_failed
    if not counts:
        return
    up = ScaledTranslation(0, CROSS_PT / POINTS, axes.figure.dpi_scale_trans)
    axes.plot(
        list(counts), [0.0] * len(counts), FAILED_MARKER, color=style.alarm, markersize=ALARM_PT, markeredgewidth=1.4,
        transform=axes.get_xaxis_transform() + up, clip_on=False, zorder=4,
    )  # fmt: skip
    for x, count in counts.items():
        axes.annotate(
            str(count), (x, 0), xycoords=axes.get_xaxis_transform(), xytext=(0, COUNT_PT), textcoords="offset points",
            ha="center", va="bottom", color=style.foreground, size=style.small_pt,
        )  # fmt: skip
