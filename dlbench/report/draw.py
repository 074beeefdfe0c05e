"""A chart into a picture: a figure of matplotlib's, a file, or SVG for a page.

The same chart gives the same bytes: no date, no random names. No state of matplotlib's is left changed, and no letter
of a label is read as markup.
"""

import contextlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import style as sheets

from dlbench.errors import UserError, shown
from dlbench.report import inline, lettering
from dlbench.report.chart import Chart, Panel
from dlbench.report.layout import composed
from dlbench.report.style import Style
from dlbench.report.written import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
# Panels that the description of a picture names.
MOST_DESCRIBED = 12


def picture(chart: Chart, style: Style) -> "Figure":
    """Return a chart as a figure of matplotlib's, with its title and without a caption."""
    with _settings(style, "path"):
        return composed(chart, style, title=chart.title)


def save_all(chart: Chart, caption: str, paths: Sequence[Path], style: Style) -> None:
    """Replace files by one picture of a chart, with its title above and its caption below, composed once.

    Args:
        chart: What is drawn.
        caption: What stands under the panels.
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
            raise UserError(f"a picture is no {shown(path.suffix)} file; it can be {allowed}", where=str(path))
    with _settings(style, "path"):
        figure = composed(chart, style, title=chart.title, caption=caption)
        pictures = [_bytes(figure, path.suffix, one_line(chart.title)) for path in paths]
    for path, data in zip(paths, pictures, strict=True):
        _replace(path, data)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.partial")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def svg(chart: Chart, style: Style, prefix: str) -> str:
    """Return a chart as an `<svg>` element to stand in an HTML page, which writes title and caption itself.

    Args:
        chart: What is drawn.
        style: Colours and sizes; `page` takes the colour of the text around it.
        prefix: What all its ids begin with: each picture of a page has another.
    """
    with _settings(style, "none"):
        drawn = _bytes(composed(chart, style), ".svg", "").decode("utf-8")
    return inline.inlined(drawn, prefix, one_line(chart.title), described(chart))


def described(chart: Chart) -> str:
    """Return in words what a chart shows, for those who do not see it."""
    panels = [_panel_described(panel) for panel in chart.panels[:MOST_DESCRIBED]]
    more = len(chart.panels) - len(panels)
    return " ".join([*panels, *([f"And {more} more panels."] if more else [])]) or "Nothing to show."


def _panel_described(panel: Panel) -> str:
    what = f"{panel.y.label} by {panel.x.label}" if panel.x.label else panel.y.label
    title = f"{panel.title}: " if panel.title else ""
    names = "; ".join(one.label for one in panel.series)
    return one_line(f"{title}{what} of {names or 'nothing'}.", 1_000)


def _bytes(figure: "Figure", suffix: str, title: str) -> bytes:
    metadata: dict[str, Any] = {"Software": None}
    if suffix == ".svg":
        metadata = {"Date": None, "Creator": None, "Format": None, "Type": None} | ({"Title": title} if title else {})
    buffer = BytesIO()
    figure.savefig(buffer, format=suffix[1:], metadata=metadata)
    return buffer.getvalue()


@contextlib.contextmanager
def _settings(style: Style, letters: str) -> Iterator[None]:
    """Draw with matplotlib's defaults and the style's colours, whatever the user's own settings are.

    Args:
        style: Colours and sizes.
        letters: In SVG, `path` makes them shapes, `none` leaves them text.
    """
    with lettering.without_glyph_warnings(), sheets.context(["default", _sheet(style, letters)]):
        yield


def _sheet(style: Style, letters: str) -> dict[str, Any]:
    return {
        "axes.axisbelow": True,
        "axes.edgecolor": style.foreground,
        "axes.facecolor": "none",
        "axes.labelcolor": style.foreground,
        "axes.labelsize": style.text_pt,
        "axes.linewidth": 0.8,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": style.foreground,
        "axes.titlesize": style.text_pt,
        "figure.edgecolor": "none",
        "figure.facecolor": style.background,
        "font.family": list(lettering.families()),
        "font.sans-serif": [lettering.FAMILY],
        "font.size": style.small_pt,
        "grid.alpha": style.grid_opacity,
        "grid.color": style.grid,
        "grid.linewidth": 0.7,
        "hatch.linewidth": 0.5,
        "svg.fonttype": letters,
        "svg.hashsalt": "dlbench",
        "text.color": style.foreground,
        "text.parse_math": False,
        "xtick.color": style.foreground,
        "xtick.labelsize": style.small_pt,
        "xtick.major.size": 3.0,
        "ytick.color": style.foreground,
        "ytick.labelsize": style.small_pt,
        "ytick.major.size": 3.0,
    }
