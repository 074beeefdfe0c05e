"""Maps of colours: a row for each series, a column for each place, the value written in each cell."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from dlbench.report.axes import LINE, category_ticks, name_axes, name_ticks, size_pt
from dlbench.report.chart import Axis, Mark, Panel
from dlbench.report.lettering import width
from dlbench.report.looks import label
from dlbench.report.scales import brief, can_show, forward, labels
from dlbench.report.style import Style, contrast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Around the text of a cell, and the narrowest cell.
PAD_PT, NARROWEST_PT = 5.0, 42.0
UNKNOWN = "-"
# The colours of a map's text; neither is the plain black that a picture inlined in a page leaves to the page.
TEXT = ("#111111", "#ffffff")
# The ends of maps are left out: a cell has to stand out from white and from black ground.
LIGHTEST, DARKEST = 0.05, 0.95


def draw_cells(axes: "Axes", panel: Panel, style: Style) -> None:
    """Draw a map of colours into empty axes; the first series is the topmost row."""
    columns, names = columns_of(panel)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(panel.series) - 0.5, -0.5)
    known = [value for series in panel.series for mark in series.marks if (value := _value(mark)) is not None]
    slot = size_pt(axes)[0] / len(columns)
    for row, series in enumerate(panel.series):
        marks = {float(mark.x): mark for mark in series.marks}
        for column, place in enumerate(columns):
            mark = marks.get(place, Mark(place))
            _draw_cell(axes, (column, row), mark, _colour(_value(mark), known, panel.y, style), panel.y, slot, style)
    category_ticks(axes, names, style)
    name_ticks(axes, [label(series) for series in panel.series], style)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    name_axes(axes, panel.x.label, "", style)


def columns_of(panel: Panel) -> tuple[list[float], list[str]]:
    """Return the places of the columns and their names: the categories, or else the places that occur."""
    if panel.x.categories:
        return [float(number) for number in range(len(panel.x.categories))], list(panel.x.categories)
    places = sorted({float(mark.x) for series in panel.series for mark in series.marks if can_show(mark.x, "linear")})
    return places, labels(places, percent=panel.x.percent)


def cell_text(mark: Mark, *, percent: bool) -> str:
    """Return what a cell says: its value, what it is at least, and how many runs failed; `-` where nothing is known."""
    value = _value(mark)
    lines = [] if value is None else [brief(value, percent=percent)]
    if mark.ended and not lines:
        lines = [f"≥ {brief(min(mark.ended), percent=percent)}"]
    if mark.num_failed:
        lines.append(f"{mark.num_failed} failed")
    return "\n".join(lines) or UNKNOWN


def _value(mark: Mark) -> float | None:
    if mark.interval is None or not math.isfinite(mark.interval.value):
        return None
    return mark.interval.value


def _colour(value: float | None, known: Sequence[float], axis: Axis, style: Style) -> str:
    """Return the colour of a value among all others of its panel; `none` where it has no place on the scale."""
    if value is None or not can_show(value, axis.scale):
        return "none"
    place = forward(axis.scale)
    places = [place(end) for end in (*known, axis.low, axis.high) if end is not None and can_show(end, axis.scale)]
    low, high = min(places), max(places)
    share = (place(value) - low) / (high - low) if high > low else 0.5
    return str(to_hex(matplotlib.colormaps[style.colour_map](LIGHTEST + share * (DARKEST - LIGHTEST))))


def _draw_cell(
    axes: "Axes", at: tuple[int, int], mark: Mark, colour: str, axis: Axis, slot: float, style: Style
) -> None:
    (column, row), text = at, cell_text(mark, percent=axis.percent)
    is_filled = colour != "none"
    axes.add_patch(
        Rectangle(
            (column - 0.5, row - 0.5),
            1,
            1,
            facecolor=colour,
            edgecolor=style.muted,
            linewidth=0.4,
            clip_on=False,
            zorder=1,
        )
    )
    is_narrow = max(width(line, style.small_pt) for line in text.split("\n")) + PAD_PT > slot
    axes.text(
        column,
        row,
        text,
        color=max(TEXT, key=lambda one: contrast(one, colour)) if is_filled else style.foreground,
        size=style.small_pt,
        ha="center",
        va="center",
        rotation=90 if is_narrow else 0,
    )


def cells_size(panel: Panel, most_pt: float, style: Style) -> tuple[float, float]:
    """Return the width and height of a panel's cells in points: at most `most_pt` wide, and higher instead."""
    texts = [cell_text(mark, percent=panel.y.percent).split("\n") for one in panel.series for mark in one.marks]
    widest = max((width(line, style.small_pt) for lines in texts for line in lines), default=0.0) + 2 * PAD_PT
    num_lines = max((len(lines) for lines in texts), default=1)
    num_columns = max(1, len(columns_of(panel)[0]))
    slot = min(max(widest, NARROWEST_PT), most_pt / num_columns)
    high = num_lines * LINE * style.small_pt + 2 * PAD_PT
    return num_columns * slot, max(1, len(panel.series)) * max(high, widest if widest > slot else 0.0)
