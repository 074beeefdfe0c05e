"""One legend for all panels of a chart: every series once, then what crosses and triangles mean."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dlbench.report import lettering
from dlbench.report.chart import Chart, Mark, Panel, Series
from dlbench.report.draw_bars import STACKED
from dlbench.report.draw_lines import ALARM_PT
from dlbench.report.looks import AT_LEAST_MARKER, FAILED_MARKER, MARKER_PT, face, label, look
from dlbench.report.style import Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAILED = "runs that did not complete, counted"
AT_LEAST = "at least: the run ended before"
NO_VALUE = " (no value)"
# Sizes as multiples of the letters' size.
HANDLE, HANDLE_GAP, COLUMN_GAP = 3.0, 0.6, 1.8
# Wider columns would make reading along a line a task.
WIDEST_PT = 330.0


@dataclass(frozen=True)
class Entry:
    """One line of the legend: what is drawn and what it means."""

    text: str
    handle: Any


def entries(chart: Chart, style: Style) -> list[Entry]:
    """Return the entries of a chart, in the order of first appearance; maps of colours need none."""
    panels = [panel for panel in chart.panels if panel.form != "cells"]
    firsts: dict[tuple[object, ...], tuple[Panel, Series]] = {}
    for panel in panels:
        for series in panel.series:
            key = (series.label, series.role, bool(series.emulated), _is_part(panel, series))
            if key not in firsts or not _has_value(firsts[key][1]):
                firsts[key] = panel, series
    found = [Entry(_text(series), _handle(panel, series, style)) for panel, series in firsts.values() if series.label]
    marks = list(_marks(panels))
    if any(mark.ended for mark in marks):
        found.append(Entry(AT_LEAST, _marker(AT_LEAST_MARKER, style.foreground, MARKER_PT + 1, 1.0)))
    if any(mark.num_failed for mark in marks):
        found.append(Entry(FAILED, _marker(FAILED_MARKER, style.alarm, ALARM_PT, 1.4)))
    return found


def draw_legend(figure: "Figure", found: Sequence[Entry], width_pt: float, style: Style) -> Legend | None:
    """Add the legend to a figure in as many columns as fit, its place to be set later; None where it has no entry."""
    if not found:
        return None
    size = style.small_pt
    beside = (HANDLE + HANDLE_GAP) * size
    texts = _cut([entry.text for entry in found], width_pt - beside, size)
    column = beside + COLUMN_GAP * size + max(lettering.width(text, size) for text in texts)
    num_columns = max(1, min(len(found), int((width_pt + COLUMN_GAP * size) // column)))
    # Texts are set afterwards: what a label begins with (an underscore) would decide whether it is shown.
    legend = Legend(
        figure, [entry.handle for entry in found], ["?"] * len(found), ncols=num_columns, loc="upper left",
        bbox_to_anchor=(0, 0), bbox_transform=figure.transFigure, fontsize=size, frameon=False, borderpad=0,
        borderaxespad=0, handlelength=HANDLE, handletextpad=HANDLE_GAP, columnspacing=COLUMN_GAP, labelspacing=0.4,
        alignment="left",
    )  # fmt: skip
    for written, text in zip(legend.get_texts(), texts, strict=True):
        written.set_text(text)
    figure.legends.append(legend)
    return legend


def _cut(texts: Sequence[str], widest_pt: float, size: float) -> list[str]:
    """Return the texts no wider than reads well, or wider where they could not be told apart."""
    found = [lettering.cut(text, min(WIDEST_PT, widest_pt), size) for text in texts]
    if len(set(found)) == len(set(texts)):
        return found
    return [lettering.cut(text, widest_pt, size) for text in texts]


def _marks(panels: Sequence[Panel]) -> Iterator[Mark]:
    for panel in panels:
        for series in panel.series:
            yield from series.marks


def _is_part(panel: Panel, series: Series) -> bool:
    return panel.form == "bars" and series.role in STACKED


def _has_value(series: Series) -> bool:
    return any(mark.points or mark.interval or mark.ended for mark in series.marks)


def _text(series: Series) -> str:
    return label(series) if _has_value(series) else label(series) + NO_VALUE


def _handle(panel: Panel, series: Series, style: Style) -> Any:
    found = look(series, style)
    if _is_part(panel, series):
        return Patch(
            facecolor="none" if found.is_hollow else found.colour,
            edgecolor=found.colour if found.is_hollow else style.paper,
            linestyle=found.dash,
            hatch=style.hatch(series.hue) or None,
        )
    return Line2D(
        [],
        [],
        color=found.colour,
        linestyle=found.dash,
        linewidth=found.line_pt,
        marker=found.marker or "none",
        markersize=found.marker_pt,
        markerfacecolor=face(found, style),
    )


def _marker(marker: str, colour: str, size: float, edge: float) -> Any:
    return Line2D(
        [], [], color=colour, linestyle="none", marker=marker, markersize=size, markeredgewidth=edge,
        markerfacecolor="none",
    )  # fmt: skip
