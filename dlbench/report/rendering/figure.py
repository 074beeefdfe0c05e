"""A chart into a picture: a figure of matplotlib's, files, or SVG for a page.

The same chart gives the same bytes: no date, no random names. matplotlib's own settings stay as they are, and no letter
of a label is read as markup.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox
from PIL import Image

from dlbench.errors import UserError, shown
from dlbench.records import files
from dlbench.report.chart import Axis, Chart, Mark, Panel, Series, ringed
from dlbench.report.formatting import one_line
from dlbench.report.rendering.cells import cell_pt, columns_of
from dlbench.report.rendering.inline_svg import inlined
from dlbench.report.rendering.panels import STACKED, beside_pt, draw_panel, has_content, is_joined
from dlbench.report.rendering.series_style import (
    AT_LEAST_MARKER,
    FAILED_MARKER,
    FAILED_PT,
    MARKER_PT,
    OF_VALUES,
    RING_MARKER,
    RING_PT,
    legend_label,
    series_style,
    with_base_line_hues,
)
from dlbench.report.rendering.style import Style, applied, letter_pt, wrapped

FORMATS = (".png", ".svg")
DPI = 160
# A picture with more pixels in a column cannot be rendered; its resolution is lowered.
MAX_PIXELS = 60_000
MAX_COLUMNS = 3
PNG_COLOURS = 256
# A README shows a picture about 830 pixels wide: letters of 8.5 points are then 9 pixels high or more. A page on a wide
# screen enlarges it to its column of 1,190 pixels: they are then as high as the page's own text or less.
MAX_WIDTH_IN = 10.4
# By the number of columns: the width of a picture, and the height inside of a pair of axes.
WIDTH_IN = {1: 8.4, 2: MAX_WIDTH_IN, 3: MAX_WIDTH_IN}
HEIGHT_IN = {1: 3.0, 2: 2.5, 3: 1.95}
# Beyond this ratio to its width a picture that fills the page's column is higher than a screen of 800 pixels.
TALL = 0.67
# Room for a bar, and for what stands beside the axes.
BAR_IN, SLIM_BAR_IN, BESIDE_IN = 0.45, 0.33, 1.2
# Names under bars of at most so many letters leave room for slim bars.
SHORT_NAME = 5
PAD_IN = 0.08
POINTS = 72.0
NARROWEST_PT = 80.0
FAILED = "runs that did not complete, counted"
RINGED, HOLLOW = "flagged: see the caption", "hollow: emulated"
AT_LEAST = "at least: the run ended before"
NO_VALUE = " (no value)"
# Sizes in the legend, as multiples of the size of its letters: beside a label, and between columns.
HANDLE, COLUMN_GAP = 3.8, 2.0
WIDEST_LABEL_PT = 330.0
# Panels that the description of a picture names.
MAX_DESCRIBED = 12


class MeasuringCanvas(FigureCanvasBase):
    """A canvas of one pixel: text is measured without the 50 MB that twelve rows of panels have in pixels."""

    def get_renderer(self) -> RendererAgg:
        """Return what measures text at the figure's resolution; it remembers the texts of earlier figures."""
        return _renderer(self.figure.dpi)


@functools.lru_cache(maxsize=2)
def _renderer(dpi: float) -> RendererAgg:
    return RendererAgg(1, 1, dpi)


def picture(chart: Chart, style: Style) -> Figure:
    """Return a chart as a figure of matplotlib's, with its title and without a caption."""
    with applied(style):
        return _composed(chart, style, chart.title)


def save_all(chart: Chart, caption: str, paths: Sequence[Path], style: Style) -> None:
    """Replace files by one picture of a chart, with its title above and its caption below.

    Args:
        chart: What is drawn.
        caption: The text under the panels.
        paths: Names that end with `.png` (160 pixels an inch) or `.svg` (letters as shapes: it looks the same
            everywhere).
        style: Colours and sizes.

    Raises:
        UserError: A name ends with something else.
        OSError: A file cannot be written; it is then as it was.
    """
    for path in paths:
        if path.suffix not in FORMATS:
            allowed = " or ".join(FORMATS)
            raise UserError(f"unsupported image format {shown(path.suffix)}; use {allowed}", where=str(path))
    with applied(style):
        figure = _composed(chart, style, chart.title)
        width_pt = figure.get_figwidth() * POINTS
        text = wrapped(caption, width_pt, style.small_pt)
        figure.text(PAD_IN / figure.get_figwidth(), 0.0, text, va="top", linespacing=1.3)
        box = _box(figure)
        pictures = [_bytes(figure, path.suffix, one_line(chart.title), box) for path in paths]
    for path, data in zip(paths, pictures, strict=True):
        with files.replacing(path, "wb") as file:
            file.write(data)


def svg(chart: Chart, style: Style, prefix: str) -> str:
    """Return a chart as an `<svg>` element for an HTML page, which shows title and caption itself.

    Args:
        chart: What is drawn.
        style: Colours and sizes; `page` takes the colour of the text around it.
        prefix: The beginning of all its ids, different for each picture of a page.
    """
    with applied(style, svg_text="none"):
        figure = _composed(chart, style, "")
        drawn = _bytes(figure, ".svg", "", _box(figure)).decode("utf-8")
    return inlined(drawn, prefix, one_line(chart.title), described(chart))


def described(chart: Chart) -> str:
    """Return in words what a chart shows, for those who do not see it."""
    panels = [_panel_described(panel) for panel in chart.panels[:MAX_DESCRIBED]]
    more = len(chart.panels) - len(panels)
    return " ".join([*panels, *([f"And {more} more panels."] if more else [])]) or "Nothing to show."


def _panel_described(panel: Panel) -> str:
    what = f"{panel.y.label} by {panel.x.label}" if panel.x.label else panel.y.label
    title = f"{panel.title}: " if panel.title else ""
    names = "; ".join(one.label for one in panel.series)
    return one_line(f"{title}{what} of {names or 'nothing'}.", 1_000)


def _composed(chart: Chart, style: Style, title: str) -> Figure:
    """Return a figure of all panels, the title and the legend, as high as the panels need."""
    chart = with_base_line_hues(chart)
    panels = chart.panels or (Panel("", Axis(""), Axis(""), ()),)
    columns, width = _columns_and_width(chart, panels, style)
    width_pt = max(width / columns * POINTS - max(beside_pt(panel, style) for panel in panels), NARROWEST_PT)
    rows = math.ceil(len(panels) / columns)
    inside = max(_height_in(panel, columns, width_pt, style) for panel in panels)
    entries = legend_entries(chart, style)
    # Higher than needed at first: a layout that collapses cannot be measured.
    height = rows * (inside + 2.0) + 0.2 * len(entries) + 2.0
    figure = Figure((width, height), DPI)
    MeasuringCanvas(figure)
    grid = figure.subplots(rows, columns, squeeze=False).flat
    for axes in grid[len(panels) :]:
        axes.remove()
    rings = ringed(chart)
    for axes, panel in zip(grid, panels, strict=False):
        draw_panel(axes, panel, width_pt, style, rings)
    if title:
        figure.suptitle(wrapped(title, width * POINTS, style.title_pt, bold=True), x=PAD_IN / width, ha="left")
    _add_legend(figure, entries, style)
    _lay_out(figure, rows, inside)
    return figure


def _lay_out(figure: Figure, rows: int, inside: float) -> None:
    """Let matplotlib place everything once, then take out of each row the height that its axes do not need.

    The legend of a picture that is higher than a screen moves up, between the title and the panels.

    A second layout at the final height would give the same places and cost as much as drawing. The figure itself has no
    layout engine: with one, even one that does nothing, matplotlib draws twice for each file.
    """
    ConstrainedLayoutEngine(w_pad=PAD_IN, h_pad=PAD_IN, wspace=0.02, hspace=0.0).execute(figure)
    before = figure.get_figheight()
    spare = figure.axes[0].get_position().height * before - inside
    after = before - rows * spare
    columns = -(-len(figure.axes) // rows)
    is_tall = after > TALL * figure.get_figwidth()
    title_in, legend_in = (
        sum(one.get_window_extent().height / figure.dpi + 2 * PAD_IN for one in found)
        for found in (figure.texts, figure.legends)
    )
    lowered = legend_in if is_tall else 0.0
    for number, axes in enumerate(figure.axes):
        box, rows_below = axes.get_position(), rows - 1 - number // columns
        bottom = box.y0 * before - rows_below * spare - lowered
        axes.set_position((box.x0, bottom / after, box.width, inside / after))
    figure.set_figheight(after)
    figure.set_dpi(min(DPI, MAX_PIXELS / after))
    if figure.get_suptitle():
        figure.suptitle(figure.get_suptitle(), x=PAD_IN / figure.get_figwidth(), y=1 - PAD_IN / after, ha="left")
    for legend in figure.legends:  # in place also where a saved box is larger than the figure
        top = max(title_in - PAD_IN, 0.0) if is_tall else 0.0
        legend.set_loc("upper left" if is_tall else "lower left")
        legend.set_bbox_to_anchor((0.0, 0.0, 1.0, 1.0 - top / after), figure.transFigure)


def _columns_and_width(chart: Chart, panels: Sequence[Panel], style: Style) -> tuple[int, float]:
    """Return how many columns stay legible, and the width of the picture in inches.

    A row of more columns than MAX_COLUMNS is broken into equal ones.
    """
    wished = max(1, math.ceil(chart.columns / math.ceil(max(chart.columns, 1) / MAX_COLUMNS)))
    needed = max(_width_in(panel, style) for panel in panels)
    columns = max(1, min(wished, len(panels), int(MAX_WIDTH_IN / needed)))
    return columns, min(MAX_WIDTH_IN, max(WIDTH_IN[columns], columns * needed))


def _width_in(panel: Panel, style: Style) -> float:
    """Return the least width that a panel and what stands beside it need."""
    if panel.form == "lines" or not has_content(panel):
        return 2.0
    num_columns = max(1, len(columns_of(panel)[0]))
    if panel.form == "bars":
        is_slim = max(map(len, columns_of(panel)[1]), default=0) <= SHORT_NAME
        return BESIDE_IN + (SLIM_BAR_IN if is_slim else BAR_IN) * num_columns
    return (beside_pt(panel, style) + num_columns * cell_pt(panel, style)[0]) / POINTS


def _height_in(panel: Panel, columns: int, width_pt: float, style: Style) -> float:
    """Return the height inside of a panel's axes; texts stand upright in cells that are too narrow for them."""
    if panel.form != "cells" or not has_content(panel):
        return HEIGHT_IN[columns]
    across, up = cell_pt(panel, style)
    is_narrow = across > width_pt / len(columns_of(panel)[0])
    return len(panel.series) * (max(across, up) if is_narrow else up) / POINTS


def legend_entries(chart: Chart, style: Style) -> list[tuple[str, Any]]:
    """Return labels and handles: each series once, in order of appearance, then crosses and triangles."""
    panels = [panel for panel in chart.panels if panel.form != "cells"]
    firsts: dict[tuple[object, ...], tuple[Panel, Series]] = {}
    for panel in panels:
        for series in panel.series:
            is_bar = panel.form == "bars"
            key = (series.label, series.role, not is_bar and bool(series.emulated), _is_part(panel, series))
            if key not in firsts or not _has_value(firsts[key][1]):
                firsts[key] = panel, series
    found = [
        (_label(panel, series), _handle(panel, series, style))
        for panel, series in firsts.values()
        if series.label and (_has_value(series) or series.palette != "parts")
    ]
    marks, rings = list(_marks(panels)), ringed(chart)
    if any(panel.form == "bars" and series.emulated for panel in panels for series in panel.series):
        found.append((HOLLOW, Patch(facecolor="none", edgecolor=style.foreground, linestyle=style.emulated)))
    if any(rings.intersection(mark.flags.split(";")) for mark in marks):
        found.append((RINGED, _marker(RING_MARKER, style.foreground, RING_PT, 0.9)))
    if any(mark.ended for mark in marks):
        found.append((AT_LEAST, _marker(AT_LEAST_MARKER, style.foreground, MARKER_PT + 1, 1.0)))
    if any(mark.num_failed for mark in marks):
        found.append((FAILED, _marker(FAILED_MARKER, style.alarm, FAILED_PT, 1.4)))
    return found


def _add_legend(figure: Figure, entries: Sequence[tuple[str, Any]], style: Style) -> None:
    """Add a legend below all panels, in as many columns as fit; `_lay_out` moves that of a tall picture up."""
    if not entries:
        return
    size, width_pt = style.small_pt, figure.get_figwidth() * POINTS
    widest = min(WIDEST_LABEL_PT, width_pt - HANDLE * size)
    labels = [wrapped(label, widest, size) for label, _ in entries]
    letters = max(len(line) * letter_pt(line, size) for label in labels for line in label.split("\n"))
    column = letters + (HANDLE + COLUMN_GAP) * size
    # matplotlib leaves out labels that begin with an underscore: the texts are set afterwards.
    legend = figure.legend(
        [handle for _, handle in entries], ["?"] * len(entries), loc="outside lower left",
        ncols=max(1, min(len(entries), int((width_pt + COLUMN_GAP * size) / column))), alignment="left",
    )  # fmt: skip
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_text(label)


def _marks(panels: Sequence[Panel]) -> Iterator[Mark]:
    return (mark for panel in panels for series in panel.series for mark in series.marks)


def _is_part(panel: Panel, series: Series) -> bool:
    return panel.form == "bars" and series.role in STACKED


def _has_value(series: Series) -> bool:
    """Whether anything of a series can be seen; a part of a step that takes no time cannot."""
    if series.palette == "parts":
        return any(mark.interval and mark.interval.value for mark in series.marks)
    return any(mark.points or mark.interval or mark.ended for mark in series.marks)


def _label(panel: Panel, series: Series) -> str:
    name = series.label if panel.form == "bars" else legend_label(series)
    return name if _has_value(series) else name + NO_VALUE


def _handle(panel: Panel, series: Series, style: Style) -> Any:
    found = series_style(series, style)
    if _is_part(panel, series):
        return Patch(facecolor=found.colour, edgecolor=style.paper, hatch=style.hatch(series.hue))
    is_line = series.role not in OF_VALUES or (panel.form == "lines" and is_joined(panel, series))
    return Line2D(
        [], [], color=found.colour, linestyle=found.dash if is_line else "none", linewidth=found.line_pt,
        marker=found.marker, markersize=found.marker_pt, markerfacecolor=found.face(style),
    )  # fmt: skip


def _marker(marker: str, colour: str, size: float, edge: float) -> Any:
    return Line2D(
        [], [], color=colour, linestyle="none", marker=marker, markersize=size, markeredgewidth=edge,
        markerfacecolor="none",
    )  # fmt: skip


def _box(figure: Figure) -> Bbox:
    """Return the box of the figure and of all text around its panels, in inches."""
    around = [text.get_window_extent() for text in (*figure.texts, *figure.legends)]
    outer = Bbox.union([figure.bbox, *around])
    return Bbox(outer.get_points() / figure.dpi + [[0.0, -PAD_IN], [0.0, 0.0]])


def _bytes(figure: Figure, suffix: str, title: str, box: Bbox) -> bytes:
    buffer = BytesIO()
    if suffix == ".png":
        figure.savefig(buffer, format="rgba", bbox_inches=box, dpi="figure")
        return _png(np.frombuffer(buffer.getvalue(), "<u4"), int(box.width * figure.dpi))
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None} | ({"Title": title} if title else {})
    figure.savefig(buffer, format="svg", metadata=metadata, bbox_inches=box, dpi="figure")
    return buffer.getvalue()


def _png(pixels: Any, width: int) -> bytes:
    """Return a picture of its most frequent colours, others as the nearest of these: a third of the bytes.

    Args:
        pixels: An array of the pixels row by row: red in the lowest byte, then green, blue, and opacity, which is left
            out.
        width: Of the picture in pixels.
    """
    packed = (pixels & 0xFFFFFF).reshape(-1, width)
    # Pillow counts colours faster than numpy.
    raw = Image.frombuffer("RGBA", packed.shape[::-1], packed.tobytes(), "raw", "RGBX", 0, 1).convert("RGB")
    counts, colours = zip(*(raw.getcolors(raw.width * raw.height) or ()), strict=True)
    found = np.array(colours, dtype=np.int32)
    order = np.lexsort((*found.T[::-1], -np.array(counts)))
    palette = found[order[:PNG_COLOURS]]
    nearest = np.zeros(1 << 24, dtype=np.uint8)
    distances = ((found[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2)
    nearest[found @ (1, 1 << 8, 1 << 16)] = distances.argmin(axis=1)
    picture, small = Image.fromarray(nearest[packed]), BytesIO()
    picture.putpalette(palette.astype(np.uint8).tobytes())
    picture.save(small, "png", optimize=True)
    return small.getvalue()
