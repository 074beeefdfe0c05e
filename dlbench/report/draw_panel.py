"""One panel: drawn in its form, with its title and a note of what could not be drawn."""

import math
from typing import TYPE_CHECKING

from dlbench.report import axes as one_pair
from dlbench.report.chart import Mark, Panel
from dlbench.report.draw_bars import draw_bars
from dlbench.report.draw_cells import draw_cells
from dlbench.report.draw_lines import draw_lines
from dlbench.report.looks import SEEN
from dlbench.report.scales import can_show
from dlbench.report.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAINTERS = {"lines": draw_lines, "bars": draw_bars, "cells": draw_cells}


def draw_panel(axes: "Axes", panel: Panel, style: Style) -> None:
    """Draw one panel into empty axes; one that has nothing to show says so."""
    if has_content(panel):
        PAINTERS[panel.form](axes, panel, style)
    else:
        one_pair.empty(axes, panel, style)
    one_pair.head(axes, panel.title, note(panel), style)


def has_content(panel: Panel) -> bool:
    """Whether anything of a panel can be drawn."""
    return any(
        can_show(mark.x, panel.x.scale) and (mark.num_failed or _values(mark))
        for series in panel.series
        for mark in series.marks
    )


def note(panel: Panel) -> str:
    """Return what the numbers in cells are, or what other panels cannot show; empty where they show everything."""
    if panel.form == "cells":
        return panel.y.label
    count = num_left_out(panel)
    if not count:
        return ""
    values = "1 value" if count == 1 else f"{count} values"
    is_linear = panel.form == "bars" or panel.x.scale == panel.y.scale == "linear"
    why = "not finite" if is_linear else "at or below 0 on a logarithmic scale, or not finite"
    return f"{values} not shown: {why}"


def num_left_out(panel: Panel) -> int:
    """Return how many values of runs have no place on the axes of lines or bars; an unknown one (NaN) is none."""
    marks = [mark for series in panel.series if series.role in SEEN for mark in series.marks]
    return sum(_num_left_out(mark, panel) for mark in marks)


def _num_left_out(mark: Mark, panel: Panel) -> int:
    is_bar = panel.form == "bars"
    if not is_bar and not can_show(mark.x, panel.x.scale):
        return len(_values(mark)) + mark.num_failed
    return sum(not can_show(value, "linear" if is_bar else panel.y.scale) for value in _values(mark))


def _values(mark: Mark) -> list[float]:
    """Return the values that runs have at a place; of a median without its runs the median alone."""
    alone = (mark.interval.value,) if mark.interval and not mark.points else ()
    return [value for value in (*mark.points, *mark.ended, *alone) if not math.isnan(value)]
