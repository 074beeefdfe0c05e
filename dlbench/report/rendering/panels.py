"""One panel into matplotlib's axes: lines through medians, or stacked bars; `cells` draws maps."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from typing import TYPE_CHECKING

from matplotlib.transforms import offset_copy

from dlbench.report.chart import Axis, Mark, Panel, Role, Series
from dlbench.report.rendering import hover
from dlbench.report.rendering.cells import columns_of, draw_cells, row_name
from dlbench.report.rendering.scales import BASES, MAX_MARKERS, can_show, scaled, set_ticks, unscaled
from dlbench.report.rendering.series_style import (
    AT_LEAST_MARKER,
    FAILED_MARKER,
    FAILED_PT,
    MARKER_PT,
    OF_VALUES,
    POINT_PT,
    RING_MARKER,
    RING_PT,
    series_style,
)
from dlbench.report.rendering.style import Style, letter_pt, wrapped

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

PERCENT = (0.0, 1.1)
# Room beyond the outermost places, as a share of the axis.
ROOM = 0.06
# Series that share places stand so far apart (farther where they are not joined), and take at most this share of the
# distance to the next place.
APART_PT, LOOSE_PT, MAX_APART = 8.0, 16.0, 0.5
# Lines join values at this many places: fewer are no curve.
CURVE = 3
# The points of one place are spread over this share of the axis, or of a bar's slot.
SPREAD, BAR_SPREAD = 0.012, 0.4
# More points than this in one series become an image inside the picture.
MAX_POINTS = 2_000
# Between the values and the horizontal axis, for crosses and counts of failed runs.
STRIP_PT, CROSS_PT = 26.0, 20.0
# Longest line beside a vertical axis: the height of the smallest axes.
LABEL_PT = 140.0
# Room beside axes of numbers.
BESIDE_PT = 75.0
# A line through more places than MAX_MARKERS has markers at so many of them.
FEW_MARKERS = 8
BAR_WIDTH = 0.7
# Few bars are no wider than this.
MAX_BAR_PT = 110.0
# A name stands to the left of its mark and below: no other arm is there on a Pareto front, where names are.
NAME_GAP_PT = 4.0
# Stacked roles; ideals, fits and published numbers are drawn over bars as lines.
STACKED = (Role.MEASURED, Role.BASE_LINE)
NOTHING = "nothing to show here:\nno run has these values"


@dataclass(frozen=True)
class Bar:
    """One part of one stacked bar: the height it starts from, and its own."""

    series: Series
    mark: Mark
    bottom: float
    height: float


def draw_panel(axes: "Axes", panel: Panel, width_pt: float, style: Style, rings: frozenset[str] = frozenset()) -> None:
    """Draw a panel into empty axes, with its title, labels and ticks.

    Args:
        axes: Where to draw.
        panel: What to draw.
        width_pt: About the width of the axes in points; they get their places later.
        style: Colours and sizes.
        rings: Flags of marks that get a ring.
    """
    axes.set_title(wrapped(panel.title, width_pt, style.text_pt, bold=True, max_lines=3))
    labels = (
        wrapped(panel.x.label, width_pt, style.text_pt, max_lines=2),
        wrapped(note(panel), width_pt, style.text_pt, max_lines=3),
    )
    axes.set_xlabel("\n".join(filter(None, labels)))
    if panel.form != "cells":
        axes.set_ylabel(wrapped(panel.y.label, LABEL_PT, style.text_pt, max_lines=2))
    if has_content(panel):
        if panel.form == "lines":
            _draw_lines(axes, panel, width_pt, style, rings)
        elif panel.form == "cells":
            draw_cells(axes, panel, width_pt, style, rings)
        else:
            _draw_bars(axes, panel, width_pt, style)
    else:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=axes.transAxes)


def has_content(panel: Panel) -> bool:
    """Whether anything of a panel can be drawn."""
    return any(
        can_show(mark.x, panel.x.scale) and (mark.num_failed or _values(mark))
        for series in panel.series
        for mark in series.marks
    )


def note(panel: Panel) -> str:
    """Return what the numbers in cells are, or how many values have no place on the axes; else an empty text."""
    if panel.form == "cells":
        return f"in cells: {panel.y.label}" if panel.y.label else ""
    count = num_left_out(panel)
    is_linear = panel.form == "bars" or panel.x.scale == panel.y.scale == "linear"
    why = "not finite" if is_linear else "at or below 0 on a logarithmic scale, or not finite"
    return f"{count} value{'' if count == 1 else 's'} not shown: {why}" if count else ""


def num_left_out(panel: Panel) -> int:
    """Return how many values of runs have no place on the axes of lines or bars; NaN (unknown) does not count."""
    marks = [mark for series in panel.series if series.role in OF_VALUES for mark in series.marks]
    return sum(_num_left_out(mark, panel) for mark in marks)


def _num_left_out(mark: Mark, panel: Panel) -> int:
    is_bar = panel.form == "bars"
    if not is_bar and not can_show(mark.x, panel.x.scale):
        return len(_values(mark)) + mark.num_failed
    return sum(not can_show(value, "linear" if is_bar else panel.y.scale) for value in _values(mark))


def _values(mark: Mark) -> list[float]:
    """Return the values of runs at a place; of a median without its runs the median."""
    alone = (mark.interval.value,) if mark.interval and not mark.points else ()
    return [value for value in (*mark.points, *mark.ended, *alone) if not math.isnan(value)]


def beside_pt(panel: Panel, style: Style) -> float:
    """Return about how much room labels take beside the axes."""
    if panel.form != "cells":
        return BESIDE_PT
    names = [line for series in panel.series for line in row_name(series, style).split("\n")]
    return max((len(name) * letter_pt(name, style.small_pt) for name in names), default=0.0) + 30.0


def _draw_lines(axes: "Axes", panel: Panel, width_pt: float, style: Style, rings: frozenset[str]) -> None:
    panel = drawable(panel)
    for axis, set_scale in ((panel.x, axes.set_xscale), (panel.y, axes.set_yscale)):
        if axis.scale in BASES:
            set_scale("log", base=BASES[axis.scale])
    shifts = shifts_of(axes, panel, width_pt)
    _limit_x(axes, panel, shifts)
    for series, found in zip(panel.series, shifts, strict=True):
        _draw_series(axes, panel, series, style, found, rings)
    _limit_y(axes, panel)
    _make_room_for_names(axes, panel, width_pt, style)
    _draw_failures(axes, panel, style)
    set_ticks(axes, panel, width_pt, style)


def drawable(panel: Panel) -> Panel:
    """Return a panel of lines without what has no place on its axes."""

    def cleaned(mark: Mark) -> Mark:
        shown, late = ([can_show(value, panel.y.scale) for value in values] for values in (mark.points, mark.ended))
        return replace(
            mark,
            points=tuple(compress(mark.points, shown)),
            ended=tuple(compress(mark.ended, late)),
            runs=tuple(compress(mark.runs, shown)),
            ended_runs=tuple(compress(mark.ended_runs, late)),
            interval=mark.interval if mark.interval and can_show(mark.interval.value, panel.y.scale) else None,
        )

    series = [
        replace(one, marks=tuple(cleaned(mark) for mark in one.marks if can_show(mark.x, panel.x.scale)))
        for one in panel.series
    ]
    return replace(panel, series=tuple(series))


def is_joined(panel: Panel, series: Series) -> bool:
    """Whether a line joins the values of a series: through two places, or categories, it would suggest a trend."""
    if series.role not in OF_VALUES:
        return True
    places = {mark.x for mark in series.marks if mark.interval}
    return not (panel.x.categories or panel.is_scatter) and len(places) >= CURVE


def shifts_of(axes: "Axes", panel: Panel, width_pt: float) -> list[list[float]]:
    """Return by how much each mark of each series is moved sideways, so that marks at one place do not hide each other.

    The unit is that of the scaled axis (octaves, decades). A panel with lines moves each series as a whole; without
    lines, each place has only as much spread as it has series. Lines without runs of their own and long ones stay, and
    so do the marks of a panel whose places are measured.
    """
    stay = [[0.0] * len(series.marks) for series in panel.series]
    own = [series for series in panel.series if series.role in OF_VALUES]
    known = [{mark.x for mark in series.marks} for series in own]
    places = scaled(axes, sorted(set().union(*known)))
    shares = sum(map(len, known)) > len(places)
    if panel.is_exact or not shares or len(places) > MAX_MARKERS:
        return stay
    slots: list[list[Series]] = []
    for series in own:  # real and emulated runs of one way stand in one line where they share no place
        same = next((slot for slot in slots if _continues(slot, series)), None)
        if same is None:
            slots.append([series])
        else:
            same.append(series)
    distances = [right - left for left, right in pairwise(places)] or [_span(axes, panel)]
    has_lines = any(is_joined(panel, series) for series in own)
    apart_pt = APART_PT if has_lines else LOOSE_PT
    step = min(apart_pt / width_pt * _span(axes, panel), MAX_APART * min(distances) / max(1, len(slots) - 1))
    taken = [{mark.x for series in slot for mark in series.marks} for slot in slots]
    numbers = {id(series): number for number, slot in enumerate(slots) for series in slot}

    def shift(number: int, x: float) -> float:
        beside = [other for other, found in enumerate(taken) if has_lines or x in found]
        return step * (beside.index(number) - (len(beside) - 1) / 2)

    return [
        [shift(numbers[id(series)], mark.x) for mark in series.marks] if id(series) in numbers else zeros
        for series, zeros in zip(panel.series, stay, strict=True)
    ]


def _continues(slot: Sequence[Series], series: Series) -> bool:
    taken = {mark.x for one in slot for mark in one.marks}
    return slot[0].label == series.label and taken.isdisjoint(mark.x for mark in series.marks)


def _places(panel: Panel) -> list[float]:
    """Return all places along x, with the ends that the axis asks for."""
    asked = [end for end in (panel.x.low, panel.x.high) if end is not None and can_show(end, panel.x.scale)]
    found = {float(mark.x) for series in panel.series for mark in series.marks}
    return [*range(len(panel.x.categories)), *asked, *sorted(found)]


def _span(axes: "Axes", panel: Panel) -> float:
    """Return the length of the horizontal axis in its scaled unit; of a single place, about a tenth of its value."""
    places = scaled(axes, _places(panel))
    return max(places) - min(places) or (1.0 if panel.x.scale in BASES else 0.1 * abs(places[0]) or 1.0)


def _limit_x(axes: "Axes", panel: Panel, shifts: Sequence[Sequence[float]]) -> None:
    span, places = _span(axes, panel), scaled(axes, _places(panel))
    is_single = max(places) == min(places)
    farthest = max((abs(shift) for found in shifts for shift in found), default=0.0)
    room = farthest + (0.5 if panel.x.categories or is_single else ROOM) * (1.0 if panel.x.categories else span)
    left = 0.0 if panel.x.low is not None and panel.x.low == min(_places(panel)) else room
    axes.set_xlim(*unscaled(axes, (min(places) - left, max(places) + room)))


def _limit_y(axes: "Axes", panel: Panel) -> None:
    """Extend the vertical axis to the ends it asks for; values outside of them stay in sight."""
    low, high = panel.y.low, panel.y.high
    if panel.y.percent:
        low, high = PERCENT[0] if low is None else low, PERCENT[1] if high is None else high
    least, most = axes.dataLim.intervaly
    if low is not None and can_show(low, panel.y.scale) and not least < low:
        axes.set_ylim(bottom=low)
        if panel.y.scale == "linear":  # values far from the end that is asked for keep room above them
            axes.set_ylim(top=max(axes.get_ylim()[1], most + ROOM * (most - low)))
    if high is not None and can_show(high, panel.y.scale) and not most > high:
        axes.set_ylim(top=high)
    if panel.y.most is not None:
        bottom, top = axes.get_ylim()
        axes.set_ylim(top=min(top, panel.y.most + ROOM * (panel.y.most - bottom)))


def _draw_series(
    axes: "Axes",
    panel: Panel,
    series: Series,
    style: Style,
    shifts: Sequence[float],
    rings: frozenset[str] = frozenset(),
) -> None:
    """Draw the points of a series, what is at least so much, its intervals and its line, moved sideways."""
    found, marks = series_style(series, style), series.marks
    places = scaled(axes, [mark.x for mark in marks])
    xs = unscaled(axes, [place + shift for place, shift in zip(places, shifts, strict=True)])
    if any(mark.points for mark in marks):
        points = _spread(axes, xs, [mark.points for mark in marks])
        (dots,) = axes.plot(
            *points, "o", color=found.colour, markersize=POINT_PT, markeredgewidth=0.5, alpha=0.6, zorder=1.9,
            markerfacecolor="none" if found.is_hollow else found.colour, rasterized=len(points[0]) > MAX_POINTS,
        )  # fmt: skip
        _say(dots, style, hover.of_points(marks, panel.y))
    if any(mark.ended for mark in marks):
        (triangles,) = axes.plot(
            *_spread(axes, xs, [mark.ended for mark in marks]), AT_LEAST_MARKER, color=found.colour,
            markerfacecolor="none", markersize=MARKER_PT + 1, zorder=found.order + 1,
        )  # fmt: skip
        _say(triangles, style, hover.of_ended(marks, panel.y))
    _draw_intervals(axes, panel, zip(xs, marks, strict=True), found.colour, found.order)
    medians = [mark.interval.value if mark.interval else math.nan for mark in marks]
    is_line = is_joined(panel, series)
    # A line without markers would be invisible at one place.
    is_seen = found.marker != "none" or sum(not math.isnan(median) for median in medians) != 1
    first, distance = _every(len(marks), series.hue)
    (line,) = axes.plot(
        xs, medians, color=found.colour, linestyle=found.dash if is_line else "none", linewidth=found.line_pt,
        marker=found.marker if is_seen else "_", markersize=found.marker_pt, markerfacecolor=found.face(style),
        markevery=(first, distance), zorder=found.order,
    )  # fmt: skip
    _say(line, style, [hover.of_median(series, mark, panel.y) for mark in marks[first::distance] if mark.interval])
    _draw_remarks(axes, zip(xs, medians, marks, strict=True), rings, style)


def _say(artist: "Artist", style: Style, texts: list[str]) -> None:
    """Have marks say texts where the style's pictures can."""
    if style.is_spoken:
        hover.say(artist, texts)


def _draw_remarks(
    axes: "Axes", marks: Iterable[tuple[float, float, Mark]], rings: frozenset[str], style: Style
) -> None:
    """Draw a ring around flagged marks, and names beside marks."""
    for x, median, mark in marks:
        if rings.intersection(mark.flags.split(";")) and not math.isnan(median):
            axes.plot(
                [x], [median], RING_MARKER, color=style.foreground, markersize=RING_PT, markerfacecolor="none",
                markeredgewidth=0.9, zorder=3.5,
            )  # fmt: skip
        if mark.name and not math.isnan(median):
            axes.annotate(
                mark.name, (x, median), xytext=(-NAME_GAP_PT, -NAME_GAP_PT), textcoords="offset points", ha="right",
                va="top",
            )  # fmt: skip


def _make_room_for_names(axes: "Axes", panel: Panel, width_pt: float, style: Style) -> None:
    """Extend the horizontal axis to the left until the names beside marks fit."""
    left, right = scaled(axes, axes.get_xlim())
    for mark in (mark for series in panel.series for mark in series.marks if mark.name and mark.interval):
        share = (len(mark.name) * letter_pt(mark.name, style.small_pt) + 2 * NAME_GAP_PT) / width_pt
        (place,) = scaled(axes, [mark.x])
        if share < 1:
            left = min(left, (place - share * right) / (1 - share))
    axes.set_xlim(*unscaled(axes, (left, right)))


def _spread(axes: "Axes", xs: Sequence[float], values: Sequence[tuple[float, ...]]) -> tuple[list[float], list[float]]:
    """Return x and y of all values, those of one place side by side, so that equal ones are visible."""
    low, high = scaled(axes, axes.get_xlim())
    moved = [
        place + SPREAD * (high - low) * ((number + 0.5) / len(found) - 0.5)
        for place, found in zip(scaled(axes, xs), values, strict=True)
        for number in range(len(found))
    ]
    return unscaled(axes, moved), [value for found in values for value in found]


def _draw_intervals(
    axes: "Axes", panel: Panel, marks: Iterable[tuple[float, Mark]], colour: str, order: float, bottom: float = 0.0
) -> None:
    """Draw each interval as a bar with ends; one that reaches below a logarithmic axis ends at its edge."""
    known = [
        (x, bottom + interval.low, bottom + interval.high)
        for x, mark in marks
        if (interval := mark.interval) is not None
        and interval.low is not None
        and interval.high is not None
        and can_show(interval.low, "linear")
        and can_show(interval.high, panel.y.scale)
    ]
    if known:
        is_dense = len(known) > MAX_MARKERS
        # One broken line is drawn in half of the time of `errorbar`, and a tenth of its size.
        axes.plot(
            [x for x, _, _ in known for x in (x, x, math.nan)],
            [y for _, low, high in known for y in (low, high, math.nan)],
            color=colour, linewidth=0.5 if is_dense else 1.0, marker="none" if is_dense else "_", markersize=4,
            markeredgewidth=1.0, zorder=order,
        )  # fmt: skip


def _every(num_marks: int, hue: int) -> tuple[int, int]:
    """Return the first mark with a marker and the distance to the next; on long lines they differ between series."""
    distance = 1 if num_marks <= MAX_MARKERS else math.ceil(num_marks / FEW_MARKERS)
    return hue % distance, distance


def _draw_failures(axes: "Axes", panel: Panel, style: Style) -> None:
    """Count the runs that did not complete, at each place, in a strip below all values."""
    counts: Counter[float] = Counter()
    for mark in (mark for series in panel.series for mark in series.marks if mark.num_failed):
        counts[mark.x] += mark.num_failed
    if not counts:
        return
    axes.spines.bottom.set_position(("outward", STRIP_PT))
    below = offset_copy(axes.get_xaxis_transform(), axes.get_figure(root=True), y=-CROSS_PT, units="points")
    axes.plot(
        list(counts), [0.0] * len(counts), FAILED_MARKER, color=style.alarm, markersize=FAILED_PT,
        markeredgewidth=1.4, transform=below, clip_on=False, zorder=4,
    )  # fmt: skip
    for x, count in counts.items():
        axes.annotate(
            str(count), (x, 0), xycoords=below, xytext=(0, 4), textcoords="offset points", ha="center", va="bottom"
        )


def _draw_bars(axes: "Axes", panel: Panel, width_pt: float, style: Style) -> None:
    """Draw stacked bars, the first series at the bottom, points and intervals at the end of each part."""
    panel = slotted(panel)
    width = min(BAR_WIDTH, MAX_BAR_PT * len(panel.x.categories) / width_pt)
    for bar in bars(panel):
        found = series_style(bar.series, style)
        if bar.height:
            (box,) = axes.bar(
                bar.mark.x, bar.height, width, bar.bottom, color="none" if found.is_hollow else found.colour,
                edgecolor=found.colour if found.is_hollow else style.paper, linestyle=found.dash,
                linewidth=1.0 if found.is_hollow else 0.6, hatch=style.hatch(bar.series.hue), zorder=1.5,
            )  # fmt: skip
            _say(box, style, [hover.of_median(bar.series, bar.mark, panel.y)])
        for values, marker, size, texts in (
            (bar.mark.points, "o", POINT_PT, hover.of_points([bar.mark], panel.y)),
            (bar.mark.ended, AT_LEAST_MARKER, MARKER_PT, hover.of_ended([bar.mark], panel.y)),
        ):
            shown = [bar.bottom + value for value in values if can_show(value, "linear")]
            spread = BAR_SPREAD / BAR_WIDTH * width
            xs = [bar.mark.x + spread * ((number + 0.5) / len(shown) - 0.5) for number in range(len(shown))]
            (dots,) = axes.plot(
                xs, shown, marker, color=style.foreground, markersize=size, markeredgewidth=0.5, alpha=0.8,
                markerfacecolor=style.foreground if marker == "o" else "none", zorder=2.5,
            )  # fmt: skip
            _say(dots, style, texts)
        _draw_intervals(axes, panel, [(bar.mark.x, bar.mark)], style.foreground, 2.4, bar.bottom)
    for series in panel.series:
        if series.role not in STACKED:
            _draw_series(axes, panel, series, style, [0.0] * len(series.marks))
    axes.axhline(0.0, color=style.foreground, linewidth=0.8)
    axes.set_xlim(-0.5, len(panel.x.categories) - 0.5)
    _limit_y(axes, panel)
    _draw_failures(axes, panel, style)
    set_ticks(axes, panel, width_pt, style)


def slotted(panel: Panel) -> Panel:
    """Return the panel with a linear vertical axis, and each place on the horizontal one as a category."""
    y = replace(panel.y, scale="linear", low=0.0 if panel.y.low is None else min(panel.y.low, 0.0))
    columns, names = columns_of(panel)
    slots = {place: float(slot) for slot, place in enumerate(columns)}
    series = tuple(
        replace(one, marks=tuple(replace(mark, x=slots[mark.x]) for mark in one.marks if mark.x in slots))
        for one in panel.series
    )
    return drawable(replace(panel, x=Axis(panel.x.label, categories=tuple(names)), y=y, series=series))


def bars(panel: Panel) -> Iterator[Bar]:
    """Yield the parts of all bars, each on top of those before it; negative ones hang below zero."""
    tops: dict[tuple[float, bool], float] = {}
    for series in panel.series:
        for mark in series.marks if series.role in STACKED else ():
            height = mark.interval.value if mark.interval else 0.0
            bottom = tops.get((mark.x, height < 0), 0.0)
            yield Bar(series, mark, bottom, height)
            tops[mark.x, height < 0] = bottom + height
