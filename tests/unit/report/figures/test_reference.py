"""The figure of published and measured numbers: what is where, and what it says when there is nothing to show."""

from pathlib import Path

import pytest

from dlbench.records import files
from dlbench.report.chart import Chart, MissingRowsError, Role
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
TIME, ACCURACY, RELATIVE = "training time", "training accuracy", "relative to that at batch size 8"


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


def test_times_of_other_hardware_are_beside_and_accuracies_over_each_other(tmp_path: Path) -> None:
    found = made(tmp_path, *rows(), *base_line(2, batch_size=8))
    both, published, measured = {Role.MEASURED, Role.PUBLISHED}, {Role.PUBLISHED}, {Role.MEASURED}
    assert [(panel.title, {one.role for one in panel.series}) for panel in found.panels] == [
        (f"{TIME}: as published", published), (f"{TIME}: measured", measured), (f"{TIME}: {RELATIVE}", both),
        (f"{ACCURACY}: as published", published), (ACCURACY, both), (f"{ACCURACY}: {RELATIVE}", both),
    ]  # fmt: skip
    assert (found.columns, found.panels[0].x.label) == (3, "batch size of one worker (samples)")
    assert [panel.y.label for panel in found.panels[1:3]] == [
        "training time (s)",
        "training time / that at batch size 8",
    ]
    near = made(tmp_path, *rows(time_s=800.0))
    assert (near.columns, near.panels[0].title) == (2, TIME)
    assert {one.role for one in near.panels[0].series} == both


def test_every_point_and_interval_is_there(tmp_path: Path) -> None:
    found = made(tmp_path, *rows())
    for panel, values in ((found.panels[1], {8: 11.1, 16: 10.6}), (found.panels[2], {8: 1.0, 16: 10.6 / 11.1})):
        (measured,) = [one for one in panel.series if one.role is Role.MEASURED]
        assert [len(mark.points) for mark in measured.marks] == [3, 3]
        assert medians(measured) == pytest.approx(values)
        assert all(mark.interval and mark.interval.low for mark in measured.marks[panel is found.panels[2] :])
    (theirs,) = [one for one in found.panels[2].series if one.role is Role.PUBLISHED]
    assert medians(theirs) == {8: 1.0, 16: 0.6}


def test_the_caption_says_whose_numbers_they_are_and_for_what_they_serve(tmp_path: Path) -> None:
    found = made(tmp_path, *rows())
    assert found.notes == (
        "Published: Kim $x_y$ <script>alert(1)</script> 2024 (시험, on 4 x T4), as the authors give it.",
        "Hardware differs: shapes can be compared, times cannot.",
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
    theirs, ours, relative = made(tmp_path, *own, text=MODES).panels
    assert theirs.x.label == "workers"
    assert medians(line(theirs, "A, scale-out")) == {1: 110, 2: 90}
    assert [one.label for one in theirs.series] == ["A, scale-up", "A, scale-out"]
    assert [one.label for one in ours.series] == ["scale-out", "scale-up"]
    assert len({one.hue for one in relative.series}) == 4
