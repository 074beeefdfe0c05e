"""The figure of published and measured numbers: what is where, and what it says when there is nothing to show."""

from pathlib import Path

import pytest

from dlbench.records import files
from dlbench.report.chart import Chart, Hues, MissingRowsError, Role
from dlbench.report.figures.reference import chart
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


def test_samples_seen_are_beside_times_of_arms_that_saw_different_amounts(tmp_path: Path) -> None:
    unequal = [row | {"samples_seen": 100 * row["batch_size"]} for row in rows()]
    *_, last = made(tmp_path, *unequal).panels
    assert (last.title, medians(last.series[0])) == ("samples seen", {8: 800, 16: 1600})


def test_every_point_and_interval_is_there(tmp_path: Path) -> None:
    found = made(tmp_path, *rows())
    for panel, values in ((found.panels[0], {8: 11.1, 16: 10.6}), (found.panels[1], {8: 1.0, 16: 10.6 / 11.1})):
        (measured,) = [one for one in panel.series if one.role is Role.MEASURED]
        assert [len(mark.points) for mark in measured.marks] == [3, 3]
        assert medians(measured) == pytest.approx(values)
        assert all(mark.interval and mark.interval.low for mark in measured.marks[panel is found.panels[1] :])
    (theirs,) = [one for one in found.panels[1].series if one.role is Role.PUBLISHED]
    assert medians(theirs) == {8: 1.0, 16: 0.6}


def test_the_caption_says_whose_numbers_they_are_and_for_what_they_serve(tmp_path: Path) -> None:
    found = made(tmp_path, *rows())
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
