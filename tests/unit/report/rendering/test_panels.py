"""Panels: every run is drawn at its place, ticks can be read, and what has no place is counted."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from dlbench.report.chart import Axis, Chart, Hues, Panel, Role, Scale, Series, line_mark
from dlbench.report.rendering.cells import cell_text
from dlbench.report.rendering.panels import FAILED, HOLLOW, MAX_POINTS, NO_VALUE, RINGED, num_left_out
from dlbench.report.rendering.style import MARKER_PT, MARKERS, POINT_PT, RING_PT, TOTAL_PT, applied
from tests.unit.report import charts
from tests.unit.report.charts import EVERY, cells, lines, mark, measured
from tests.unit.report.rendering.pictures import LIGHT, SLACK, assert_legible, drawn, said, svg, texts, ticks


def test_every_point_is_drawn_beside_its_place_with_medians_and_intervals() -> None:
    series = measured()
    (axes,) = drawn(lines(series)).axes
    dots = [line for line in axes.lines if line.get_markersize() == POINT_PT]
    ys = sorted(value for line in dots for value in line.get_ydata())
    assert ys == sorted(point for one in series.marks for point in one.points)
    xs = [value for line in dots for value in line.get_xdata()]
    assert len(set(xs)) == len(xs)
    assert all(min(abs(math.log2(x / one.x)) for one in series.marks) < 0.1 for x in xs)
    (line,) = [line for line in axes.lines if line.get_marker() == MARKERS[0] and len(line.get_xdata()) == 4]
    assert list(line.get_ydata()) == [102.0, 195.0, 350.0, 600.0]
    (intervals,) = [line for line in axes.lines if line.get_marker() == "_"]
    ends = [y for y in intervals.get_ydata() if not math.isnan(y)]
    assert ends == [100.0, 104.0, 190.0, 201.0, 340.0, 361.0]


def test_series_at_one_place_stand_beside_each_other_and_inside() -> None:
    figure = drawn(lines(*(measured(str(number)) for number in range(5))))
    (axes,) = figure.axes
    joined = [line for line in axes.lines if len(line.get_xdata()) == 4 and line.get_linestyle() == "-"]
    places = np.array([line.get_transform().transform(line.get_xydata())[:, 0] for line in joined])
    assert places.shape == (5, 4)
    assert (np.diff(places, axis=0) * 72 / figure.dpi > 1.0).all()
    assert np.ptp(places, axis=0).max() < 0.5 * np.diff(places.mean(axis=0)).min()
    assert axes.bbox.x0 < places.min() - 2
    assert places.max() + 2 < axes.bbox.x1


def test_failed_runs_break_the_line_and_are_counted_below_all_values() -> None:
    series = (
        Series("mpi", (mark(1, 1.0), mark(2, 2.0), mark(4, failed=2), mark(8, 3.0))),
        Series("horovod", (mark(4, 2.0, failed=3),), hue=1),
    )
    figure = drawn(lines(*series))
    (axes,) = figure.axes
    (line,) = [line for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) == 4]
    assert np.isnan(line.get_ydata()).tolist() == [False, False, True, False]
    boxes = dict(texts(figure))
    assert FAILED in boxes
    assert boxes["5"].y1 <= axes.bbox.y0 + SLACK  # the values end here
    assert boxes["5"].y0 >= axes.spines.bottom.get_window_extent().y0 - SLACK
    (cross,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [4.0]
    only_failed = drawn(EVERY["only failed"])
    assert f"mpi{NO_VALUE}" in said(only_failed)
    assert [[label.get_text() for label in labels] for labels in ticks(only_failed)] == [["1", "2"], []]


def test_emulated_runs_are_hollow_and_named() -> None:
    figure = drawn(lines(measured("real"), measured("shared", emulated="oversubscribed", hue=1)))
    assert {"real", "shared (emulated)"} <= set(said(figure))
    faces = [line.get_markerfacecolor() for line in figure.axes[0].lines if len(line.get_xdata()) == 4]
    assert faces == [LIGHT.colour(0), LIGHT.background]
    assert LIGHT.background not in svg(lines(measured(emulated="simulated")))  # on the page they are empty


def test_a_line_of_one_place_is_visible_and_base_lines_have_markers_of_their_own() -> None:
    for role in Role:
        figure = drawn(lines(Series("x", (line_mark(4, 100.0),), role)))
        (line,) = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 1 and line.get_markersize() > 3]
        assert line.get_marker() != "none", role
        assert line.get_markersize() <= TOTAL_PT, role
    series = [Series(name, (mark(1, 1.0, 2.0),), Role.BASE_LINE) for name in ("alone, batch 8", "alone, batch 16")]
    (axes,) = drawn(Hues().applied(lines(measured(), *series))).axes
    assert [line.get_marker() for line in axes.lines if len(line.get_xdata()) == 1] == ["*", "X"]


def test_ticks_stand_at_chosen_values_and_else_at_round_ones() -> None:
    def labels(*places: float, scale: Scale = "log2") -> list[str]:
        chart = lines(Series("mpi", tuple(mark(x, 1.0 + x) for x in places)), x=Axis("x", scale))
        return [label.get_text() for label in ticks(drawn(chart))[0]]

    assert labels(8, 16, 24, 32) == ["8", "16", "24", "32"]
    assert labels(*range(1, 30)) == ["1", "2", "4", "8", "16", "32"]
    assert labels(41.371, 77.313, scale="linear") == ["40", "50", "60", "70"]


def test_an_axis_keeps_its_ends_but_for_values_beyond() -> None:
    for chart, bottom, top in (
        (lines(measured(), y=Axis("y", low=0.0)), 0.0, None),
        (lines(measured(), y=Axis("y", low=200.0)), None, None),
        (lines(measured(), y=Axis("y", low=0.0, high=1000.0)), 0.0, 1000.0),
        (lines(Series("mpi", (mark(1, 0.4), mark(8, 0.7))), y=Axis("y", low=0.0, high=1.1, percent=True)), 0.0, 1.1),
    ):
        low, high = drawn(chart).axes[0].get_ylim()
        values = [point for each in chart.panels[0].marks() for point in each.points]
        assert low <= min(values) < max(values) <= high
        assert bottom in (None, low)
        assert top in (None, high)
    (axes,) = drawn(EVERY["efficiency"]).axes
    assert axes.get_ylim()[1] > 1.3
    assert "100%" in [label.get_text() for label in axes.get_yticklabels()]


def test_logarithmic_axes_of_one_quantity_have_the_same_ends() -> None:
    panels = [
        lines(Series("mpi", marks), y=Axis(label, scale), title=str(place)).panels[0]
        for place, (marks, label, scale) in enumerate((
            ((mark(1, 10.0), mark(2, 20.0)), "rate", "log10"),
            ((mark(1, 15.0), mark(2, 500.0)), "rate", "log10"),
            ((mark(1, failed=1),), "rate", "log10"),
            ((mark(1, 15.0), mark(2, 500.0)), "time", "log10"),
            ((mark(1, 10.0), mark(2, 20.0)), "rate", "linear"),
            *(((mark(1, rate), mark(2, 9 * rate)), "unlike models", "log10") for rate in (3.0, 300.0, 30_000.0)),
        ))
    ]  # fmt: skip
    figure = drawn(Chart("t", tuple(panels)))
    ends = [axes.get_ylim() for axes in figure.axes]
    assert ends[0] == ends[1] != ends[3]
    assert ends[0][0] < 10.0 < 500.0 < ends[0][1]
    assert ends[4][1] < 25.0
    assert [high / low < 30 for low, high in ends[5:]] == [True] * 3
    across = [[text.get_text() for text in labels] for labels in ticks(figure)[1::2]]
    assert across[0] == across[1] == ["10", "20", "50", "100", "200", "500"]
    assert across[2] == []


def test_what_a_logarithm_cannot_show_is_counted() -> None:
    (panel,) = EVERY["zeros on logs"].panels
    assert num_left_out(panel).startswith("4 values not shown")
    assert any("4 values not shown" in text for text in said(drawn(EVERY["zeros on logs"])))
    assert num_left_out(lines().panels[0]) == ""
    unknown_end = lines(Series("mpi", (mark(1, 2.0, ended=(math.inf,)),)))
    assert num_left_out(unknown_end.panels[0]) == ""
    assert not any("at least" in text for text in said(drawn(unknown_end)))
    for name in ("no series", "no panel", "cells without values"):
        assert any("nothing to show" in text for text in said(drawn(EVERY[name]))), name


@pytest.mark.parametrize("scale", ["linear", "log2", "log10"])
def test_absurd_values_are_drawn_or_counted(scale: Scale) -> None:
    values = (1e-310, 1.0, 1e300, math.inf, math.nan)
    series = Series("mpi", tuple(mark(x, value, ended=(value,)) for x, value in enumerate(values, 1)))
    row = Series("mpi", (mark(0, 2.0), mark(1, 2.0), mark(2, -1e300)))
    x, y = Axis("x", categories=tuple("abcde")), Axis("y", scale)
    for panel in (
        Panel("", Axis("x", scale), y, (series,)),
        Panel("", x, y, (series,), form="bars"),
        Panel("", x, y, (row,), form="cells"),
    ):
        assert len(svg(Chart("t", (panel,)))) > 1_000


def test_parts_of_a_bar_stand_on_each_other_and_negative_ones_hang() -> None:
    (axes,) = (figure := drawn(charts.bars())).axes
    boxes = [(box.get_x() + box.get_width() / 2, box.get_y(), box.get_height()) for box in axes.patches]
    assert len(boxes) == 5
    for place, bottom, height in ((0, 0.0, 1.1), (0, 1.1, 8.1), (1, 1.25 + 8.25, 2.25)):
        assert any(box == pytest.approx((place, bottom, height)) for box in boxes), (place, bottom, boxes)
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 1.25 + 8.3 + 2.3
    assert {"waiting for data", "all-reduce", HOLLOW, "3"} <= set(said(figure))
    (axes,) = drawn(charts.bars(series=(Series("a", (mark(0, -2.0),)), Series("b", (mark(0, 3.0),))))).axes
    assert [(box.get_y(), box.get_height()) for box in axes.patches] == [(0.0, -2.0), (0.0, 3.0)]
    assert axes.get_ylim()[0] < -2.0
    # Few bars are slim.
    figure = drawn(charts.bars(x=Axis("", categories=("mpi",)), series=(Series("a", (mark(0, 2.0),)),)))
    (box,) = figure.axes[0].patches
    assert box.get_window_extent().width < 0.25 * figure.bbox.width


def test_cells_hold_their_values_and_have_a_colour_each() -> None:
    found = said(drawn(cells()))
    assert {"101", "100", "200", "400", "-", "5 failed", "mirrored (emulated)"} <= set(found)
    (panel,), (percent,) = cells().panels, cells(y=Axis("share", percent=True)).panels
    assert cell_text(mark(0, ended=(7.0, 9.0)), panel) == "≥ 7"
    assert cell_text(mark(0, 0.5, failed=1), percent) == "50%\n1 failed"
    flagged = replace(panel.series[1], marks=(replace(panel.series[1].marks[0], flags="drift"),))
    assert any("*" in text for text in said(drawn(Chart("t", (replace(panel, series=(panel.series[0], flagged)),)))))
    for axis in (Axis("x", "log10"), Axis("x", percent=True), Axis("x", low=0.0, high=1e3)):
        figure = drawn(cells(y=axis))
        figure.draw_without_rendering()
        (mesh,) = figure.axes[0].collections
        assert len({tuple(colour) for colour in mesh.get_facecolor()}) >= 4, axis
        axes, bar = figure.axes
        assert axes.get_title("left").replace("\n", " ") == f"{panel.title}: {axis.label}"
        assert list(bar.get_yticks()) == pytest.approx(bar.get_ylim())
    # Beneath titles of three lines rows keep their height.
    few = replace(panel, title="learning rate 0.05", y=Axis("validation accuracy at the end"), series=panel.series[:2])
    figure = drawn(Chart("t", (few,) * 9))
    assert_legible(figure)
    assert min(axes.bbox.height for axes in figure.axes) >= 0.4 * figure.dpi


def test_a_great_many_points_stay_a_small_file() -> None:
    points = tuple(float(number) for number in range(MAX_POINTS + 1))
    found = svg(lines(Series("mpi", (mark(1, *points), mark(2, 1.0)))))
    assert found.count("<use") < 200
    assert "data:image/png" in found


def test_a_line_has_three_places_and_marks_that_were_measured_stay_at_theirs() -> None:
    several = [
        Series("two", (mark(1, 1.0), mark(2, 2.0)), hue=0),
        Series("three", (mark(1, 1.0), mark(2, 2.0), mark(4, 3.0)), hue=1),
    ]
    (axes,) = drawn(lines(*several)).axes
    found = {len(line.get_xdata()): line.get_linestyle() for line in axes.lines if line.get_markersize() == MARKER_PT}
    assert found == {2: "None", 3: "-"}
    (panel,) = lines(*(replace(one, marks=one.marks[1:2]) for one in several)).panels
    for is_scatter in (False, True):
        (axes,) = drawn(Chart("places", (replace(panel, is_scatter=is_scatter),))).axes
        at = [float(line.get_xdata()[0]) for line in axes.lines if line.get_markersize() == MARKER_PT]
        assert (at == [2.0, 2.0]) is is_scatter
        assert at == pytest.approx([2.0, 2.0], abs=0.05)


def test_ticks_are_numbers_apart_and_none_is_beyond_what_there_can_be() -> None:
    updates = Series("mpi", tuple(mark(x, 0.9 + x / 12_800) for x in (80, 160, 320, 480, 640, 800, 960, 1280)))
    (axes,) = (figure := drawn(lines(updates, x=Axis("update", "log10"), y=Axis("accuracy", most=1.0)))).axes
    figure.draw_without_rendering()
    assert not [label for label in axes.get_xticklabels(which="minor") if label.get_text()]
    assert max(tick for tick in axes.get_yticks() if tick <= axes.get_ylim()[1]) == 1.0
    assert axes.get_ylim()[1] > 1.0  # the marker is whole
    near = Series("mpi", tuple(mark(0.001 + x / 1e5, 1.0) for x in (9.71, 31.3, 55.7, 93.1)))
    panel = Panel("", Axis("hours", "log10"), Axis("y"), (near,), is_scatter=True)
    boxes = [label.get_window_extent() for label in ticks(drawn(Chart("narrow", (panel,) * 3)))[0]]
    assert len(boxes) > 1
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


def test_flags_of_the_minority_are_rings_and_names_stand_beside_marks() -> None:
    marks = [replace(mark(x, 1.0 * x, 2.0), flags="unsteady" if x == 4 else "extended") for x in (1, 2, 4)]
    figure = drawn(lines(Series("mpi", (*marks[:2], replace(marks[2], name="batch 8")))))
    rings = [line for line in figure.axes[0].lines if line.get_markersize() == RING_PT]
    assert [list(line.get_xdata()) for line in rings] == [[4.0]]
    assert {RINGED, "batch 8"} <= set(said(figure))
    assert dict(texts(figure))["batch 8"].x0 >= figure.axes[0].bbox.x0


def test_logarithmic_axes_have_ticks_of_1_2_5_or_the_values_themselves() -> None:
    for low, high, expected in (
        (6_500, 110_000, ["10,000", "20,000", "50,000", "100,000"]),
        (2_000, 8_000, ["2,000", "4,000", "6,000", "8,000"]),
        (21_000, 29_000, ["22,000", "24,000", "26,000", "28,000"]),
        (0.4, 7.0, ["0.5", "1", "2", "5"]),
        (1.0, 90_000.0, ["1", "10", "100", "1,000", "10,000"]),
    ):
        figure = drawn(lines(Series("a", (mark(1, low), mark(2, high))), x=Axis("x"), y=Axis("y", "log10")))
        figure.draw_without_rendering()
        shown = [label.get_text() for label in ticks(figure)[1]]
        assert [text for text in shown if text in expected] == expected, shown
        assert len(shown) <= len(expected) + 2


@pytest.mark.parametrize(("size", "scale"), [(2e-4, "linear"), (700.0, "log10"), (1_493_887.0, "linear")])
def test_ticks_of_every_size_have_separators_and_no_exponent(size: float, scale: Scale) -> None:
    axis = Axis("steady throughput (samples/s)", scale)
    figure = drawn(lines(Series("mpi", tuple(mark(x * size, x * size) for x in (1, 3, 9))), x=axis, y=axis))
    with applied(LIGHT):
        figure.draw_without_rendering()
    assert {axis.get_offset_text().get_text() for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis)} == {""}
    labels = [label.get_text() for found in ticks(figure) for label in found]
    assert len(labels) > 4
    assert [label for label in labels if not re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d+)?", label)] == []
