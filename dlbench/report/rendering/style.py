"""Colours, markers, line patterns and sizes: `light`, `dark`, `print`, and `page` for the HTML page.

The hues are those of Okabe and Ito (Color Universal Design, 2008), darkened where the originals are too pale to read;
their yellow is on dark backgrounds only. Each hue has a marker and a hatch of its own, so that grey print still
distinguishes them. `page` is transparent: its text and axes take the colour of the page's text, and its hues are
readable on white and on near-black. matplotlib is imported where something is drawn: a process that hands its charts to
others does without.
"""

import contextlib
import functools
import re
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dlbench.errors import UserError, nearest, shown
from dlbench.report.chart import Palette
from dlbench.report.formatting import one_line

WHITE = "#ffffff"
# White, near-black, and what the page itself is (page.css).
PAGE = (WHITE, "#121212", "#fdfcf9", "#17191d")
# Placeholder for the colour of the text around an inlined picture: matplotlib has no name for it.
CURRENT = "#0a0b0c"
# The least contrast of parts of a graphic (WCAG 2.2, success criterion 1.4.11).
LEAST_CONTRAST = 3.0

# Without diamonds (published), upward triangles (at least) and crosses (failed).
MARKERS = ("o", "s", "v", "P", "p", "<", ">", "d")
# Straight lines only: dots and circles make an SVG ten times as large.
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++", "/-", "\\-", "/|")

SOLID = "solid"
DASHED = (0, (5.0, 2.5))
DOTTED = (0, (1.0, 1.6))
DASH_DOT = (0, (6.0, 2.0, 1.0, 2.0))
Dash = str | tuple[int, tuple[float, ...]]

FONT = "DejaVu Sans"  # matplotlib ships it
# The first installed one of these sets letters that FONT lacks (Korean, Chinese, Japanese).
CJK_FONTS = ("Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "Nanum Gothic", "Malgun Gothic", "Apple SD Gothic Neo")
# Mean widths of letters as shares of their size: of FONT, of its bold form, and of CJK letters.
LETTER, BOLD_LETTER, WIDE_LETTER = 0.56, 0.66, 1.0


_SIZES = ("#525ad4", "#9351cd", "#c248aa", "#d4546e", "#d96429", "#b08714", "#849b27")
_PARTS = (
    "#8d6944", "#5f7f9e", "#7590ac", "#9e5f89", "#b56753", "#ac8941", "#738849", "#6d6d6d", "#4f8f86", "#909090",
)  # fmt: skip
_GREYS = ("#000000", "#6b6b6b", "#303030", "#8a8a8a", "#4d4d4d", "#7d7d7d", "#1a1a1a")


@dataclass(frozen=True)
class Style:
    """The style of a picture.

    Attributes:
        name: Its name on the command line.
        background: Background colour; `none` is transparent.
        grounds: The colours on which it must be readable.
        foreground: Text and axes.
        muted: Base lines and ideals; too pale for letters.
        grid: Lines at the ticks.
        grid_opacity: Their opacity, 0 to 1.
        alarm: Failed runs.
        paper: Between the parts of a bar, and their hatches.
        hues: Colours of ways to train, in the order of use.
        sizes: Colours of batch sizes, from small to large: from cold to warm, and lighter.
        parts: Colours of the parts of a step: pale ones, which no way has.
        colour_map: Name of matplotlib's colour map for cells, uniform in lightness.
        text_pt: Size of panel titles and axis labels.
        small_pt: Size of all other text.
        title_pt: Size of the chart's title.
        markers: Markers of series, in the order of use.
        hatches: Hatches of parts of bars, in the order of use.
        emulated: Line pattern of emulated runs.
        ideal: Line pattern of ideals.
        published: Line pattern of published numbers.
        fitted: Line pattern of fits.
        is_spoken: Whether marks say what they are where the mouse rests.
    """

    name: str
    background: str
    grounds: tuple[str, ...]
    foreground: str
    muted: str
    grid: str
    grid_opacity: float
    alarm: str
    paper: str
    hues: tuple[str, ...]
    sizes: tuple[str, ...] = _SIZES
    parts: tuple[str, ...] = _PARTS
    colour_map: str = "cividis"
    text_pt: float = 9.0
    small_pt: float = 8.5
    title_pt: float = 11.0
    markers: tuple[str, ...] = MARKERS
    hatches: tuple[str, ...] = HATCHES
    emulated: Dash = DASH_DOT
    ideal: Dash = DASHED
    published: Dash = DOTTED
    fitted: Dash = DASH_DOT
    is_spoken: bool = False

    def colour(self, hue: int, palette: Palette = "ways") -> str:
        """Return the colour of a series; they repeat past the last hue, with other markers."""
        colours = {"ways": self.hues, "sizes": self.sizes, "parts": self.parts}[palette]
        return colours[hue % len(colours)]

    def marker(self, hue: int) -> str:
        """Return the marker of a series."""
        return self.markers[hue % len(self.markers)]

    def hatch(self, hue: int) -> str:
        """Return the hatch of a part of a bar."""
        return self.hatches[hue % len(self.hatches)]

    def rc(self, svg_text: str) -> dict[str, Any]:
        """Return matplotlib's settings for this style; `svg_text` is `path` (letters as shapes) or `none` (as text)."""
        return {
            "axes.axisbelow": True,
            "axes.edgecolor": self.foreground,
            "axes.facecolor": "none",
            "axes.formatter.useoffset": False,
            "axes.labelcolor": self.foreground,
            "axes.labelsize": self.text_pt,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlecolor": self.foreground,
            "axes.titlelocation": "left",
            "axes.titlesize": self.text_pt,
            "axes.titley": 1.0,  # else its place is searched in each draw, for ticks above the axes
            "axes.titleweight": "bold",
            "axes.ymargin": 0.06,
            "figure.edgecolor": "none",
            "figure.facecolor": self.background,
            "figure.titlesize": self.title_pt,
            "figure.titleweight": "bold",
            # A browser may lack FONT; here a second name for it would be looked up for each text.
            "font.family": [*_fonts(), *(["sans-serif"] if svg_text == "none" else [])],
            "font.sans-serif": [FONT],
            "font.size": self.small_pt,
            "grid.alpha": self.grid_opacity,
            "grid.color": self.grid,
            "hatch.linewidth": 0.5,
            "legend.borderaxespad": 0.7,
            "legend.borderpad": 0.0,
            "legend.fontsize": self.small_pt,
            "legend.frameon": False,
            "legend.handlelength": 3.0,
            "legend.labelspacing": 0.4,
            "svg.fonttype": svg_text,
            "svg.hashsalt": "dlbench",
            "text.color": self.foreground,
            "text.parse_math": False,
            "xtick.color": self.foreground,
            "xtick.labelsize": self.small_pt,
            "ytick.color": self.foreground,
            "ytick.labelsize": self.small_pt,
        }


_PALE_GROUND = ("#0072b2", "#d55e00", "#009e73", "#c26f9d", "#b87f00", "#2e93c9")

STYLES = {
    style.name: style
    for style in (
        Style(
            name="light",
            background=WHITE,
            grounds=(WHITE,),
            foreground="#1a1a1a",
            muted="#6b6b6b",
            grid="#000000",
            grid_opacity=0.13,
            alarm="#d7263d",
            paper=WHITE,
            hues=(*_PALE_GROUND, "#1a1a1a"),
        ),
        Style(
            name="dark",
            background="#0d1117",
            grounds=("#0d1117",),
            foreground="#e6e6e6",
            muted="#a6a6a6",
            grid="#ffffff",
            grid_opacity=0.16,
            alarm="#ff6b6b",
            paper="#0d1117",
            hues=("#3a9bdc", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#f0e442", "#e6e6e6"),
        ),
        Style(
            name="print",
            background=WHITE,
            grounds=(WHITE,),
            foreground="#000000",
            muted="#767676",
            grid="#000000",
            grid_opacity=0.13,
            alarm="#000000",
            paper=WHITE,
            hues=_GREYS,
            sizes=_GREYS,
            parts=_GREYS,
            colour_map="Greys",
        ),
        Style(
            name="page",
            background="none",
            grounds=PAGE,
            foreground=CURRENT,
            muted="#767676",
            grid="#808080",
            grid_opacity=0.3,
            alarm="#d7263d",
            paper=WHITE,
            hues=(*_PALE_GROUND, CURRENT),
            is_spoken=True,
        ),
    )
}


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

    with warnings.catch_warnings(), sheets.context(["default", style.rc(svg_text)]):
        # Letters that no font has are drawn as boxes.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ ", category=UserWarning)
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support", category=UserWarning)
        yield


# Parts of a long word, each with what it ends in.
_JOINTS = re.compile(r"[^_=]*[_=]+|[^_=]+")


def wrapped(text: str, width_pt: float, size_pt: float, *, bold: bool = False, max_lines: int | None = None) -> str:
    """Return a text in lines of about `width_pt` points; words are broken only where they are longer than a line."""
    letters = max(1, int(width_pt / letter_pt(text, size_pt, bold=bold)))
    cut = " …"[-letters:]
    return _Wrapper(letters, max_lines=max_lines, placeholder=cut, break_on_hyphens=False).fill(one_line(text, 5_000))


class _Wrapper(textwrap.TextWrapper):
    """Breaks words that are longer than a line behind `_` and `=`, before it breaks them anywhere."""

    def _split(self, text: str) -> list[str]:
        chunks: list[str] = super()._split(text)
        return [part for chunk in chunks for part in ([chunk] if len(chunk) <= self.width else _JOINTS.findall(chunk))]


def letter_pt(text: str, size_pt: float, *, bold: bool = False) -> float:
    """Return the mean width of the letters of a text in points."""
    return size_pt * ((BOLD_LETTER if bold else LETTER) if text.isascii() else WIDE_LETTER)


@functools.cache
def _fonts() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return (FONT, *[name for name in CJK_FONTS if name in installed][:1])


def luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb`, 0 for black to 1 for white (WCAG 2.2, relative luminance)."""
    red, green, blue = (_linear(int(colour[start : start + 2], 16) / 255) for start in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, 1 for equal ones to 21 (WCAG 2.2, contrast ratio)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)
