"""Colours, markers, line patterns and sizes: `light`, which the HTML page takes over, `dark` and `print`.

The hues are those of Okabe and Ito (Color Universal Design, 2008), darkened where the originals are too pale to read;
their yellow is on dark backgrounds only. Each hue has a marker and a hatch of its own, so that grey print still
distinguishes them. The hues of `light` are readable on white and on near-black; on the page its text and axes take the
colour of the text around. matplotlib is imported where something is drawn: a process that hands its charts to others
does without.
"""

import contextlib
import functools
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbench.errors import UserError, nearest, shown
from dlbench.report.chart import Palette, Role, Series
from dlbench.report.formatting import one_line

WHITE = "#ffffff"
# Text, and the inside of hollow markers: on the page the colour of the text around the picture, and nothing.
CURRENT, HOLLOW = "#0a0b0c", "#fefefe"
# Without diamonds (published), upward triangles (at least) and crosses (failed).
MARKERS = ("o", "s", "v", "P", "p", "<", ">", "d")
# Base lines are grey: markers alone distinguish them.
BASE_LINE_MARKERS = ("*", "X", "D", "h", "8", "H")
PUBLISHED_MARKER, AT_LEAST_MARKER, FAILED_MARKER, RING_MARKER = "D", "^", "x", "o"
MARKER_PT, STAR_PT, POINT_PT, RING_PT = 5.0, 7.5, 2.2, 10.0
# Straight lines only: dots and circles make an SVG ten times as large.
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++", "/-", "\\-", "/|")

DASHED = (0, (5.0, 2.5))
DOTTED = (0, (1.0, 1.6))
DASH_DOT = (0, (6.0, 2.0, 1.0, 2.0))
EMULATED = " (emulated)"

SHEET = Path(__file__).with_name("charts.mplstyle")
FONT = "DejaVu Sans"  # matplotlib ships it
# The first installed one of these sets letters that FONT lacks (Korean, Chinese, Japanese).
CJK_FONTS = ("Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "Nanum Gothic", "Malgun Gothic", "Apple SD Gothic Neo")
# From this letter on most are twice as wide as Latin ones: Hangul, Kana, Han.
WIDE = 0x1100
TITLE_PT = 11.0

_PARTS = (
    "#8d6944", "#5f7f9e", "#7590ac", "#9e5f89", "#b56753", "#ac8941", "#738849", "#6d6d6d", "#4f8f86", "#909090",
)  # fmt: skip
_SIZES = ("#525ad4", "#9351cd", "#c248aa", "#d4546e", "#d96429", "#b08714", "#849b27")
_GREYS = ("#000000", "#6b6b6b", "#303030", "#8a8a8a", "#4d4d4d", "#7d7d7d", "#1a1a1a")
_PALE_GROUND = ("#0072b2", "#d55e00", "#009e73", "#c26f9d", "#b87f00", "#2e93c9")


@dataclass(frozen=True)
class Style:
    """The style of a picture.

    Attributes:
        name: Its name on the command line.
        background: Background colour; `none` is transparent.
        foreground: Text and axes.
        muted: Base lines and ideals; too pale for letters.
        grid: Lines at the ticks.
        grid_opacity: Their opacity, 0 to 1.
        alarm: Failed runs.
        hollow: Inside of hollow markers: it hides the line below them.
        paper: Between the parts of a bar, and their hatches.
        ways: Colours of ways to train, in the order of use.
        sizes: Colours of batch sizes, from small to large: from cold to warm, and lighter.
        parts: Colours of the parts of a step: pale ones, which no way has.
        colour_map: Name of matplotlib's colour map for cells, uniform in lightness.
    """

    name: str
    background: str = WHITE
    foreground: str = CURRENT
    muted: str = "#767676"
    grid: str = "#808080"
    grid_opacity: float = 0.3
    alarm: str = "#d7263d"
    paper: str = WHITE
    hollow: str = HOLLOW
    ways: tuple[str, ...] = (*_PALE_GROUND, CURRENT)
    sizes: tuple[str, ...] = _SIZES
    parts: tuple[str, ...] = _PARTS
    colour_map: str = "cividis"

    def colour(self, hue: int, palette: Palette = "ways") -> str:
        """Return the colour of a series; they repeat past the last hue, with other markers."""
        colours: tuple[str, ...] = getattr(self, palette)
        return colours[hue % len(colours)]

    def line(self, series: Series, *, is_joined: bool = True) -> dict[str, Any]:
        """Return matplotlib's settings of a line through the medians of a series, and of its markers."""
        role, hollow = series.role, bool(series.emulated)
        grey = BASE_LINE_MARKERS[series.hue % len(BASE_LINE_MARKERS)]
        of_runs = DASH_DOT if hollow else "solid"
        marker, size, dash, width = {
            Role.MEASURED: (MARKERS[series.hue % len(MARKERS)], MARKER_PT, of_runs, 1.4),
            Role.BASE_LINE: (grey, STAR_PT if grey == "*" else MARKER_PT, of_runs, 1.2),
            Role.TOTAL: ("_", STAR_PT, "none", 0.0),
            Role.IDEAL: ("none", MARKER_PT, DASHED, 1.0),
            # Small diamonds on dotted lines: hollow markers are emulated runs alone.
            Role.PUBLISHED: (PUBLISHED_MARKER, 4.0, DOTTED, 1.2),
            Role.FITTED: ("none", MARKER_PT, DASH_DOT, 1.1),
        }[role]
        colour = {Role.BASE_LINE: self.muted, Role.IDEAL: self.muted, Role.TOTAL: self.foreground}.get(
            role, self.colour(series.hue, series.palette)
        )
        face = self.hollow if hollow and role in (Role.MEASURED, Role.BASE_LINE) else colour
        return {
            "color": colour, "marker": marker, "markersize": size, "linestyle": dash if is_joined else "none",
            "linewidth": width, "markerfacecolor": face, "zorder": 2 + LAYERS.index(role) / 10,
        }  # fmt: skip

    def part(self, series: Series) -> dict[str, Any]:
        """Return matplotlib's settings of the parts of bars that a series stands for."""
        colour, hatch = self.colour(series.hue, series.palette), HATCHES[series.hue % len(HATCHES)]
        if series.emulated:
            return {"facecolor": "none", "edgecolor": colour, "linestyle": DASH_DOT, "linewidth": 1.0, "hatch": hatch}
        return {"facecolor": colour, "edgecolor": self.paper, "linewidth": 0.6, "hatch": hatch}

    def rc(self) -> dict[str, Any]:
        """Return matplotlib's settings of this style; those of all styles are in `charts.mplstyle`."""
        of_text = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
        return dict.fromkeys(of_text, self.foreground) | {
            "figure.facecolor": self.background, "font.family": _fonts(), "grid.alpha": self.grid_opacity,
            "grid.color": self.grid,
        }  # fmt: skip


# From the lowest layer to the highest: measured values lie on top.
LAYERS = (Role.IDEAL, Role.FITTED, Role.PUBLISHED, Role.BASE_LINE, Role.MEASURED, Role.TOTAL)

LIGHT = Style("light")
STYLES = {
    style.name: style
    for style in (
        LIGHT,
        Style(
            "dark", background="#0d1117", foreground="#e6e6e6", muted="#a6a6a6", grid=WHITE, grid_opacity=0.16,
            alarm="#ff6b6b", paper="#0d1117", hollow="#0d1117",
            ways=("#3a9bdc", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#f0e442", "#e6e6e6"),
        ),
        Style("print", alarm=CURRENT, ways=_GREYS, sizes=_GREYS, parts=_GREYS, colour_map="Greys"),
    )
}  # fmt: skip


def style_of(name: str) -> Style:
    """Return the style with a name.

    Raises:
        UserError: There is no such style.
    """
    if name not in STYLES:
        message = f"there is no style {shown(name)}; there are: {', '.join(STYLES)}"
        raise UserError(message, hint=nearest(name, STYLES))
    return STYLES[name]


@contextlib.contextmanager
def applied(style: Style, svg_text: str = "path") -> Iterator[None]:
    """Draw with matplotlib's defaults and the style's settings, whatever the user's own settings are.

    Args:
        style: Colours and sizes.
        svg_text: In SVG, `path` makes letters shapes, `none` keeps them text.
    """
    from matplotlib import style as sheets

    with warnings.catch_warnings(), sheets.context(["default", SHEET, style.rc() | {"svg.fonttype": svg_text}]):
        # Letters that no font has are drawn as boxes.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ |Matplotlib currently does not", category=UserWarning)
        yield


@functools.cache
def _fonts() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return [FONT, *[name for name in CJK_FONTS if name in installed][:1]]


def legend_label(series: Series) -> str:
    """Return the name of a series in the legend or beside its row."""
    return f"{series.label}{EMULATED}" if series.emulated else series.label


def wrapped(text: str, letters: int, most_lines: int = 3) -> str:
    """Return a text in lines of at most so many letters, wide ones counted twice; longer ones are cut in the middle."""
    width = max(2, letters if max(map(ord, text), default=0) < WIDE else letters // 2)
    return textwrap.fill(one_line(text, max(8, (width - 1) * most_lines)), width, break_on_hyphens=False)
