"""A chart into a picture: a figure of matplotlib's, files, or SVG for a page.

The same chart gives the same bytes: no date, no random names. matplotlib's own settings stay as they are, and no letter
of a label is read as markup. matplotlib's constrained layout places axes, labels, colour bars, the legend under the
title, and the caption.
"""

import math
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from PIL import Image

from dlbench.analysis.formatting import joined, one_line
from dlbench.grouping import by_key
from dlbench.records import files
from dlbench.report.chart import Axis, Chart, Panel, ringed
from dlbench.report.rendering import svg
from dlbench.report.rendering.cells import NAME_LETTERS, cell_letters
from dlbench.report.rendering.panels import AT_LEAST, FAILED, HOLLOW, RINGED, draw_panel, values_of
from dlbench.report.rendering.style import LIGHT, Sheet, Style, applied, legend_label, wrapped
from dlbench.report.rendering.ticks import BASES, can_show

DPI, PT = 160, 72
# A picture with more pixels in a column cannot be rendered; its resolution is lowered.
MAX_PIXELS = 60_000
MAX_COLUMNS = 3
# A README shows a picture about 830 pixels wide: letters of 8.5 points are then 9 pixels high or more. By the number of
# columns: the width of a picture, and the height inside of a pair of axes.
WIDTH_IN = {1: 8.4, 2: 10.4, 3: 10.4}
HEIGHT_IN = {1: 3.2, 2: 2.6, 3: 2.05}
# Beside the inside of a pair of axes: labels and ticks. Colour bars are beside cells.
BESIDE_IN, COLOUR_BAR_IN = 0.85, 0.6
PAD_IN = 0.08
# Logarithmic axes share their ends where these span at most this many times what the widest panel does.
MOST_SHARED = 2
# Of text in the small size: letters in an inch.
LETTERS_IN = 13.5
# Letters that axes, a bar's name and a legend's entry have; and what of an entry is no text.
LINES_LETTERS, BAR_LETTERS, LEGEND_LETTERS, HANDLE_LETTERS = 20, 5, 60, 9
# What is not a series is explained last.
LAST = (HOLLOW, RINGED, AT_LEAST, FAILED)


def picture(chart: Chart, style: Style) -> Figure:
    """Return a chart as a figure of matplotlib's, with its title and without a caption."""
    with applied(style):
        figure, _ = _composed(chart, style)
        for artist in figure.findobj():
            artist.set_gid(None)  # what marks say is for `svg`
        return figure


def draw(chart: Chart, style: Style, paths: Sequence[Path] = (), caption: str = "", page_id: str = "") -> str:
    """Replace files by one picture of a chart, and return it as an `<svg>` element for an HTML page.

    Args:
        chart: What is drawn.
        style: Colours and sizes of the files; the element is `light`, and takes the colour of the text around it.
        paths: Files: `.png` (160 pixels an inch) or `.svg` (letters stay text). They have the title above and the
            caption below; the page shows these itself.
        caption: The text under the panels.
        page_id: Makes the element's ids different from those of the page's other pictures; empty where none is asked
            for.

    Returns:
        The element; an empty text where none is asked for.

    Raises:
        OSError: A file cannot be written; it is then as it was.
    """
    if page_id and style is not LIGHT:
        draw(chart, style, paths, caption)
        return draw(chart, LIGHT, page_id=page_id)
    with applied(style, page_id):
        figure, ends = _composed(chart, style, caption)
        is_vector = {path: path.suffix == ".svg" for path in paths}
        if page_id or any(is_vector.values()):
            tree = svg.tree(figure, one_line(chart.title, 300), described(chart))
        for path in paths:
            with files.replacing(path, "wb") as file:
                file.write(ElementTree.tostring(tree, "utf-8") if is_vector[path] else _png(figure))
    return svg.inlined(tree, *ends) if page_id else ""


def described(chart: Chart) -> str:
    """Return in words what a chart shows, for those who do not see it."""
    sentences = []
    for panel in chart.panels:
        what = joined(panel.title, joined(panel.y.label, panel.x.label, sep=" by "), sep=": ")
        names = "; ".join(curve.label for curve in panel.series) or "nothing"
        sentences.append(one_line(f"{what} of {names}.", 1_000))
    return " ".join(sentences) or "Nothing to show."


def _composed(chart: Chart, style: Style, caption: str = "") -> tuple[Figure, tuple[float, float]]:
    """Return a figure of title, legend, panels and caption, all in their places.

    The figure itself has no layout engine: with one, matplotlib would place and draw everything twice for each file.

    Returns:
        The figure; where legend and panels begin and end, in points from the top.
    """
    panels = chart.panels or (Panel("", Axis(""), Axis(""), ()),)
    # Rows of more than MAX_COLUMNS are broken into equal ones.
    wished = math.ceil(chart.columns / math.ceil(chart.columns / MAX_COLUMNS))
    beside_in, needed_in = np.max([_room_in(panel) for panel in panels], axis=0)
    columns = max(1, min(wished, len(panels), int(WIDTH_IN[MAX_COLUMNS] / (beside_in + needed_in))))
    width = max(WIDTH_IN[columns], min(beside_in + needed_in, WIDTH_IN[MAX_COLUMNS]))
    letters = math.ceil((width / columns - beside_in) * LETTERS_IN)
    num_rows = math.ceil(len(panels) / columns)
    figure = Figure((width, HEIGHT_IN[1] * num_rows), DPI)
    renderer, grid = FigureCanvasAgg(figure).get_renderer(), figure.add_gridspec(num_rows, columns)
    every = [figure.add_subplot(grid[place]) for place in range(len(panels))]
    _share_scales(every, panels)
    valued = {curve.label for panel in panels for curve in panel.series if any(map(values_of, curve.marks))}
    sheet = Sheet(style, ringed(chart), frozenset(valued))
    insides = [draw_panel(axes, panel, letters, sheet) for axes, panel in zip(every, panels, strict=True)]
    legend = _legend(figure, wrapped(chart.title, int(0.75 * width * LETTERS_IN), 20), sheet)
    under = figure.supxlabel(caption, x=PAD_IN / width, ha="left", linespacing=1.3, gid=svg.CAPTION)
    for across in range(int(1.2 * width * LETTERS_IN), 0, -2):  # letters of a line, until all lines fit
        under.set_text(wrapped(caption, across, 20))
        if under.get_window_extent().width <= DPI * (width - 2 * PAD_IN):
            break

    rows = [max(insides[start : start + columns]) or HEIGHT_IN[columns] for start in range(0, len(panels), columns)]
    grid.set_height_ratios(rows)
    above = max((axes.get_tightbbox(renderer) or axes.bbox).y1 - axes.bbox.y1 for axes in every) / DPI
    below = max(axes.bbox.y0 - (axes.xaxis.get_tightbbox(renderer) or axes.bbox).y0 for axes in every) / DPI
    around = sum(text.get_window_extent().height / DPI + 2 * PAD_IN for text in (legend, under))
    height = around + sum(row + above + below + 2 * PAD_IN for row in rows)
    figure.set_size_inches(width, height)
    figure.set_dpi(min(DPI, MAX_PIXELS / height))
    ConstrainedLayoutEngine(w_pad=PAD_IN, h_pad=PAD_IN, wspace=0.02, hspace=0.0).execute(figure)
    title, caption_top = legend.get_title().get_window_extent(), under.get_window_extent().y1
    return figure, (PT * (PAD_IN + title.height / figure.dpi), PT * (height - caption_top / figure.dpi))


def _share_scales(every: Sequence[Axes], panels: Sequence[Panel]) -> None:
    """Give logarithmic axes of one quantity the same ends, so that slopes and heights of ratios compare.

    Each keeps its ends where they are so far apart that lines would be flat, as of rates of unlike models.
    """
    logs = [
        np.log([value for mark in panel.marks() for value in values_of(mark) if can_show(value, panel.y.scale)])
        if panel.form == "lines" and panel.y.scale in BASES else np.empty(0)
        for panel in panels
    ]  # fmt: skip
    alike = by_key(
        (panel.y.label, (axes, log)) for axes, panel, log in zip(every, panels, logs, strict=True) if log.size
    )
    for (first, log), *others in alike.values():
        of_each = [log, *(other for _, other in others)]
        if np.ptp(np.concatenate(of_each)) <= MOST_SHARED * max(map(np.ptp, of_each)):
            for axes, _ in others:
                axes.sharey(first)


def _room_in(panel: Panel) -> tuple[float, float]:
    """Return how much room a panel needs beside the inside of its axes, and inside."""
    slots = max(len(panel.x.categories), 1)
    if panel.form == "cells":
        names = max((min(len(legend_label(series)), NAME_LETTERS) for series in panel.series), default=0)
        return names / LETTERS_IN + COLOUR_BAR_IN, slots * cell_letters(panel) / LETTERS_IN
    return BESIDE_IN, (slots * BAR_LETTERS if panel.form == "bars" else LINES_LETTERS) / LETTERS_IN


def _legend(figure: Figure, title: str, sheet: Sheet) -> Legend:
    """Put the title above all, and under it each series once, in order of appearance, and what other marks mean."""
    entries = dict(sorted(sheet.legend.items(), key=lambda entry: entry[0] in LAST))
    labels = [wrapped(name, LEGEND_LETTERS, 12) for name in entries]
    longest = max((len(line) for label in labels for line in label.split("\n")), default=1) + HANDLE_LETTERS
    columns = max(1, min(len(entries), int(figure.get_figwidth() * LETTERS_IN) // longest))
    # matplotlib leaves out labels that begin with an underscore: the texts are set afterwards.
    legend = figure.legend(
        entries.values(), ["?"] * len(entries), title=title, loc="outside upper left", ncols=columns, alignment="left"
    )
    legend.get_title().set(gid=svg.TITLE, fontweight="bold")
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_text(label)
    return legend


def _png(figure: Figure) -> bytes:
    canvas, buffer = FigureCanvasAgg(figure), BytesIO()
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    # A palette makes a third of the bytes.
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(buffer, "png")
    return buffer.getvalue()
