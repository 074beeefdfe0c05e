"""A chart into a picture: a figure of matplotlib's, files, or SVG for a page.

The same chart gives the same bytes: no date, no random names. matplotlib's own settings stay as they are, and no letter
of a label is read as markup. matplotlib's constrained layout places axes, labels, colour bars and the legend; title and
caption have room above and below.
"""

import math
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

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
from dlbench.report.rendering import hover
from dlbench.report.rendering.cells import NAME_LETTERS, cell_letters, columns_of, row_lines
from dlbench.report.rendering.inline_svg import inlined
from dlbench.report.rendering.panels import BOLD, STACKED, draw_panel, has_content, is_joined, look
from dlbench.report.rendering.style import DASH_DOT, LIGHT, TITLE_PT, Style, applied, legend_label, wrapped
from dlbench.report.rendering.ticks import UPRIGHT_LETTERS, are_upright

FORMATS = (".png", ".svg")
DPI = 160
# A picture with more pixels in a column cannot be rendered; its resolution is lowered.
MAX_PIXELS = 60_000
PNG_COLOURS = 256
MAX_COLUMNS = 3
# A README shows a picture about 830 pixels wide: letters of 8.5 points are then 9 pixels high or more. By the number of
# columns: the width of a picture, and the height inside of a pair of axes.
WIDTH_IN = {1: 8.4, 2: 10.4, 3: 10.4}
HEIGHT_IN = {1: 3.0, 2: 2.5, 3: 1.95}
# Beside, and above and below the inside of a pair of axes: labels, ticks, title. Colour bars are beside cells.
BESIDE_IN, AROUND_IN, COLOUR_BAR_IN = 0.85, 0.65, 0.75
PAD_IN, TITLE_IN = 0.08, 0.3
# Of text in the small size: a line, a row of cells with one line, letters in an inch.
LINE_IN, ROW_IN, LETTERS_IN = 0.165, 0.23, 13.5
# Letters that a bar's name has at least, and what of a legend's entry is no text.
BAR_LETTERS, HANDLE_LETTERS = 5, 9
LEGEND_LETTERS = 60
FAILED = "runs that did not complete, counted"
RINGED, HOLLOW = "flagged: see the caption", "hollow: emulated"
AT_LEAST = "at least: the run ended before"
NO_VALUE = " (no value)"
# Panels that the description of a picture names.
MAX_DESCRIBED = 12


def picture(chart: Chart, style: Style) -> Figure:
    """Return a chart as a figure of matplotlib's, with its title and without a caption."""
    with applied(style):
        figure, _ = _composed(chart, style, chart.title)
        hover.taken(figure)
        return figure


def draw(chart: Chart, style: Style, paths: Sequence[Path] = (), caption: str = "", page_id: str = "") -> str:
    """Replace files by one picture of a chart, and return it as an `<svg>` element for an HTML page.

    Args:
        chart: What is drawn.
        style: Colours and sizes of the files; the element takes the colour of the text around it.
        paths: Files: `.png` (160 pixels an inch) or `.svg` (letters as shapes: it looks the same everywhere). They have
            the title above and the caption below; the page shows these itself.
        caption: The text under the panels.
        page_id: The beginning of all ids of the element, different for each picture of a page; none where it is empty.

    Returns:
        The element; an empty text where none is asked for.

    Raises:
        UserError: A name ends with something else.
        OSError: A file cannot be written; it is then as it was.
    """
    for path in paths:
        if path.suffix not in FORMATS:
            allowed = " or ".join(FORMATS)
            raise UserError(f"unsupported image format {shown(path.suffix)}; use {allowed}", where=str(path))
    with applied(style):
        figure, panels = _composed(chart, style, chart.title, caption)
        said = hover.taken(figure)
        pictures = [_bytes(figure, path.suffix, one_line(chart.title)) for path in paths]
    for path, data in zip(paths, pictures, strict=True):
        with files.replacing(path, "wb") as file:
            file.write(data)
    if not page_id or style is not LIGHT:
        return draw(chart, LIGHT, page_id=page_id) if page_id else ""
    hover.say_all(said)
    for text in figure.texts:
        text.set_visible(False)
    with applied(style, svg_text="none"):
        drawn = _bytes(figure, ".svg", "", panels).decode("utf-8")
    return inlined(drawn, page_id, one_line(chart.title), described(chart))


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


def _composed(chart: Chart, style: Style, title: str, caption: str = "") -> tuple[Figure, Bbox]:
    """Return a figure of title, legend, panels and caption, and the box of panels and legend in inches.

    matplotlib has placed everything once.

    The figure itself has no layout engine: with one, matplotlib would place and draw everything twice for each file.
    """
    panels = chart.panels or (Panel("", Axis(""), Axis(""), ()),)
    columns, width = _columns_and_width(chart.columns, panels)
    letters = math.ceil((width / columns - max(map(_beside_in, panels))) * LETTERS_IN)
    insides = [_height_in(panel, columns, letters) for panel in panels]
    rows = [max(insides[start : start + columns]) for start in range(0, len(panels), columns)]
    entries = legend_entries(chart, style)
    labels = [wrapped(label, LEGEND_LETTERS, 12) for label, _ in entries]
    longest = max((len(line) for label in labels for line in label.split("\n")), default=1) + HANDLE_LETTERS
    across = max(1, min(len(entries), int(width * LETTERS_IN) // longest))
    title, caption = (
        wrapped(title, int(0.75 * width * LETTERS_IN), 20),
        wrapped(caption, int(1.2 * width * LETTERS_IN), 20),
    )
    above, below = TITLE_IN * len(title.split("\n")) * bool(title), LINE_IN * (caption.count("\n") + 2) * bool(caption)
    legend_in = LINE_IN * 1.1 * sum(label.count("\n") + 1 for label in labels) / across + 2 * PAD_IN
    height = above + legend_in + sum(rows) + len(rows) * max(_around_in(panel, letters) for panel in panels) + below
    figure = Figure((width, height), min(DPI, MAX_PIXELS / height))
    grid = figure.subplots(len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": rows}).flat
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, panel in zip(grid, panels, strict=False):
        draw_panel(axes, panel, letters, style, ringed(chart))
    left, top = PAD_IN / width, 1 - (above + PAD_IN) / height
    figure.text(left, 1 - PAD_IN / height, title, va="top", fontsize=TITLE_PT, fontweight="bold")
    figure.text(left, (below - PAD_IN) / height, caption, va="top", linespacing=1.3)
    if entries:
        # matplotlib leaves out labels that begin with an underscore: the texts are set afterwards.
        legend = figure.legend(
            [handle for _, handle in entries],
            ["?"] * len(entries),
            loc="outside upper left",
            ncols=across,
            alignment="left",
        )
        for text, label in zip(legend.get_texts(), labels, strict=True):
            text.set_text(label)
    inside = (0.0, below / height, 1.0, 1.0 - (above + below) / height)
    ConstrainedLayoutEngine(w_pad=PAD_IN, h_pad=PAD_IN, wspace=0.02, hspace=0.0, rect=inside).execute(figure)
    for legend in figure.legends:  # the layout makes room for one at the edge of the figure alone, not below a title
        legend.set_bbox_to_anchor((left, 0.0, 1.0, top), figure.transFigure)
    return figure, Bbox([[0.0, below], [width, height - above]])


def _columns_and_width(wished: int, panels: Sequence[Panel]) -> tuple[int, float]:
    """Return how many columns stay legible, and the width of the picture in inches.

    A row of more columns than MAX_COLUMNS is broken into equal ones.
    """
    wished = max(1, math.ceil(wished / math.ceil(max(wished, 1) / MAX_COLUMNS)))
    needed = max(_beside_in(panel) + _letters_of(panel) / LETTERS_IN for panel in panels)
    columns = max(1, min(wished, len(panels), int(WIDTH_IN[MAX_COLUMNS] / needed)))
    return columns, max(WIDTH_IN[columns], min(needed, WIDTH_IN[MAX_COLUMNS]))


def _letters_of(panel: Panel) -> int:
    """Return how many letters a panel needs beside each other."""
    if panel.form == "lines" or not has_content(panel):
        return 20
    return len(columns_of(panel)[0]) * (BAR_LETTERS if panel.form == "bars" else cell_letters(panel))


def _beside_in(panel: Panel) -> float:
    """Return how much room labels take beside the inside of a panel's axes."""
    if panel.form != "cells":
        return BESIDE_IN
    names = max((min(len(legend_label(series)), NAME_LETTERS) for series in panel.series), default=0)
    return names / LETTERS_IN + COLOUR_BAR_IN


def _height_in(panel: Panel, columns: int, letters: int) -> float:
    """Return the height inside of a panel's axes; texts stand upright in cells that are too narrow for them."""
    if panel.form != "cells" or not has_content(panel):
        return HEIGHT_IN[columns]
    is_narrow = cell_letters(panel) * len(columns_of(panel)[0]) > letters
    row = cell_letters(panel) / LETTERS_IN if is_narrow else ROW_IN + LINE_IN * (row_lines(panel) - 1)
    return len(panel.series) * row


def _around_in(panel: Panel, letters: int) -> float:
    """Return how much room titles, labels and names take above and below the inside of a pair of axes."""
    names = panel.x.categories if panel.form == "lines" else columns_of(panel)[1]
    upright = min(max(map(len, names), default=0), UPRIGHT_LETTERS) if are_upright(names, letters) else 1
    lines = wrapped(panel.title, int(BOLD * letters)).count("\n") + wrapped(panel.x.label, letters, 2).count("\n")
    has_strip = panel.form != "cells" and any(mark.num_failed for one in panel.series for mark in one.marks)
    return AROUND_IN + (lines + 2 * has_strip) * LINE_IN + upright / LETTERS_IN


def legend_entries(chart: Chart, style: Style) -> list[tuple[str, Any]]:
    """Return labels and handles: each series once, in order of appearance, then what other marks mean."""
    panels = [panel for panel in chart.panels if panel.form != "cells"]
    firsts: dict[tuple[object, ...], tuple[Panel, Series]] = {}
    for panel in panels:
        is_bar = panel.form == "bars"
        for series in panel.series:
            key = (series.label, series.role, not is_bar and bool(series.emulated), is_bar and series.role in STACKED)
            if key not in firsts or not _has_value(firsts[key][1]):
                firsts[key] = panel, series
    entries = [
        _entry(panel, series, style)
        for panel, series in firsts.values()
        if series.label and (_has_value(series) or series.palette != "parts")
    ]
    marks, rings = list(_marks(panels)), ringed(chart)
    if any(panel.form == "bars" and series.emulated for panel in panels for series in panel.series):
        entries.append((HOLLOW, Patch(facecolor="none", edgecolor=style.foreground, linestyle=DASH_DOT)))
    if any(rings.intersection(mark.flags.split(";")) for mark in marks):
        entries.append((RINGED, Line2D([], [], **look("ring", style.foreground))))
    if any(mark.ended for mark in marks):
        entries.append((AT_LEAST, Line2D([], [], **look("at least", style.foreground))))
    if any(mark.num_failed for mark in marks):
        entries.append((FAILED, Line2D([], [], **look("cross", style.alarm))))
    return entries


def _marks(panels: Sequence[Panel]) -> Iterator[Mark]:
    return (mark for panel in panels for series in panel.series for mark in series.marks)


def _has_value(series: Series) -> bool:
    """Whether anything of a series can be seen; a part of a step that takes no time cannot."""
    if series.palette == "parts":
        return any(mark.interval and mark.interval.value for mark in series.marks)
    return any(mark.points or mark.interval or mark.ended for mark in series.marks)


def _entry(panel: Panel, series: Series, style: Style) -> tuple[str, Any]:
    name = series.label if panel.form == "bars" else legend_label(series)
    name += "" if _has_value(series) else NO_VALUE
    if panel.form == "bars" and series.role in STACKED:
        solid = Series(series.label, (), hue=series.hue, palette=series.palette)
        return name, Patch(**style.part(solid))
    return name, Line2D([], [], **style.line(series, is_joined=is_joined(panel, series)))


def _bytes(figure: Figure, suffix: str, title: str, box: Bbox | None = None) -> bytes:
    buffer = BytesIO()
    if suffix == ".svg":
        metadata = {"Date": None, "Creator": None, "Format": None, "Type": None} | ({"Title": title} if title else {})
        figure.savefig(buffer, format="svg", metadata=metadata, bbox_inches=box)
        return buffer.getvalue()
    figure.savefig(buffer, format="rgba", dpi="figure")
    size = (int(figure.bbox.width), int(figure.bbox.height))
    image = Image.frombuffer("RGBA", size, buffer.getvalue(), "raw", "RGBA", 0, 1).convert("RGB")
    small = BytesIO()
    # A palette makes a third of the bytes.
    image.quantize(PNG_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(small, "png")
    return small.getvalue()
