"""Maps of cells: a row for each series, a column for each place, with a number and a colour in each cell."""

import math
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap, LogNorm, Normalize, to_hex

from dlbench.analysis.statistics.intervals import Interval
from dlbench.report.chart import Axis, Mark, Panel, Series
from dlbench.report.formatting import brief, tick
from dlbench.report.rendering import hover
from dlbench.report.rendering.scales import BASES, can_show, set_names
from dlbench.report.rendering.series_style import legend_label
from dlbench.report.rendering.style import Style, contrast, letter_pt, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours of text in cells; neither is the placeholder for the page's text. Both ends of colour maps are left out, so
# that cells stand out from white and from black.
CELL_TEXT = ("#111111", "#ffffff")
PALEST, DARKEST = 0.05, 0.95
UNKNOWN, FLAGGED = "-", "*"
# Longest names beside rows.
NAME_PT = 200.0


def draw_cells(axes: "Axes", panel: Panel, width_pt: float, style: Style, flags: frozenset[str] = frozenset()) -> None:
    """Draw a map of colours with a number in each cell; the first series is the topmost row.

    Args:
        axes: Where to draw.
        panel: What to draw.
        width_pt: About the width of the axes in points.
        style: Colours and sizes.
        flags: Those of `Mark.flags` that get a star behind the number.
    """
    places, names = columns_of(panel)
    rows = [{float(mark.x): mark for mark in series.marks} for series in panel.series]
    marks = [[row.get(place, Mark(place)) for place in places] for row in rows]
    values = np.array([[_coloured(mark, panel.y) for mark in row] for row in marks])
    scale = LogNorm if panel.y.scale in BASES else Normalize
    asked = [end for end in (panel.y.low, panel.y.high) if end is not None and can_show(end, panel.y.scale)]
    known = [*values[~np.isnan(values)].tolist(), *asked] or [1.0]
    norm = scale(min(known), max(known))
    colours = ListedColormap(matplotlib.colormaps[style.colour_map](np.linspace(PALEST, DARKEST, 256)))
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(values), norm=norm, cmap=colours, edgecolors=style.muted, linewidth=0.4, clip_on=False
    )
    texts = [[_said(series, mark, panel) for mark in row] for series, row in zip(panel.series, marks, strict=True)]
    if style.is_spoken:
        hover.say(mesh, [text for row in texts for text in row])
    rotation = 90 if cell_pt(panel, style)[0] > width_pt / len(places) else 0
    for row, found in enumerate(marks):
        for column, mark in enumerate(found):
            value = values[row, column]
            ground = "" if math.isnan(value) else to_hex(colours(norm(value)))
            colour = max(CELL_TEXT, key=lambda one: contrast(one, ground)) if ground else style.foreground
            text = cell_text(mark, percent=panel.y.percent, flags=flags)
            drawn = axes.text(column + 0.5, row + 0.5, text, color=colour, ha="center", va="center", rotation=rotation)
            if style.is_spoken:
                hover.say(drawn, [texts[row][column]])
    axes.invert_yaxis()
    set_names(axes, names, width_pt, style, first=0.5)
    labels = [row_name(series, style) for series in panel.series]
    axes.set_yticks([row + 0.5 for row in range(len(labels))], labels)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _said(series: Series, mark: Mark, panel: Panel) -> str:
    """Return the runs of a cell with their values, below its median."""
    runs = (*hover.of_points([mark], panel.y), *hover.of_ended([mark], panel.y))
    return "\n".join(filter(None, (hover.of_median(series, mark, panel.y), *runs)))


def columns_of(panel: Panel) -> tuple[list[float], list[str]]:
    """Return the places of bars or cells and their names: the categories, or else the places that occur."""
    if panel.x.categories:
        return [float(number) for number in range(len(panel.x.categories))], list(panel.x.categories)
    places = sorted({float(mark.x) for series in panel.series for mark in series.marks if can_show(mark.x, "linear")})
    return places, [tick(place) for place in places]


def row_name(series: Series, style: Style) -> str:
    """Return the name beside the row of a series, in at most two lines."""
    return wrapped(legend_label(series), NAME_PT, style.small_pt, max_lines=2)


def _coloured(mark: Mark, axis: Axis) -> float:
    """Return the value that gives a cell its colour; NaN where there is none."""
    value = mark.interval.value if mark.interval else math.nan
    return value if can_show(value, axis.scale) else math.nan


def cell_pt(panel: Panel, style: Style) -> tuple[float, float]:
    """Return the width and height that the texts of a panel's cells need."""
    texts = [cell_text(mark, percent=panel.y.percent) for series in panel.series for mark in series.marks]
    letters = max((len(line) for text in texts for line in text.split("\n")), default=1)
    num_lines = max((text.count("\n") + 1 for text in texts), default=1)
    return (letters + 2) * letter_pt("", style.small_pt), (num_lines + 0.7) * 1.4 * style.small_pt


def cell_text(mark: Mark, *, percent: bool, flags: frozenset[str] = frozenset()) -> str:
    """Return what a cell says: its name, its value or what it is at least, how many runs failed; `-` for nothing."""
    star = FLAGGED if flags.intersection(mark.flags.split(";")) else ""
    interval: Interval | None = mark.interval if mark.interval and math.isfinite(mark.interval.value) else None
    lines = [] if interval is None else [brief(interval.value, percent=percent) + star]
    if mark.ended and not lines:
        lines = [f"≥ {brief(min(mark.ended), percent=percent)}"]
    if mark.num_failed:
        lines.append(f"{mark.num_failed} failed")
    return "\n".join([mark.name] * bool(mark.name) + lines) or UNKNOWN
