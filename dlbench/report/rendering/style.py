"""Colours, markers, line patterns and sizes: `light`, which the HTML page takes over, `dark` and `print`.

The hues are those of Okabe and Ito (Color Universal Design, 2008), darkened where the originals are too pale to read;
their yellow is on dark backgrounds only. Each hue has its own marker and hatch, so that grey print still
distinguishes them. The hues of `light` are readable on white and on near-black; on the page its text and axes take the
colour of the text around. matplotlib is imported where something is drawn: a process that hands its charts to others
does without.
"""

import contextlib
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.analysis.formatting import one_line
from dlbench.errors import UserError, nearest, shown
from dlbench.report.chart import Palette, Role, Series

if TYPE_CHECKING:
    from matplotlib.artist import Artist

# Backgrounds, and the inside of hollow markers: nothing on the page. Text: there the colour of the text around.
PAPER, CURRENT = "#ffffff", "#0a0b0c"
# Without diamonds (published), upward triangles (at least) and crosses (failed).
MARKERS = ("o", "s", "v", "P", "p", "<", ">", "d")
# Base lines are grey: markers alone distinguish them.
BASE_LINE_MARKERS = ("*", "X", "D", "h", "8", "H")
MARKER_PT, BASE_LINE_PT, TOTAL_PT, POINT_PT, RING_PT = 5.0, 6.5, 7.5, 2.2, 10.0
# Straight lines only: dots and circles make an SVG ten times as large.
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++", "/-", "\\-", "/|", "\\|", "xx-")

DASHED, DOTTED, DASH_DOT = (0, (5.0, 2.5)), (0, (1.0, 1.6)), (0, (6.0, 2.0, 1.0, 2.0))
# matplotlib's settings.
Looks = dict[str, Any]
# Lines from the lowest layer to the highest: measured values lie on top. Small diamonds on dotted lines are published:
# hollow markers are emulated runs alone.
LINES: dict[Role, Looks] = {
    Role.IDEAL: {"marker": "none", "linestyle": DASHED, "linewidth": 1.0, "zorder": 2.0},
    Role.FITTED: {"marker": "none", "linestyle": DASH_DOT, "linewidth": 1.1, "zorder": 2.1},
    Role.PUBLISHED: {"marker": "D", "markersize": 4.0, "linestyle": DOTTED, "linewidth": 1.2, "zorder": 2.2},
    Role.BASE_LINE: {"markersize": BASE_LINE_PT, "linewidth": 1.2, "zorder": 2.3},
    Role.MEASURED: {"linewidth": 1.4, "zorder": 2.4},
    Role.TOTAL: {"marker": "_", "markersize": TOTAL_PT, "linestyle": "none", "zorder": 2.5},
}
# A run, intervals, and marks that are explained once: flagged runs, runs that ended before, and failed ones.
_ALONE: Looks = {"linestyle": "none", "markerfacecolor": "none"}
DOT: Looks = {"marker": "o", "markersize": POINT_PT, "markeredgewidth": 0.5, "zorder": 1.9, "linestyle": "none"}
INTERVALS: Looks = {"marker": "_", "markersize": 4.0, "markeredgewidth": 1.0, "zorder": 2.4, "linewidth": 1.0}
DENSE_INTERVALS: Looks = {"zorder": 2.4, "linewidth": 0.5}
RING: Looks = {"marker": "o", "markersize": RING_PT, "markeredgewidth": 0.9, "zorder": 3.5, **_ALONE}
TRIANGLE: Looks = {"marker": "^", "markersize": MARKER_PT + 1, "markeredgewidth": 1.0, "zorder": 3.4, **_ALONE}
CROSS: Looks = {"marker": "x", "markersize": 5.5, "markeredgewidth": 1.4, "zorder": 4.0, **_ALONE}

EMULATED = " (emulated)"
FONT = "DejaVu Sans"  # matplotlib ships it
# The first installed one of these sets letters that FONT lacks (Korean, Chinese, Japanese).
CJK_FONTS = ("Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "Nanum Gothic", "Malgun Gothic", "Apple SD Gothic Neo")

_PARTS = (
    "#8d6944", "#5f7f9e", "#7590ac", "#9e5f89", "#b56753", "#ac8941", "#738849", "#6d6d6d", "#4f8f86", "#909090",
    "#7467a6", "#4c8a57",
)  # fmt: skip
_SIZES = ("#525ad4", "#9351cd", "#c248aa", "#d4546e", "#d96429", "#b08714", "#849b27")
_GREYS = ("#000000", "#6b6b6b", "#303030", "#8a8a8a", "#4d4d4d", "#7d7d7d", "#1a1a1a")


@dataclass(frozen=True)
class Style:
    """The style of a picture.

    Attributes:
        name: Its name on the command line.
        background: Also inside of hollow markers, which hide the line below them, and between the parts of bars.
        foreground: Text and axes.
        muted: Base lines and ideals; too pale for letters.
        alarm: Failed runs.
        ways: Colours of ways to train, in the order of use.
        sizes: Colours of batch sizes, from small to large: from cold to warm, and lighter.
        policies: Colours of batches that change, beside those of sizes.
        parts: Colours of the parts of a step: pale ones, which no way has.
        colour_map: Name of matplotlib's colour map for cells, uniform in lightness.
    """

    name: str
    background: str = PAPER
    foreground: str = CURRENT
    muted: str = "#767676"
    alarm: str = "#d7263d"
    ways: tuple[str, ...] = ("#0072b2", "#d55e00", "#009e73", "#c26f9d", "#b87f00", "#2e93c9", CURRENT)
    sizes: tuple[str, ...] = _SIZES
    policies: tuple[str, ...] = ("#009e73", CURRENT)
    parts: tuple[str, ...] = _PARTS
    colour_map: str = "cividis"

    def colour(self, hue: int, palette: Palette = "ways") -> str:
        """Return the colour of a series; they repeat past the last hue, with other markers."""
        colours: tuple[str, ...] = getattr(self, palette)
        return colours[hue % len(colours)]

    def line(self, series: Series) -> Looks:
        """Return matplotlib's settings of a line through the medians of a series, and of its markers."""
        colours = {Role.BASE_LINE: self.muted, Role.IDEAL: self.muted, Role.TOTAL: self.foreground}
        colour = colours.get(series.role, self.colour(series.hue, series.palette))
        looks = {"color": colour, "markerfacecolor": colour, "markersize": MARKER_PT} | LINES[series.role]
        if series.role in (Role.MEASURED, Role.BASE_LINE):
            markers = MARKERS if series.role is Role.MEASURED else BASE_LINE_MARKERS
            looks["marker"] = markers[series.hue % len(markers)]
            if series.emulated:
                looks |= {"linestyle": DASH_DOT, "markerfacecolor": self.background}
        return looks

    def part(self, series: Series) -> Looks:
        """Return matplotlib's settings of the parts of bars that a series stands for."""
        colour, hatch = self.colour(series.hue, series.palette), HATCHES[series.hue % len(HATCHES)]
        if series.emulated:
            return {"facecolor": "none", "edgecolor": colour, "linestyle": DASH_DOT, "linewidth": 1.0, "hatch": hatch}
        return {"facecolor": colour, "edgecolor": self.background, "linewidth": 0.6, "hatch": hatch}


LIGHT = Style("light")
DARK = Style(
    "dark", background="#0d1117", foreground="#e6e6e6", muted="#a6a6a6", alarm="#ff6b6b",
    ways=("#3a9bdc", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#f0e442", "#e6e6e6"),
    policies=("#009e73", "#e6e6e6"),
)  # fmt: skip
PRINT = Style("print", alarm=CURRENT, ways=_GREYS, sizes=_GREYS, policies=_GREYS, parts=_GREYS, colour_map="Greys")
STYLES = {style.name: style for style in (LIGHT, DARK, PRINT)}


def style_of(name: str) -> Style:
    """Return the style with a name.

    Raises:
        UserError: There is no such style.
    """
    if name not in STYLES:
        message = f"there is no style {shown(name)}; there are: {', '.join(STYLES)}"
        raise UserError(message, hint=nearest(name, STYLES))
    return STYLES[name]


@dataclass(frozen=True)
class Sheet:
    """What all panels of a picture share.

    Attributes:
        style: Colours and sizes.
        rings: Flags of marks that get a ring, or a star in a cell.
        valued: Names of series that have a value in any panel.
        legend: What is explained beside the panels: names, and an artist of each; drawing fills it.
    """

    style: Style
    rings: frozenset[str]
    valued: frozenset[str]
    legend: dict[str, "Artist"] = field(default_factory=dict)


@contextlib.contextmanager
def applied(style: Style, page_id: str = "") -> Iterator[None]:
    """Draw with matplotlib's defaults and the style's settings, whatever the user's own settings are.

    Args:
        style: Colours and sizes.
        page_id: Makes the ids in an SVG picture different from those of other pictures.
    """
    from matplotlib import style as sheets
    from matplotlib.font_manager import fontManager

    fonts = [FONT, *[name for name in CJK_FONTS if name in fontManager.get_font_names()][:1]]
    sheet = Path(__file__).with_name("charts.mplstyle")
    of_text = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
    settings = dict.fromkeys(of_text, style.foreground) | {
        "figure.facecolor": style.background, "font.family": fonts, "svg.hashsalt": f"dlbench {page_id}",
    }  # fmt: skip
    with warnings.catch_warnings(), sheets.context(["default", sheet, settings]):
        # Letters that no font has are drawn as boxes.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ |Matplotlib currently does not", category=UserWarning)
        yield


def legend_label(series: Series) -> str:
    """Return the name of a series in the legend or beside its row."""
    return f"{series.label}{EMULATED}" if series.emulated else series.label


def wrapped(text: str, letters: int, most_lines: int = 3) -> str:
    """Return a text in lines of at most this many letters, wide ones counted twice; longer ones are cut inside."""
    # From Hangul on most letters are twice as wide as Latin ones.
    width = max(2, letters if max(map(ord, text), default=0) < 0x1100 else letters // 2)
    return textwrap.fill(one_line(text, max(8, (width - 1) * most_lines)), width, break_on_hyphens=False)
