"""One pair of axes: scales, limits, ticks that do not overlap, labels, and the title above it."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.ticker import NullFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from dlbench.report import lettering
from dlbench.report.chart import Axis, Panel
from dlbench.report.looks import SEEN
from dlbench.report.scales import BASES, by_weight, can_show, forward, labels, ticks, without_overlap
from dlbench.report.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With more values than this on an axis, ticks stand at round numbers.
MOST_VALUES = 16
# Room between two labels, as a share of the size of their letters.
GAP = 0.7
LINE = 1.4
# Labels that stand upright under their ticks, and names of rows, are cut to this width.
LONGEST_NAME_PT = 180.0
POINTS = 72.0
NOTHING = "nothing to show here:\nno run has these values"


def size_pt(axes: "Axes") -> tuple[float, float]:
    """Return width and height of the axes in points."""
    dpi = axes.figure.dpi
    return float(axes.bbox.width / dpi * POINTS), float(axes.bbox.height / dpi * POINTS)


def frame(axes: "Axes", panel: Panel, x: tuple[float, float], y: tuple[float, float]) -> None:
    """Set scales and limits, before anything is drawn."""
    for axis, ends, set_scale, set_limits in (
        (panel.x, x, axes.set_xscale, axes.set_xlim),
        (panel.y, y, axes.set_yscale, axes.set_ylim),
    ):
        if axis.scale in BASES:
            set_scale("log", base=BASES[axis.scale])
        set_limits(*ends)
    for one in (axes.xaxis, axes.yaxis):
        one.set_minor_locator(NullLocator())
        one.set_minor_formatter(NullFormatter())


def x_values(panel: Panel) -> list[float]:
    """Return the places on the horizontal axis that occur, of what was run if anything was."""
    of_runs = [series for series in panel.series if series.role in SEEN]
    places = {float(mark.x) for series in of_runs or panel.series for mark in series.marks}
    return sorted(place for place in places if can_show(place, panel.x.scale))


def number_ticks(axes: "Axes", panel: Panel, style: Style) -> None:
    """Put ticks on the horizontal axis at the values that occur; at round numbers where they are many or not round."""
    low, high = axes.get_xlim()
    values = x_values(panel)
    if len(values) > MOST_VALUES or not all(map(_is_round, values)):
        values = list(ticks(panel.x, low, high))
    texts = labels(values, percent=panel.x.percent)
    place, length = forward(panel.x.scale), size_pt(axes)[0]
    places = [(place(value) - place(low)) / (place(high) - place(low)) * length for value in values]
    widths = [lettering.width(text, style.small_pt) for text in texts]
    kept = without_overlap(places, widths, by_weight(values, panel.x.scale), GAP * style.small_pt)
    axes.set_xticks([values[number] for number in kept], [texts[number] for number in kept])
    axes.set_xticks([value for number, value in enumerate(values) if number not in kept], minor=True)


def _is_round(value: float) -> bool:
    """Whether somebody may have chosen a value (batch 96, rate 0.05), rather than measured it (41.37 s)."""
    return value.is_integer() or float(f"{value:.2g}") == value


def category_ticks(axes: "Axes", names: Sequence[str], style: Style) -> None:
    """Put names under the horizontal axis: in lines if they fit, else upright, and not all where that is too narrow."""
    low, high = axes.get_xlim()
    slot = size_pt(axes)[0] / max(high - low, 1.0)
    texts = [lettering.wrapped(name, slot - GAP * style.small_pt, style.small_pt) for name in names]
    if all(_fits(name, text, slot, style) for name, text in zip(names, texts, strict=True)):
        axes.set_xticks(range(len(names)), texts)
        return
    step = max(1, math.ceil(LINE * style.small_pt / slot))
    shown = [lettering.cut(name, LONGEST_NAME_PT, style.small_pt) for name in names[::step]]
    axes.set_xticks(range(0, len(names), step), shown, rotation=90)
    axes.set_xticks(range(len(names)), minor=True)


def _fits(name: str, text: str, slot: float, style: Style) -> bool:
    """Whether a name stands in at most three lines with its words whole."""
    words = [lettering.width(word, style.small_pt) for word in name.split()]
    return text.count("\n") < 3 and max(words, default=0.0) <= slot - GAP * style.small_pt


def name_ticks(axes: "Axes", names: Sequence[str], style: Style) -> None:
    """Put names beside the vertical axis, from 0 upwards."""
    axes.set_yticks(range(len(names)), [lettering.cut(name, LONGEST_NAME_PT, style.small_pt) for name in names])


def value_ticks(axes: "Axes", axis: Axis, floor: float) -> None:
    """Put ticks on the vertical axis at round numbers, none below `floor`, with faint lines across."""
    low, high = axes.get_ylim()
    values = [value for value in ticks(axis, low, high) if value >= floor]
    axes.set_yticks(values, labels(values, percent=axis.percent))
    axes.grid(axis="y")


def name_axes(axes: "Axes", x: str, y: str, style: Style) -> None:
    """Write the labels of the axes, in two lines where one is too long."""
    width, height = size_pt(axes)
    axes.set_xlabel(lettering.wrapped(x, width, style.text_pt, most_lines=2))
    axes.set_ylabel(lettering.wrapped(y, max(height, 80.0), style.text_pt, most_lines=2))


def head(axes: "Axes", title: str, note: str, style: Style) -> None:
    """Write a panel's title and, below it, a note in small letters."""
    width = size_pt(axes)[0]
    lines = lettering.wrapped(note, width, style.small_pt, most_lines=3)
    num_lines = len(lines.split("\n")) if lines else 0
    if num_lines:
        up = ScaledTranslation(0, 3.0 / POINTS, axes.figure.dpi_scale_trans)
        axes.text(0, 1, lines, transform=axes.transAxes + up, va="bottom", color=style.foreground, size=style.small_pt)
    text = lettering.wrapped(title, width, style.text_pt, most_lines=3, weight="bold")
    axes.set_title(text, loc="left", pad=5.0 + num_lines * LINE * style.small_pt, weight="bold")


def empty(axes: "Axes", panel: Panel, style: Style) -> None:
    """Say in an empty panel that it is empty."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, NOTHING, ha="center", va="center", color=style.foreground, transform=axes.transAxes)
    name_axes(axes, panel.x.label, panel.y.label, style)
