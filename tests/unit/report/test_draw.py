"""Pictures: everything is in them, no text leaves the canvas or covers another, and equal charts give equal bytes."""

import itertools
import logging
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

from dlbench.errors import UserError
from dlbench.report import layout
from dlbench.report.chart import Axis, Chart, Panel, Role, Series
from dlbench.report.draw import described, picture, save_all, svg
from dlbench.report.draw_bars import pieces, slotted
from dlbench.report.draw_cells import cell_text
from dlbench.report.draw_lines import MOST_POINTS
from dlbench.report.draw_panel import note, num_left_out
from dlbench.report.layout import WIDEST_IN
from dlbench.report.legend import AT_LEAST, FAILED, NO_VALUE
from dlbench.report.lettering import without_glyph_warnings
from dlbench.report.looks import SMALL_MARKER_PT, STAR_PT
from dlbench.report.style import CURRENT, STYLES, style_of
from tests.unit.report.charts import (
    EVERY,
    HOSTILE,
    bars,
    cells,
    every_role,
    hostile,
    line_mark,
    lines,
    many_panels,
    mark,
    measured,
)

LIGHT, PAGE = style_of("light"), style_of("page")
# A pixel or two: letters are measured without the rounding that a renderer does.
SLACK = 2.5
FORMS = ("lines", "bars", "cells")
LONG_CAPTION = "Large markers are medians of 5 repeats; small dots are single runs. " * 8


def texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Return each text that is seen with its box in pixels."""
    renderer = figure.canvas.get_renderer()
    with without_glyph_warnings():
        figure.draw_without_rendering()
        seen = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        return [(text.get_text(), text.get_window_extent(renderer)) for text in seen]


def said(figure: Figure) -> list[str]:
    return [text for text, _ in texts(figure)]


def drawn(chart: Chart) -> Figure:
    return picture(chart, LIGHT)


def overlaps(boxes: Sequence[Bbox]) -> list[tuple[Bbox, Bbox]]:
    return [
        (one, other)
        for one, other in itertools.combinations(boxes, 2)
        if min(one.x1, other.x1) - max(one.x0, other.x0) > 0.5 and min(one.y1, other.y1) - max(one.y0, other.y0) > 0.5
    ]


def assert_inside(figure: Figure) -> None:
    width, height = figure.canvas.get_width_height()
    for text, box in texts(figure):
        assert box.x0 >= -SLACK, text
        assert box.x1 <= width + SLACK, text
        assert box.y0 >= -SLACK, text
        assert box.y1 <= height + SLACK, text


def assert_ticks_apart(figure: Figure) -> None:
    renderer = figure.canvas.get_renderer()
    with without_glyph_warnings():
        for axes in figure.axes:
            for axis in (axes.xaxis, axes.yaxis):
                labels = [label for label in axis.get_ticklabels() if label.get_text()]
                assert not overlaps([label.get_window_extent(renderer) for label in labels]), labels


@pytest.mark.parametrize("name", EVERY)
def test_no_text_leaves_the_canvas_and_no_tick_covers_another(name: str) -> None:
    figure = drawn(EVERY[name])
    assert_inside(figure)
    assert_ticks_apart(figure)


@pytest.mark.parametrize(("name", "style"), [*itertools.product(FORMS, STYLES), *((name, "page") for name in EVERY)])
def test_every_form_is_drawn_in_every_style_and_every_chart_for_the_page(name: str, style: str) -> None:
    root = ElementTree.fromstring(svg(EVERY[name], STYLES[style], name))
    assert len(list(root.iter())) > 10


def test_labels_that_nobody_should_write_stay_text_inside_the_canvas(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    figure = drawn(hostile())
    assert_inside(figure)
    assert_ticks_apart(figure)
    everything = " ".join(said(figure))
    for text in ("<script>alert(1)</script>", "$x^2_i$ and $", "_underscore %s", "two lines", "한글 이름", "␛[31mred␀"):
        assert text in everything
    assert caplog.records == []


def test_hostile_labels_do_not_leave_their_place_in_svg() -> None:
    found = svg(hostile(), PAGE, "rate")
    root = ElementTree.fromstring(found)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert "script" not in tags
    assert any(element.text == "$x^2_i$ and $" for element in root.findall(".//{*}text"))
    assert "&lt;script&gt;" in found


def test_ids_of_a_picture_are_its_own_and_lead_somewhere() -> None:
    for name in ("lines", "bars", "cells"):
        roots = {prefix: ElementTree.fromstring(svg(EVERY[name], PAGE, prefix)) for prefix in ("one", "two")}
        ids = {prefix: [e.attrib["id"] for e in root.iter() if "id" in e.attrib] for prefix, root in roots.items()}
        assert len(ids["one"]) == len(set(ids["one"]))
        assert not set(ids["one"]) & set(ids["two"])
        wanted = {
            value.removeprefix("url(").removesuffix(")").removeprefix("#")
            for element in roots["one"].iter()
            for key, value in element.attrib.items()
            if key.endswith("href") or value.startswith("url(")
        }
        assert wanted <= set(ids["one"])
        assert wanted or name == "cells"  # which has neither markers nor anything cut at its edges


def test_an_inlined_picture_takes_the_colour_of_the_page() -> None:
    found = svg(lines(), PAGE, "rate")
    assert "currentColor" in found
    assert CURRENT not in found
    assert "style=" not in found
    assert 'role="img"' in found
    assert "Throughput against workers</title>" in found
    assert "throughput (samples/s) by workers of mpi; horovod" in found


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("name", ["lines", "bars", "cells"])
def test_the_same_chart_gives_the_same_bytes(suffix: str, name: str, tmp_path: Path) -> None:
    for number in (1, 2):
        save_all(EVERY[name], LONG_CAPTION, [tmp_path / f"{number}{suffix}"], LIGHT)
    first, second = ((tmp_path / f"{number}{suffix}").read_bytes() for number in (1, 2))
    assert first == second
    assert svg(EVERY[name], PAGE, "x") == svg(EVERY[name], PAGE, "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"1{suffix}", f"2{suffix}"]


def test_title_and_caption_are_in_the_file(tmp_path: Path) -> None:
    save_all(lines(), "한글 $caption$ <b>", [tmp_path / "a.svg"], LIGHT)
    found = (tmp_path / "a.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(found)
    title = root.find("{*}title")
    assert title is not None
    assert title.text == "Throughput against workers"
    comments = found.count("<!-- ")  # letters are shapes; what they say stands in a comment
    assert comments > 10
    assert "$caption$" in found


def test_a_long_caption_makes_the_picture_higher_and_not_wider(tmp_path: Path) -> None:
    sizes = {}
    for name, caption in (("short", "One."), ("long", LONG_CAPTION)):
        save_all(lines(), caption, [tmp_path / f"{name}.png"], LIGHT)
        with Image.open(tmp_path / f"{name}.png") as image:
            sizes[name] = image.size
    assert sizes["long"][0] == sizes["short"][0]
    assert sizes["long"][1] > sizes["short"][1]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.png or \.svg"):
        save_all(lines(), "", [tmp_path / "a.pdf"], LIGHT)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(OSError):
        save_all(lines(), "", [tmp_path / "a.png"], LIGHT)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_the_settings_of_the_user_neither_show_nor_change() -> None:
    plain = svg(lines(), PAGE, "x")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "text.parse_math": True, "axes.grid": True}):
        before, filters = matplotlib.rcParams.copy(), list(warnings.filters)
        assert svg(lines(), PAGE, "x") == plain
        picture(lines(), LIGHT)
        assert matplotlib.rcParams.copy() == before
        assert list(warnings.filters) == filters


def test_every_point_is_drawn_beside_its_place() -> None:
    series = measured()
    figure = drawn(lines(series))
    dots = [line for line in figure.axes[0].lines if line.get_markersize() == SMALL_MARKER_PT]
    ys = sorted(value for line in dots for value in line.get_ydata())
    assert ys == sorted(point for one in series.marks for point in one.points)
    xs = [value for line in dots for value in line.get_xdata()]
    assert len(set(xs)) == len(xs)
    assert all(min(abs(math.log2(x / one.x)) for one in series.marks) < 0.1 for x in xs)


def test_series_at_one_place_stand_beside_each_other_and_inside() -> None:
    x = Axis("workers", "log2")
    several = [measured(str(number)) for number in range(5)]
    figure = picture(Chart("t", (Panel("", x, Axis("y"), tuple(several)),)), LIGHT)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    joined = [line for line in axes.lines if len(line.get_xdata()) == 4 and line.get_linestyle() == "-"]
    places = np.array([line.get_transform().transform(line.get_xydata())[:, 0] for line in joined])
    assert places.shape == (5, 4)
    between = np.diff(places, axis=0) * 72 / figure.dpi
    assert (between > 1.0).all()
    assert np.ptp(places, axis=0).max() < 0.5 * np.diff(places.mean(axis=0)).min()
    assert axes.bbox.x0 < places.min() - 2
    assert places.max() + 2 < axes.bbox.x1


def test_medians_and_intervals_are_drawn() -> None:
    figure = drawn(lines(measured()))
    (axes,) = figure.axes
    (line,) = [line for line in axes.lines if line.get_marker() == LIGHT.marker(0) and len(line.get_xdata()) == 4]
    assert list(line.get_ydata()) == [102.0, 195.0, 350.0, 600.0]
    (intervals,) = [line for line in axes.lines if line.get_marker() == "_"]
    ends = [y for y in intervals.get_ydata() if not math.isnan(y)]
    assert ends == [100.0, 104.0, 190.0, 201.0, 340.0, 361.0]


def test_a_line_is_broken_where_all_runs_failed() -> None:
    series = Series("mpi", (mark(1, 1.0), mark(2, failed=2), mark(4, 3.0)))
    (axes,) = drawn(lines(series)).axes
    (line,) = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert np.isnan(line.get_ydata()).tolist() == [False, True, False]


def test_failed_runs_are_counted_below_all_values() -> None:
    series = (Series("mpi", (mark(1, 1.0), mark(2, failed=2))), Series("horovod", (mark(2, 2.0, failed=3),), hue=1))
    figure = drawn(lines(*series))
    assert "5" in said(figure)
    assert FAILED in said(figure)
    boxes = dict(texts(figure))
    floor = figure.axes[0].transData.transform((2.0, 0.0))[1]
    assert boxes["5"].y1 <= floor + SLACK
    assert boxes["5"].y0 >= figure.axes[0].bbox.y0 - SLACK


def test_a_series_of_failed_runs_alone_is_in_the_legend() -> None:
    assert f"mpi{NO_VALUE}" in said(drawn(EVERY["only failed"]))


def test_emulated_runs_are_hollow_and_called_so() -> None:
    figure = drawn(lines(measured("real"), measured("shared", emulated="oversubscribed", hue=1)))
    assert {"real", "shared (emulated)"} <= set(said(figure))
    faces = [line.get_markerfacecolor() for line in figure.axes[0].lines if len(line.get_xdata()) == 4]
    assert faces == [LIGHT.colour(0), LIGHT.background]


def test_the_legend_says_each_thing_once() -> None:
    chart = many_panels(4)
    found = said(drawn(chart))
    for text in ("mpi", "paper", "shared cores (emulated)", AT_LEAST):
        assert found.count(text) == 1


def test_long_names_in_the_legend_can_be_told_apart() -> None:
    names = [f"{'a long beginning ' * 3}{middle}{' and a long end' * 3}" for middle in ("ONE", "TWO")]
    found = said(drawn(lines(*(measured(name, hue=hue) for hue, name in enumerate(names)))))
    shown = [text for text in found if text.startswith("a long beginning")]
    assert len(set(shown)) == 2


@pytest.mark.parametrize("role", Role)
def test_a_line_of_one_place_is_seen(role: Role) -> None:
    figure = drawn(lines(Series("x", (line_mark(4, 100.0),), role)))
    (line,) = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 1 and line.get_markersize() >= 5]
    assert line.get_marker() != "none"
    assert line.get_markersize() <= STAR_PT


def test_ticks_stand_at_the_values_that_occur() -> None:
    places = (8, 16, 24, 32)
    figure = drawn(lines(Series("mpi", tuple(mark(x, 1.0 * x) for x in places))))
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["8", "16", "24", "32"]
    crowded = drawn(lines(Series("mpi", tuple(mark(x, 1.0) for x in range(90, 106)))))
    shown = [label.get_text() for label in crowded.axes[0].get_xticklabels()]
    assert 2 <= len(shown) < 16
    assert set(shown) <= {str(x) for x in range(90, 106)}


def test_measured_places_get_round_ticks() -> None:
    series = Series("mpi", (mark(41.371, 1.0), mark(77.313, 2.0)))
    found = [label.get_text() for label in drawn(lines(series, x=Axis("time (s)"))).axes[0].get_xticklabels()]
    assert found
    assert not {"41.371", "77.313"} & set(found)


def test_percent_goes_to_110_and_shows_what_lies_beyond() -> None:
    (axes,) = drawn(EVERY["efficiency"]).axes
    assert "100%" in [label.get_text() for label in axes.get_yticklabels()]
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 1.3


def test_what_a_logarithm_cannot_show_is_counted() -> None:
    (panel,) = EVERY["zeros on logs"].panels
    assert num_left_out(panel) == 4
    assert note(panel).startswith("4 values not shown")
    assert any(text.replace("\n", " ").startswith("4 values not shown") for text in said(drawn(EVERY["zeros on logs"])))
    assert note(lines().panels[0]) == ""


def test_nothing_to_show_is_said() -> None:
    for name in ("no series", "no panel", "cells without values"):
        assert any("nothing to show" in text for text in said(drawn(EVERY[name])))


def test_parts_of_a_bar_stand_on_each_other() -> None:
    (panel,) = bars().panels
    found = [(piece.mark.x, piece.bottom, piece.height) for piece in pieces(slotted(panel))]
    assert found[0] == pytest.approx((0, 0.0, 1.1))
    assert found[3] == pytest.approx((0, 1.1, 8.1))
    assert found[5] == pytest.approx((1, 1.25 + 8.25, 2.25))
    figure = drawn(bars())
    assert figure.axes[0].get_ylim()[0] <= 0
    assert figure.axes[0].get_ylim()[1] > 1.25 + 8.3 + 2.3
    assert {"waiting for data", "exchange (emulated)", "3"} <= set(said(figure))
    assert len(figure.axes[0].patches) == 5


def test_negative_parts_hang_below_zero() -> None:
    (panel,) = bars(series=(Series("a", (mark(0, -2.0),)), Series("b", (mark(0, 3.0),)))).panels
    assert [(piece.bottom, piece.height) for piece in pieces(panel)] == [(0.0, -2.0), (0.0, 3.0)]
    assert drawn(Chart("x", (panel,))).axes[0].get_ylim()[0] < -2.0


def test_cells_say_their_values_and_what_is_not_known() -> None:
    found = said(drawn(cells()))
    assert {"101", "100", "200", "400", "-", "5 failed", "mirrored (emulated)", "throughput (samples/s)"} <= set(found)
    assert cell_text(mark(0, ended=(7.0, 9.0)), percent=False) == "≥ 7"
    assert cell_text(mark(0, 0.5, failed=1), percent=True) == "50%\n1 failed"


@pytest.mark.parametrize("axis", [Axis("x", "log10"), Axis("x", percent=True), Axis("x", low=0.0, high=1e3)])
def test_cells_have_a_colour_each(axis: Axis) -> None:
    (panel,) = cells(y=axis).panels
    colours = {patch.get_facecolor() for patch in drawn(Chart("x", (panel,))).axes[0].patches}
    assert len(colours) >= 4


def test_many_panels_are_as_wide_as_few_and_all_there() -> None:
    figure = drawn(many_panels(40, 3, measured()))
    assert len(figure.axes) == 40
    assert figure.get_size_inches()[0] <= WIDEST_IN
    assert_inside(figure)
    boxes = [axes.get_window_extent() for axes in figure.axes]
    assert not overlaps(boxes)


def test_columns_are_few_enough_to_be_read() -> None:
    for columns, across in ((1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (9, 3)):
        lefts = {round(axes.get_position().x0, 3) for axes in drawn(many_panels(9, columns, measured())).axes}
        assert len(lefts) == across


def test_a_picture_a_mile_high_keeps_within_what_can_be_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "MOST_PIXELS", 2_000)
    figure = drawn(many_panels(5, 1, measured()))
    assert figure.get_size_inches()[1] * figure.dpi == pytest.approx(2_000)
    assert figure.dpi < layout.DPI
    assert_inside(figure)


def test_a_great_many_points_stay_a_small_file() -> None:
    points = tuple(float(number) for number in range(MOST_POINTS + 1))
    found = svg(lines(Series("mpi", (mark(1, *points), mark(2, 1.0)))), PAGE, "x")
    assert found.count("<use") < 200
    assert "data:image/png" in found


def test_the_description_names_panels_and_series() -> None:
    assert described(lines()).startswith("digits, mlp: throughput (samples/s) by workers of mpi; horovod")
    assert described(many_panels(40)).endswith("And 28 more panels.")
    assert described(Chart("x", ())) == "Nothing to show."


def test_all_series_have_an_entry_whatever_they_begin_with() -> None:
    figure = drawn(lines(*(measured(label, hue=hue) for hue, label in enumerate(HOSTILE))))
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(HOSTILE)
    assert len(every_role()) == len({series.label for series in every_role()})


def test_base_lines_are_told_apart_by_their_markers() -> None:
    names = ("alone, batch 8", "alone, batch 16")
    series = [Series(name, (mark(1, 1.0, 2.0),), Role.BASE_LINE) for name in names]
    (axes,) = drawn(lines(measured(), *series)).axes
    markers = [line.get_marker() for line in axes.lines if len(line.get_xdata()) == 1]
    assert markers == ["*", "X"]


def test_failed_runs_alone_make_up_no_scale() -> None:
    (axes,) = drawn(EVERY["only failed"]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == []
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2"]
