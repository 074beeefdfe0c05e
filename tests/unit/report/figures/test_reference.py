"""The figure of published and measured numbers: what is where, and what it says when there is nothing to show."""

from pathlib import Path

import pytest

from dlbench.analysis.statistics.intervals import Interval, median_interval
from dlbench.records import files
from dlbench.report.chart import Axis, Chart, Hues, Mark, MissingRowsError, Panel, Role, Series
from dlbench.report.figures.reference import chart, published, relative, relative_panel
from dlbench.scenario.reference import parse
from tests.unit.report.figures.makers import Row, base_line, line, medians, repeats, report_data, run

TEXT = """\
# source: Kim $x_y$ <script>alert(1)</script> 2024
# about: 시험
# hardware: 4 x T4
# notes: [one value each]
# x: batch_size
batch_size,train_time_s,train_accuracy
8,1000,0.5
16,600,0.8
"""
MODES = """\
# source: A
# x: workers
# series: mode
mode,workers,train_time_s
scale-up,1,100
scale-up,2,80
scale-out,1,110
scale-out,2,90
"""
SECONDS, BATCH = Axis("training time (s)"), Axis("batch size", "log2")
TIME, ACCURACY, RELATIVE = "training time", "training accuracy", "relative to its own at batch size 8"


def made(tmp_path: Path, *rows: Row, text: str = TEXT) -> Chart:
    found = report_data(*rows, tmp_path=tmp_path)
    for source in found.studies:
        (source.path / files.REFERENCE).write_text(text, encoding="utf-8")
    return chart(found)


def rows(time_s: float = 10.0, **values: object) -> list[Row]:
    return [
        row
        for size in (8, 16)
        for row in repeats(3, batch_size=size, train_time_s=[time_s + 8 / size + 0.1 * i for i in range(3)], **values)
    ]


def test_published_and_measured_share_a_panel_and_times_are_relative_as_well(tmp_path: Path) -> None:
    found = made(tmp_path, *rows(), *base_line(2, batch_size=8))
    both = {Role.MEASURED, Role.PUBLISHED}
    assert [(panel.title, {one.role for one in panel.series}) for panel in found.panels] == [
        (TIME, both), (f"{TIME}: {RELATIVE}", both), (ACCURACY, both),
    ]  # fmt: skip
    assert (found.columns, found.panels[0].x.label) == (3, "batch size of one worker (samples)")
    assert [(panel.y.label, panel.y.scale) for panel in found.panels[:2]] == [
        ("training time (s)", "log10"),
        ("training time / the line's own at batch size 8", "linear"),
    ]
    assert made(tmp_path, *rows(time_s=800.0)).panels[0].y.scale == "linear"


def test_epochs_may_follow_from_the_places_as_publications_have_them(tmp_path: Path) -> None:
    found = made(tmp_path, *(run(batch_size=size, epochs=epochs) for size, epochs in ((8, 9), (16, 4))))
    assert [one.label for one in found.panels[0].series if one.role is Role.MEASURED] == ["mpi"]


def test_every_point_and_interval_is_there_and_samples_seen_where_they_differ(tmp_path: Path) -> None:
    unequal = [row | {"samples_seen": 100 * row["batch_size"]} for row in rows()]
    *_, last = made(tmp_path, *unequal).panels
    assert (last.title, medians(last.series[0])) == ("samples seen", {8: 800, 16: 1600})
    found = made(tmp_path, *rows())
    for panel, values in ((found.panels[0], {8: 11.1, 16: 10.6}), (found.panels[1], {8: 1.0, 16: 10.6 / 11.1})):
        (measured,) = [one for one in panel.series if one.role is Role.MEASURED]
        assert [len(mark.points) for mark in measured.marks] == [3, 3]
        assert medians(measured) == pytest.approx(values)
        assert all(mark.interval and mark.interval.low for mark in measured.marks[panel is found.panels[1] :])
    (theirs,) = [one for one in found.panels[1].series if one.role is Role.PUBLISHED]
    assert medians(theirs) == {8: 1.0, 16: 0.6}
    assert found.notes == (
        "Published: Kim $x_y$ <script>alert(1)</script> 2024 (시험, on 4 x T4), as the authors give it.",
        "one value each.",
    )
    assert found.title.startswith("Published and measured: Kim $x_y$")
    assert len(found.runs) == 6


def test_scores_of_random_numbers_and_columns_that_no_run_has_are_left_out(tmp_path: Path) -> None:
    titles = [panel.title for panel in made(tmp_path, *rows(input="synthetic")).panels]
    assert titles
    assert all(title.startswith(TIME) for title in titles)
    with pytest.raises(MissingRowsError, match="train_time_s, train_accuracy"):
        made(tmp_path, *(run(batch_size=size, status="failed") for size in (8, 16)))


def test_series_of_the_reference_and_of_the_study(tmp_path: Path) -> None:
    own = [run(mode=mode, workers=w, train_time_s=9.0 / w) for mode in ("scale-up", "scale-out") for w in (1, 2)]
    both, relative = (Hues().applied(made(tmp_path, *own, text=MODES))).panels
    assert both.x.label == "workers"
    assert medians(line(both, "A, scale-out")) == {1: 110, 2: 90}
    assert [one.label for one in both.series] == ["mpi, scale-out", "mpi, scale-up", "A, scale-up", "A, scale-out"]
    for panel in (both, relative):
        hues = {one.label: one.hue for one in panel.series}
        assert hues["mpi, scale-up"] == hues["A, scale-up"] != hues["mpi, scale-out"] == hues["A, scale-out"]


def test_published_curves_have_values_alone_and_repeats_have_points() -> None:
    found = parse(f"{TEXT}8,1100,\n8,1200,\n", "r.csv")
    (time_s,) = published(found, "train_time_s")
    assert time_s.marks[0] == Mark(8.0, (1000.0, 1100.0, 1200.0), median_interval([1000.0, 1100.0, 1200.0]))
    assert time_s.marks[1] == Mark(16.0, (), Interval(600.0, None, None, 1, None))
    assert published(found, "samples_per_s") == ()


def curve(*values: float, role: Role = Role.MEASURED, places: tuple[float, ...] = (8.0, 16.0, 32.0)) -> Series:
    marks = [Mark(x, (y,), median_interval([y])) for x, y in zip(places, values, strict=False)]
    return Series("one", tuple(marks), role)


def test_a_curve_is_divided_by_its_median_at_the_base() -> None:
    marks = (
        Mark(8.0, (4.0, 5.0, 6.0), median_interval([4.0, 5.0, 6.0]), num_failed=1),
        Mark(16.0, (2.0, 2.5, 3.0), median_interval([2.0, 2.5, 3.0]), ended=(4.0,)),
        Mark(32.0, num_failed=2),
    )
    found = relative(Series("a", marks, emulated="oversubscribed"), 8.0)
    assert found is not None
    first, second, third = found.marks
    assert (first.points, first.interval, first.num_failed) == ((0.8, 1.0, 1.2), Interval(1.0, None, None, 3, None), 1)
    assert (second.points, second.ended) == ((0.4, 0.5, 0.6), (0.8,))
    assert second.interval is not None
    assert second.interval.value == 0.5
    assert (second.interval.low or 1.0) < 0.5
    assert (third.points, third.interval, third.num_failed) == ((), None, 2)
    assert found.emulated == "oversubscribed"
    # What is not above zero, or not known, divides nothing.
    failed = Series("a", (Mark(8.0, num_failed=3),))
    for other in (curve(0.0, 2.0), curve(-1.0, 2.0), curve(1.0, places=(64.0,)), failed):
        assert relative(other, 8.0) is None


def published_curve(*values: float, places: tuple[float, ...] = (8.0, 16.0, 32.0)) -> Series:
    return curve(*values, role=Role.PUBLISHED, places=places)


def test_a_relative_panel_names_what_each_line_is_divided_by() -> None:
    lines = (curve(4, 2), curve(1, role=Role.BASE_LINE), published_curve(10, 8, 5))
    found = relative_panel(Panel("cnn", BATCH, SECONDS, lines), "batch_size")
    assert found is not None
    assert found.title == "cnn: relative to its own at batch size 8"
    assert found.y.label == "training time / the line's own at batch size 8"
    assert [[mark.interval and mark.interval.value for mark in one.marks] for one in found.series] == [
        [1, 0.5], [1, 0.8, 0.5],
    ]  # fmt: skip
    for base, said in ((1.0, "at 1 worker"), (4.0, "at 4 workers")):
        lines = (curve(4, 2, places=(base, 8.0)), published_curve(4, 2, places=(base, 8.0)))
        found = relative_panel(Panel("", Axis("workers"), SECONDS, lines), "workers")
        assert found is not None
        assert found.title == f"relative to its own {said}"
    # Without a place that all have; and 1 at the base alone says nothing.
    elsewhere = published_curve(10, places=(64.0,))
    for lines in ((), (curve(4, 2),), (curve(4, 2), elsewhere), (curve(4), published_curve(10, 8))):
        assert relative_panel(Panel("", BATCH, SECONDS, lines), "batch_size") is None
