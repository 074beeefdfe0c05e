"""Pictures for tests: drawn once each, with what is to be read in them, and where."""

import itertools
from collections.abc import Sequence
from functools import cache

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from dlbench.report.chart import Chart
from dlbench.report.rendering.figure import draw, picture
from dlbench.report.rendering.style import applied, style_of

LIGHT = style_of("light")
SLACK = 2.5  # a pixel or two of rounding


@cache
def drawn(chart: Chart) -> Figure:
    return picture(chart, LIGHT)


@cache
def svg(chart: Chart, page_id: str = "x") -> str:
    return draw(chart, LIGHT, page_id=page_id)


def ticks(figure: Figure) -> list[list[Text]]:
    """Return the tick labels of each axis that lie within its ends: matplotlib shows no others."""
    found = []
    for axes in figure.axes:
        for axis, (one, other) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            places = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
            low, high = min(one, other), max(one, other)
            found.append([label for place, label in places if low <= place <= high and label.get_text()])
    return found


def texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Return each visible text with its box in pixels."""
    with applied(LIGHT):
        figure.draw_without_rendering()
        shown = [label for labels in ticks(figure) for label in labels]
        every = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()}
        others = [text for text in figure.findobj(Text) if text.get_visible() and text not in every]
        found = [text for text in (*shown, *others) if text.get_text().strip()]
        return [(text.get_text(), text.get_window_extent()) for text in found]


def said(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def overlaps(boxes: Sequence[Bbox]) -> list[tuple[Bbox, Bbox]]:
    return [
        (one, other)
        for one, other in itertools.combinations(boxes, 2)
        if min(one.x1, other.x1) - max(one.x0, other.x0) > 0.5 and min(one.y1, other.y1) - max(one.y0, other.y0) > 0.5
    ]


def assert_legible(figure: Figure) -> None:
    """Assert that no text leaves the canvas, and that neither ticks nor panels with their labels cover another."""
    width, height = figure.canvas.get_width_height()
    for text, box in texts(figure):
        assert min(box.x0, box.y0) >= -SLACK, text
        assert box.x1 <= width + SLACK, text
        assert box.y1 <= height + SLACK, text
    with applied(LIGHT):
        for labels in ticks(figure):
            assert not overlaps([label.get_window_extent() for label in labels]), labels
        for axes in figure.axes:
            assert not overlaps([text.get_window_extent() for text in axes.texts])  # in cells, above crosses
        assert not overlaps([axes.get_tightbbox() for axes in figure.axes])
