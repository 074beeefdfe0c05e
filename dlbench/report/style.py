"""How pictures look: colours, markers, line patterns, sizes. `light`, `dark`, `print`, and `page` for the HTML page.

The hues are those of Okabe and Ito (Color Universal Design, 2008), darkened where the originals are too pale to be
read; its yellow is only on dark ground. Each hue has a marker and a hatch of its own, so that grey print still tells
them apart. `page` has no ground: its text and axes take the colour of the page's text, and its hues can be read on
white and on near-black.
"""

from dataclasses import dataclass

from dlbench.errors import UserError, nearest, shown

WHITE = "#ffffff"
# White, near-black, and what the page itself is (page.css).
PAGE = (WHITE, "#121212", "#fdfcf9", "#17191d")
# Stands for the colour of the text around an inlined picture; the drawing library knows no such colour by name.
CURRENT = "#0a0b0c"
# WCAG 2.2, success criterion 1.4.11: what is needed to understand a graphic.
LEAST_CONTRAST = 3.0

# None of them is an open diamond (published), an upward triangle (at least) or a cross (failed).
MARKERS = ("o", "s", "v", "P", "p", "<", ">", "d")
# Straight lines alone: dots and circles make a picture of ten times the size.
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++", "/-")

SOLID = "solid"
DASHED = (0, (5.0, 2.5))
DOTTED = (0, (1.0, 1.6))
DASH_DOT = (0, (6.0, 2.0, 1.0, 2.0))
Dash = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Style:
    """One way to draw every chart.

    Attributes:
        name: What it is chosen by.
        background: Colour of the ground; `none` where the page shines through.
        grounds: The colours it has to be read on.
        foreground: Text and axes.
        muted: Base lines and ideals; too pale for letters.
        grid: Lines at the ticks.
        grid_opacity: How much of them is seen, 0 to 1.
        alarm: Failed runs.
        paper: Between the parts of a bar, and their hatches.
        hues: Colours of series, in the order in which they are taken.
        colour_map: Name of the map of a map of colours, even in lightness.
        text_pt: Size of titles of panels and labels of axes.
        small_pt: Size of everything else: no text is smaller.
        title_pt: Size of the chart's title.
        markers: Markers of series, in the order in which they are taken.
        hatches: The same of the parts of bars.
        emulated: Pattern of the line of emulated runs.
        ideal: The same of ideals.
        published: The same of published numbers.
        fitted: The same of fits.
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

    def colour(self, hue: int) -> str:
        """Return a series' colour; past the last hue they begin anew, with other markers."""
        return self.hues[hue % len(self.hues)]

    def marker(self, hue: int) -> str:
        """Return a series' marker."""
        return self.markers[hue % len(self.markers)]

    def hatch(self, hue: int) -> str:
        """Return the hatch of a part of a bar."""
        return self.hatches[hue % len(self.hatches)]


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
            hues=("#000000", "#6b6b6b", "#303030", "#8a8a8a", "#4d4d4d", "#7d7d7d", "#1a1a1a"),
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
        ),
    )
}


def style_of(name: str) -> Style:
    """Return the style of this name.

    Raises:
        UserError: There is none.
    """
    if name not in STYLES:
        message = f"there is no style {shown(name)}; there are: {', '.join(STYLES)}"
        raise UserError(message, hint=nearest(name, STYLES))
    return STYLES[name]


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
