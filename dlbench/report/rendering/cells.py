"""Maps of cells: a row for each series, a column for each place, with a number and a colour in each cell."""

import math
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap, LogNorm, Normalize

from dlbench.analysis.formatting import chosen
from dlbench.report.chart import Mark, Panel, Series
from dlbench.report.rendering import hover
from dlbench.report.rendering.style import Style, legend_label, wrapped
from dlbench.report.rendering.ticks import BASES, can_show, formatter, locator, set_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Both ends of colour maps are left out, so that cells stand out from white and from black.
PALEST, DARKEST, NUM_COLOURS = 0.05, 0.95, 32
DARK_TEXT, PALE_TEXT = "#111111", "#ffffff"
UNKNOWN, FLAGGED = "-", "*"
# Longest names beside rows, in letters of a line.
NAME_LETTERS = 34


def draw_cells(axes: "Axes", panel: Panel, letters: int, style: Style, flags: frozenset[str] = frozenset()) -> None:
    """Draw a map of colours with a number in each cell and a bar of its colours; the first series is the topmost row.

    Args:
        axes: Where to draw.
        panel: What to draw.
        letters: How many letters fit beside each other in all cells.
        style: Colours and sizes.
        flags: Those of `Mark.flags` that get a star behind the number.
    """
    places, names = columns_of(panel)
    by_place = [{float(mark.x): mark for mark in series.marks} for series in panel.series]
    marks = [[row.get(place, Mark(place)) for place in places] for row in by_place]
    values = np.array([[_coloured(mark, panel) for mark in row] for row in marks])
    asked = [end for end in (panel.y.low, panel.y.high) if end is not None and can_show(end, panel.y.scale)]
    limits = [*values[~np.isnan(values)].tolist(), *asked] or [1.0]
    norm = (LogNorm if panel.y.scale in BASES else Normalize)(min(limits), max(limits))
    colours = ListedColormap(matplotlib.colormaps[style.colour_map](np.linspace(PALEST, DARKEST, NUM_COLOURS)))
    mesh = axes.pcolormesh(np.ma.masked_invalid(values), norm=norm, cmap=colours, edgecolors=style.muted, linewidth=0.4)
    said = [
        ["\n".join(filter(None, hover.of_mark(series, mark, panel.y))) for mark in row]
        for series, row in zip(panel.series, marks, strict=True)
    ]
    hover.say(mesh, [text for row in said for text in row])
    rotation = 90 if cell_letters(panel) * len(places) > letters else 0
    for row, column in np.ndindex(values.shape):
        mark, value = marks[row][column], values[row, column]
        is_pale = not math.isnan(value) and np.dot(colours(norm(value))[:3], (0.3, 0.59, 0.11)) > 0.5
        colour = style.foreground if math.isnan(value) else DARK_TEXT if is_pale else PALE_TEXT
        text = cell_text(mark, panel, flags)
        drawn = axes.text(column + 0.5, row + 0.5, text, color=colour, ha="center", va="center", rotation=rotation)
        hover.say(drawn, [said[row][column]])
    axes.invert_yaxis()
    axes.grid(visible=False)
    set_names(axes, names, letters, first=0.5)
    axes.set_yticks(np.arange(len(marks)) + 0.5, [row_name(series) for series in panel.series])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if max(limits) > min(limits):
        ticks = locator(panel.y, min(limits), max(limits))
        # The layout takes care of bars that are no part of a grid.
        bar = axes.figure.colorbar(
            mesh, ax=axes, use_gridspec=False, fraction=0.05, pad=0.02, aspect=30, ticks=ticks,
            format=formatter(panel.y, max(limits)), label=wrapped(panel.y.label, 24, 2),
        )  # fmt: skip
        bar.minorticks_off()
        bar.outline.set_visible(False)


def columns_of(panel: Panel) -> tuple[list[float], list[str]]:
    """Return the places of bars or cells and their names: the categories, or else the places that occur."""
    if panel.x.categories:
        return [float(slot) for slot in range(len(panel.x.categories))], list(panel.x.categories)
    places = sorted({float(mark.x) for series in panel.series for mark in series.marks if can_show(mark.x, "linear")})
    return places, list(map(chosen, places))


def row_name(series: Series) -> str:
    """Return the name beside the row of a series, in at most two lines."""
    return wrapped(legend_label(series), NAME_LETTERS, 2)


def cell_letters(panel: Panel) -> int:
    """Return the most letters in one line of a panel's cells, with the distance to the next cell."""
    texts = [cell_text(mark, panel) for series in panel.series for mark in series.marks]
    return max((len(line) for text in texts for line in text.split("\n")), default=1) + 2


def row_lines(panel: Panel) -> int:
    """Return the most lines of text in a row of a panel."""
    cells = [cell_text(mark, panel) for series in panel.series for mark in series.marks]
    return max((text.count("\n") + 1 for text in (*cells, *map(row_name, panel.series))), default=1)


def cell_text(mark: Mark, panel: Panel, flags: frozenset[str] = frozenset()) -> str:
    """Return what a cell says: its name, its value or what it is at least, how many runs failed; `-` for nothing."""
    written = hover.written(panel.y)
    star = FLAGGED if flags.intersection(mark.flags.split(";")) else ""
    lines = [mark.name] if mark.name else []
    if mark.interval and math.isfinite(mark.interval.value):
        lines.append(written(mark.interval.value) + star)
    elif mark.ended:
        lines.append(f"≥ {written(min(mark.ended))}")
    if mark.num_failed:
        lines.append(f"{mark.num_failed} failed")
    return "\n".join(lines) or UNKNOWN


def _coloured(mark: Mark, panel: Panel) -> float:
    """Return the value that gives a cell its colour; NaN where there is none."""
    value = mark.interval.value if mark.interval else math.nan
    return value if can_show(value, panel.y.scale) else math.nan
