"""Panels of stacked bars: one bar a category, one part a series, from the bottom in the order of the series.

A bar stands on zero and its axis is linear: the length of a part is what it says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from matplotlib.patches import Rectangle

from dlbench.report.axes import frame, size_pt
from dlbench.report.chart import Mark, Panel, Role, Series
from dlbench.report.draw_lines import STRIP_PT, draw_failures, draw_series, dress
from dlbench.report.looks import AT_LEAST_MARKER, MARKER_PT, SMALL_MARKER_PT, look
from dlbench.report.scales import can_show, labels, limits
from dlbench.report.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 0.7
# What is stacked; ideals, fits and published numbers are drawn over the bars as in panels of lines.
STACKED = (Role.MEASURED, Role.BASE_LINE)
# The points of a part stand on this share of a category's room.
SPREAD = 0.4


@dataclass(frozen=True)
class Piece:
    """One part of one bar: where it stands, from where it rises, and what is known of it."""

    series: Series
    mark: Mark
    bottom: float
    height: float

    def at(self, *values: float | None) -> list[float]:
        """Return the heights at which values of this part stand; those that cannot be drawn are left out."""
        return [self.bottom + value for value in values if value is not None and can_show(value, "linear")]

    def ends(self) -> list[float]:
        """Return every height that has to be in sight."""
        interval = self.mark.interval
        bounds = (interval.low, interval.high) if interval else ()
        known = [*self.mark.points, *self.mark.ended, *bounds, *([self.height] if interval else [])]
        return self.at(0.0, *known) if known else []


def pieces(panel: Panel) -> Iterator[Piece]:
    """Yield the parts of all bars, each standing on those before it; negative ones hang below zero."""
    tops: dict[tuple[float, bool], float] = {}
    for series in panel.series:
        if series.role not in STACKED:
            continue
        for mark in series.marks:
            value = mark.interval.value if mark.interval else 0.0
            height = value if can_show(value, "linear") else 0.0
            bar = (mark.x, height < 0)
            yield Piece(series, mark, tops.get(bar, 0.0), height)
            tops[bar] = tops.get(bar, 0.0) + height


def draw_bars(axes: "Axes", panel: Panel, style: Style) -> None:
    """Draw a panel of bars into empty axes."""
    panel = slotted(panel)
    found = list(pieces(panel))
    others = [series for series in panel.series if series.role not in STACKED]
    values = [end for piece in found for end in piece.ends()]
    values += [mark.interval.value for series in others for mark in series.marks if mark.interval]
    # Zero comes from the axis, which gives it no room below.
    not_zero = [value for value in values if value]
    strip = STRIP_PT / size_pt(axes)[1] if any(piece.mark.num_failed for piece in found) else 0.0
    frame(axes, panel, (-0.5, len(panel.x.categories) - 0.5), limits(panel.y, not_zero, strip=strip))
    for piece in found:
        _draw_piece(axes, piece, style)
        _draw_spread(axes, piece, style)
    for series in others:
        draw_series(axes, panel, series, style)
    axes.axhline(0.0, color=style.foreground, linewidth=0.8)
    draw_failures(axes, panel, style)
    dress(axes, panel, values, style)


def slotted(panel: Panel) -> Panel:
    """Return the panel with a linear vertical axis from zero, and each place on the horizontal one as a category."""
    y = replace(panel.y, scale="linear", low=0.0 if panel.y.low is None else min(panel.y.low, 0.0))
    if panel.x.categories:
        return replace(panel, x=replace(panel.x, scale="linear"), y=y)
    places = {float(mark.x) for series in panel.series for mark in series.marks if can_show(mark.x, "linear")}
    slots = {place: slot for slot, place in enumerate(sorted(places))}
    names = tuple(labels(list(slots), percent=panel.x.percent))
    moved = tuple(
        replace(series, marks=tuple(replace(mark, x=slots[mark.x]) for mark in series.marks if mark.x in slots))
        for series in panel.series
    )
    return replace(panel, x=replace(panel.x, scale="linear", categories=names), y=y, series=moved)


def _draw_piece(axes: "Axes", piece: Piece, style: Style) -> None:
    if not piece.height:
        return
    found = look(piece.series, style)
    axes.add_patch(
        Rectangle(
            (piece.mark.x - WIDTH / 2, piece.bottom),
            WIDTH,
            piece.height,
            facecolor="none" if found.is_hollow else found.colour,
            edgecolor=found.colour if found.is_hollow else style.paper,
            linewidth=1.0 if found.is_hollow else 0.6,
            linestyle=found.dash,
            hatch=style.hatch(piece.series.hue) or None,
            zorder=1.5,
        )
    )


def _draw_spread(axes: "Axes", piece: Piece, style: Style) -> None:
    """Draw the points and the interval of a part, where it ends."""
    for values, marker, size in (
        (piece.mark.points, "o", SMALL_MARKER_PT),
        (piece.mark.ended, AT_LEAST_MARKER, MARKER_PT),
    ):
        heights = piece.at(*values)
        shares = [(number + 0.5) / len(heights) - 0.5 for number in range(len(heights))]
        axes.plot(
            [piece.mark.x + SPREAD * share for share in shares], heights, marker, color=style.foreground,
            markersize=size, markerfacecolor=style.foreground if marker == "o" else "none", markeredgewidth=0.5,
            alpha=0.8, zorder=2.5,
        )  # fmt: skip
    interval = piece.mark.interval
    ends = piece.at(interval.low, interval.high) if interval else []
    if len(ends) == 2:
        axes.plot([piece.mark.x] * 2, ends, color=style.foreground, linewidth=1.0, marker="_", markersize=4, zorder=2.4)
