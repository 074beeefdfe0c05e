"""How a series is drawn in a style: the same in its panel and in the legend."""

from dataclasses import dataclass, replace

from dlbench.report.chart import Chart, Role, Series
from dlbench.report.rendering.style import SOLID, Dash, Style

EMULATED = " (emulated)"
# From the lowest layer to the highest: measured values lie on top.
LAYERS = (Role.IDEAL, Role.FITTED, Role.PUBLISHED, Role.BASE_LINE, Role.MEASURED, Role.TOTAL)
PUBLISHED_MARKER, AT_LEAST_MARKER, FAILED_MARKER, RING_MARKER = "D", "^", "x", "o"
# Base lines are grey: markers alone distinguish them.
BASE_LINE_MARKERS = ("*", "X", "D", "h", "8", "H")
MARKER_PT, STAR_PT, POINT_PT, FAILED_PT, RING_PT = 5.0, 7.5, 2.2, 5.5, 10.0
# Published numbers are small diamonds on dotted lines: hollow markers are emulated runs alone.
PUBLISHED_PT = 4.0
# Roles with values of runs, all of which must be visible.
OF_VALUES = (Role.MEASURED, Role.BASE_LINE, Role.TOTAL, Role.PUBLISHED)


@dataclass(frozen=True)
class SeriesStyle:
    """Colour, marker and line of a series.

    Attributes:
        colour: Of line and marker.
        marker: `none` for a series without markers.
        marker_pt: Size of the marker.
        is_hollow: Whether the marker is an outline.
        dash: Pattern of the line.
        line_pt: Width of the line.
        order: Larger values are drawn above smaller ones.
    """

    colour: str
    marker: str
    marker_pt: float
    is_hollow: bool
    dash: Dash
    line_pt: float
    order: float

    def face(self, style: Style) -> str:
        """Return the fill of a marker: a hollow one hides the line below it where the picture has a background."""
        return style.background if self.is_hollow else self.colour


def series_style(series: Series, style: Style) -> SeriesStyle:
    """Return how a series is drawn."""
    order = 2 + LAYERS.index(series.role) / 10
    hue, is_emulated = style.colour(series.hue, series.palette), bool(series.emulated)
    dash = style.emulated if is_emulated else SOLID
    grey = BASE_LINE_MARKERS[series.hue % len(BASE_LINE_MARKERS)]
    grey_pt = STAR_PT if grey == "*" else MARKER_PT
    return {
        Role.MEASURED: SeriesStyle(hue, style.marker(series.hue), MARKER_PT, is_emulated, dash, 1.4, order),
        Role.BASE_LINE: SeriesStyle(style.muted, grey, grey_pt, is_emulated, dash, 1.2, order),
        Role.TOTAL: SeriesStyle(style.foreground, "_", STAR_PT, False, "none", 0.0, order),
        Role.IDEAL: SeriesStyle(style.muted, "none", MARKER_PT, False, style.ideal, 1.0, order),
        Role.PUBLISHED: SeriesStyle(hue, PUBLISHED_MARKER, PUBLISHED_PT, False, style.published, 1.2, order),
        Role.FITTED: SeriesStyle(hue, "none", MARKER_PT, False, style.fitted, 1.1, order),
    }[series.role]


def with_base_line_hues(chart: Chart) -> Chart:
    """Return the chart with base lines numbered by label, so that each has a marker of its own."""
    hues: dict[str, int] = {}

    def numbered(one: Series) -> Series:
        return replace(one, hue=hues.setdefault(one.label, len(hues))) if one.role is Role.BASE_LINE else one

    panels = [replace(panel, series=tuple(map(numbered, panel.series))) for panel in chart.panels]
    return replace(chart, panels=tuple(panels))


def legend_label(series: Series) -> str:
    """Return the name of a series in the legend."""
    return f"{series.label}{EMULATED}" if series.emulated else series.label
