"""Maps of cells: a row for each series, a column for each place, with a number and a colour in each cell."""

import math

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm, Normalize

from dlbench.analysis.formatting import joined
from dlbench.report.chart import Mark, Panel
from dlbench.report.rendering import svg
from dlbench.report.rendering.style import Looks, Sheet, legend_label, wrapped
from dlbench.report.rendering.ticks import BASES, can_show, set_names

# Longest names beside rows, in letters of a line.
NAME_LETTERS = 34
# This many bold letters take the room of one other.
BOLD = 0.85


def draw_cells(axes: Axes, panel: Panel, letters: int, sheet: Sheet) -> float:
    """Draw a map of colours with a number in each cell and a bar of its colours; the first series is the topmost row.

    Args:
        axes: Where to draw.
        panel: What to draw, by categories.
        letters: How many letters fit beside each other in all cells.
        sheet: Colours and sizes; marks with one of its flags get a star behind the number.

    Returns:
        The height of all rows in inches.
    """
    style, num_columns = sheet.style, len(panel.x.categories)
    by_place = [{mark.x: mark for mark in series.marks} for series in panel.series]
    marks = [[row.get(place, Mark(place)) for place in range(num_columns)] for row in by_place]
    medians = [[mark.interval.value if mark.interval else math.nan for mark in row] for row in marks]
    values = np.array([[value if can_show(value, panel.y.scale) else math.nan for value in row] for row in medians])
    every = (*values.flat, panel.y.low, panel.y.high)
    limits = [float(value) for value in every if can_show(value, panel.y.scale)] or [1.0]
    norm = (LogNorm if panel.y.scale in BASES else Normalize)(min(limits), max(limits))
    # Without both ends, so that cells stand out from white and from black.
    colours = ListedColormap(matplotlib.colormaps[style.colour_map](np.linspace(0.05, 0.95, 32)))
    mesh = axes.pcolormesh(values, norm=norm, cmap=colours, edgecolors=style.muted, linewidth=0.4)
    is_narrow, says = cell_letters(panel) * num_columns > letters, []
    looks: Looks = {"ha": "center", "va": "center", "rotation": 90 if is_narrow else 0}
    for (row, column), value in np.ndenumerate(values):
        is_pale = not math.isnan(value) and np.dot(np.ravel(colours(norm(value)))[:3], (0.3, 0.59, 0.11)) > 0.5
        colour = style.foreground if math.isnan(value) else "#111111" if is_pale else "#fefefe"
        mark = marks[row][column]
        drawn = axes.text(column + 0.5, row + 0.5, cell_text(mark, panel, sheet.rings), color=colour, **looks)
        says.append(joined(*svg.texts_of(panel.series[row], mark, panel.y), sep="\n"))
        svg.say(drawn, says[-1:])
    svg.say(mesh, says)
    axes.invert_yaxis()
    axes.grid(visible=False)
    set_names(axes, panel.x.categories, letters, first=0.5)
    names = [wrapped(legend_label(series), NAME_LETTERS, 2) for series in panel.series]
    axes.set_yticks(np.arange(len(names)) + 0.5, names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    texts = [*axes.texts, *axes.get_yticklabels()]
    # With a gap between the texts of two rows.
    height = len(names) * (max(text.get_window_extent().height for text in texts) / axes.figure.dpi + 0.12)
    if max(limits) > min(limits):
        # The layout takes care of bars that are no part of a grid.
        bar = axes.figure.colorbar(mesh, ax=axes, use_gridspec=False, fraction=0.05, pad=0.02, aspect=30)
        # Cells have their values: of the bar both ends have one, which stay apart beside a single row.
        ends, (_, unit) = [min(limits), max(limits)], svg.quantity_of(panel.y)
        bar.set_ticks(ends, labels=list(map(unit.written, ends)))
        bar.minorticks_off()
        bar.outline.set_visible(False)
    return height


def cell_letters(panel: Panel) -> int:
    """Return the most letters in one line of a panel's cells, with the distance to the next cell."""
    lines = [line for mark in panel.marks() for line in cell_text(mark, panel).split("\n")]
    return max(map(len, lines), default=1) + 2


def cell_text(mark: Mark, panel: Panel, flags: frozenset[str] = frozenset()) -> str:
    """Return what a cell says: its name, its value or what it is at least, how many runs failed; `-` for nothing."""
    _, unit = svg.quantity_of(panel.y)
    star = "*" if flags.intersection(mark.flags.split(";")) else ""
    lines = [mark.name] if mark.name else []
    if mark.interval and math.isfinite(mark.interval.value):
        lines.append(unit.written(mark.interval.value) + star)
    elif mark.ended:
        lines.append(f"≥ {unit.written(min(mark.ended))}")
    if mark.num_failed:
        lines.append(f"{mark.num_failed} failed")
    return "\n".join(lines) or "-"
