"""Panels, title, legend and caption on one canvas: what each needs is measured, then the canvas is made to hold it.

The area inside each pair of axes has a size of its own and everything around it is measured, so that no text leaves
the canvas and nothing shrinks to make room.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure

from dlbench.report import axes as one_pair
from dlbench.report import lettering
from dlbench.report.chart import Axis, Chart, Panel
from dlbench.report.draw_bars import slotted
from dlbench.report.draw_cells import cells_size
from dlbench.report.draw_panel import draw_panel, has_content
from dlbench.report.legend import draw_legend, entries
from dlbench.report.looks import told_apart
from dlbench.report.style import Style

if TYPE_CHECKING:
    from matplotlib.legend import Legend
    from matplotlib.text import Text

DPI = 160
# A page or a README shows a picture about 830 pixels wide: letters of 8.5 points then are 9 pixels high or more.
WIDEST_IN = 10.4
NARROWEST_IN = 6.0
# Above this a canvas has more pixels in a column than the renderer can hold; its resolution is lowered.
MOST_PIXELS = 60_000
MOST_COLUMNS = 3
# Inside of a pair of axes of lines, by the number of columns.
INSIDE_IN = {1: (5.0, 3.0), 2: (3.75, 2.5), 3: (2.45, 1.95)}
BAR_IN, WIDEST_INSIDE_IN = 0.45, 9.0
# Room at the edges, between columns, between rows, and between title, panels, legend and caption.
EDGE_IN, GUTTER_IN, ROW_GAP_IN, GAP_IN = 0.08, 0.22, 0.2, 0.12


@dataclass(frozen=True)
class Around:
    """What stands around the inside of a pair of axes, in inches."""

    left: float
    right: float
    top: float
    bottom: float


@dataclass(frozen=True)
class Grid:
    """Where pairs of axes go: each inside has one size, rows and columns are as wide as what stands around it."""

    inside: tuple[float, float]
    around: Sequence[Around]
    columns: int

    def column(self, number: int) -> tuple[float, float]:
        """Return the room left and right of the insides of a column."""
        here = self.around[number :: self.columns]
        return max(one.left for one in here), max(one.right for one in here)

    def row(self, number: int) -> tuple[float, float]:
        """Return the room above and below the insides of a row."""
        here = self.around[number * self.columns : (number + 1) * self.columns]
        return max(one.top for one in here), max(one.bottom for one in here)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return math.ceil(len(self.around) / self.columns)

    @property
    def width(self) -> float:
        """Width of all columns."""
        around = sum(sum(self.column(number)) for number in range(self.columns))
        return around + self.columns * self.inside[0] + (self.columns - 1) * GUTTER_IN

    @property
    def height(self) -> float:
        """Height of all rows."""
        around = sum(sum(self.row(number)) for number in range(self.rows))
        return around + self.rows * self.inside[1] + (self.rows - 1) * ROW_GAP_IN

    def corners(self) -> Iterator[tuple[float, float]]:
        """Yield the lower left corner of each inside, from the grid's upper left one, y downwards."""
        down = 0.0
        for row in range(self.rows):
            above, below = self.row(row)
            down += above + self.inside[1]
            across = 0.0
            for column in range(min(self.columns, len(self.around) - row * self.columns)):
                left, right = self.column(column)
                yield across + left, down
                across += left + self.inside[0] + right + GUTTER_IN
            down += below + ROW_GAP_IN


def composed(chart: Chart, style: Style, *, title: str = "", caption: str = "") -> Figure:
    """Return a figure with all of a chart, in as many columns as stay legible.

    Args:
        chart: Without panels, its figure says that there is nothing to show.
        style: Colours and sizes.
        title: Stands above the panels.
        caption: Stands below the legend.
    """
    chart = told_apart(chart)
    panels = chart.panels or (_nothing(),)
    for columns in range(_most_columns(chart, len(panels)), 0, -1):
        inside = _inside(panels, columns, style)
        if columns > 1 and columns * inside[0] > WIDEST_IN:
            continue
        figure, grid = _drawn(panels, inside, columns, style)
        if grid.width + 2 * EDGE_IN <= WIDEST_IN or columns == 1:
            break
    width = max(grid.width + 2 * EDGE_IN, NARROWEST_IN)
    width_pt = (width - 2 * EDGE_IN) * one_pair.POINTS
    heading = _text(figure, title, width_pt, style.title_pt, "bold")
    legend = draw_legend(figure, entries(chart, style), width_pt, style)
    below = _text(figure, caption, width_pt, style.small_pt, "normal")
    _place(figure, grid, width, [heading, legend, below])
    return figure


def _most_columns(chart: Chart, num_panels: int) -> int:
    """Return how many columns may be tried: of more than stay legible, a row is broken into equal ones."""
    num_rows = max(1, math.ceil(chart.columns / MOST_COLUMNS))
    return max(1, min(math.ceil(chart.columns / num_rows), num_panels))


def _nothing() -> Panel:
    return Panel("", Axis(""), Axis(""), ())


def _drawn(panels: Sequence[Panel], inside: tuple[float, float], columns: int, style: Style) -> tuple[Figure, Grid]:
    """Draw all panels, each on the whole of a canvas of one panel's size, and measure what stands around them."""
    figure = Figure(figsize=inside, dpi=DPI)
    renderer = _renderer(figure)
    around = []
    for number, panel in enumerate(panels):
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), label=str(number))
        draw_panel(axes, panel, style)
        box = axes.get_tightbbox(renderer) or axes.bbox
        outside = (-box.x0, box.x1 - axes.bbox.x1, box.y1 - axes.bbox.y1, -box.y0)
        around.append(Around(*(max(0.0, float(pixels)) / DPI for pixels in outside)))
    return figure, Grid(inside, around, columns)


def _renderer(figure: Figure) -> RendererAgg:
    """Return what measures text for a figure of the size that it has now."""
    return FigureCanvasAgg(figure).get_renderer()


def _inside(panels: Sequence[Panel], columns: int, style: Style) -> tuple[float, float]:
    """Return the size of the inside of every panel, in inches: what the largest needs."""
    sizes = []
    for panel in panels:
        width, height = INSIDE_IN[columns]
        if panel.form == "cells" and has_content(panel):
            width, height = (points / one_pair.POINTS for points in cells_size(panel, WIDEST_INSIDE_IN * 72, style))
        if panel.form == "bars":
            width = min(max(width, BAR_IN * len(slotted(panel).x.categories)), WIDEST_INSIDE_IN)
        sizes.append((width, height))
    return max(width for width, _ in sizes), max(height for _, height in sizes)


def _text(figure: Figure, text: str, width_pt: float, size_pt: float, weight: str) -> "Text | None":
    if not text:
        return None
    lines = lettering.wrapped(text, width_pt, size_pt, weight=weight)
    return figure.text(0, 0, lines, size=size_pt, weight=weight, va="top", linespacing=1.3)


def _place(figure: Figure, grid: Grid, width: float, parts: "Sequence[Text | Legend | None]") -> None:
    """Give the canvas its size and everything its place; parts are title, legend and caption."""
    renderer = _renderer(figure)
    heights = [0.0 if part is None else float(part.get_window_extent(renderer).height) / DPI + GAP_IN for part in parts]
    height = sum(heights) + grid.height + 2 * EDGE_IN
    figure.set_size_inches(width, height)
    indent = (width - grid.width) / 2
    for axes, (across, down) in zip(figure.axes, grid.corners(), strict=True):
        bottom = height - EDGE_IN - heights[0] - down
        axes.set_position(((indent + across) / width, bottom / height, grid.inside[0] / width, grid.inside[1] / height))
    tops = (EDGE_IN, EDGE_IN + heights[0] + grid.height + GAP_IN, EDGE_IN + sum(heights[:2]) + grid.height + GAP_IN)
    for part, top in zip(parts, tops, strict=True):
        at = EDGE_IN / width, 1 - top / height
        if part is not None and hasattr(part, "set_bbox_to_anchor"):
            part.set_bbox_to_anchor(at, figure.transFigure)
        elif part is not None:
            part.set_position(at)
    figure.set_dpi(min(DPI, MOST_PIXELS / height))
