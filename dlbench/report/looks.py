"""How a series looks in a style, the same in its panel and in the legend."""

from dataclasses import dataclass, replace

from dlbench.report.chart import Chart, Role, Series
from dlbench.report.style import SOLID, Dash, Style

EMULATED = " (emulated)"
# What lies on top where lines meet: what was measured.
ORDER = (Role.IDEAL, Role.FITTED, Role.PUBLISHED, Role.BASE_LINE, Role.MEASURED)
PUBLISHED_MARKER, AT_LEAST_MARKER, FAILED_MARKER = "D", "^", "x"
# Base lines are grey, so that markers alone tell them apart.
BASE_LINE_MARKERS = ("*", "X", "D", "h", "8", "H")
MARKER_PT, STAR_PT, SMALL_MARKER_PT = 5.0, 7.5, 2.2
# What people ran, so that every value of it must be seen.
SEEN = (Role.MEASURED, Role.BASE_LINE, Role.PUBLISHED)


@dataclass(frozen=True)
class Look:
    """Colour, marker and line of a series.

    Attributes:
        colour: Of line and marker.
        marker: Empty where it has none.
        marker_pt: Size of the marker.
        is_hollow: Whether the marker has an edge alone.
        dash: Pattern of the line.
        line_pt: Width of the line.
        order: Larger ones are drawn above.
    """

    colour: str
    marker: str
    marker_pt: float
    is_hollow: bool
    dash: Dash
    line_pt: float
    order: float


def look(series: Series, style: Style) -> Look:
    """Return how a series is drawn."""
    order = 2 + ORDER.index(series.role) / 10
    hue, is_emulated = style.colour(series.hue), bool(series.emulated)
    measured = style.emulated if is_emulated else SOLID
    grey = BASE_LINE_MARKERS[series.hue % len(BASE_LINE_MARKERS)]
    return {
        Role.MEASURED: Look(hue, style.marker(series.hue), MARKER_PT, is_emulated, measured, 1.4, order),
        Role.BASE_LINE: Look(
            style.muted, grey, STAR_PT if grey == "*" else MARKER_PT, is_emulated, measured, 1.2, order
        ),
        Role.IDEAL: Look(style.muted, "", MARKER_PT, False, style.ideal, 1.0, order),
        Role.PUBLISHED: Look(hue, PUBLISHED_MARKER, MARKER_PT, True, style.published, 1.2, order),
        Role.FITTED: Look(hue, "", MARKER_PT, False, style.fitted, 1.1, order),
    }[series.role]


def told_apart(chart: Chart) -> Chart:
    """Return a chart whose base lines have hues of their own, by label: 0, 1, ... in the order of first appearance."""
    hues: dict[str, int] = {}
    panels = []
    for panel in chart.panels:
        series = [
            replace(one, hue=hues.setdefault(one.label, len(hues))) if one.role is Role.BASE_LINE else one
            for one in panel.series
        ]
        panels.append(replace(panel, series=tuple(series)))
    return replace(chart, panels=tuple(panels))


def face(found: Look, style: Style) -> str:
    """Return what a marker is filled with: a hollow one covers the line below it where there is a ground."""
    return style.background if found.is_hollow else found.colour


def label(series: Series) -> str:
    """Return what the legend calls a series."""
    return f"{series.label}{EMULATED}" if series.emulated else series.label
