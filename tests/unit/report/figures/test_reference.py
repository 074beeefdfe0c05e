"""The figure of published and measured numbers: what is where, and what it says when there is nothing to show."""

from pathlib import Path

import pytest

from dlbench.records import files
from dlbench.report.chart import Chart, MissingRowsError, Role
from dlbench.report.data import ReportData
from dlbench.report.figures.reference import chart
from tests.unit.report.figures.makers import Row, base_line, repeats, report_data, run

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


def made(tmp_path: Path, *rows: Row, text: str = TEXT) -> ReportData:
    found = report_data(*rows, tmp_path=tmp_path)
    for source in found.studies:
        (source.path / files.REFERENCE).write_text(text, encoding="utf-8")
    return found


def rows(time_s: float = 10.0, **values: object) -> list[Row]:
    return [
        row
        for size in (8, 16)
        for row in repeats(3, batch_size=size, train_time_s=[time_s + 8 / size + 0.1 * i for i in range(3)], **values)
    ]


def titles(found: Chart) -> list[str]:
    return [panel.title for panel in found.panels]


def test_times_of_other_hardware_are_beside_and_accuracies_over_each_other(tmp_path: Path) -> None:
    found = chart(made(tmp_path, *rows(), *base_line(2, batch_size=8)))
    assert found.columns == 3
    assert titles(found) == [
        "training time: as published",
        "training time: measured",
        "training time: relative to that at batch size 8",
        "training accuracy: as published",
        "training accuracy",
        "training accuracy: relative to that at batch size 8",
    ]
    kinds = [{one.role for one in panel.series} for panel in found.panels]
    both = {Role.MEASURED, Role.PUBLISHED}
    assert kinds == [{Role.PUBLISHED}, {Role.MEASURED}, both, {Role.PUBLISHED}, both, both]
    assert [panel.y.label for panel in found.panels[1:3]] == [
        "training time (s)",
        "training time / that at batch size 8",
    ]
    assert found.panels[0].x.label == "batch size of one worker (samples)"


def test_every_point_and_interval_is_there(tmp_path: Path) -> None:
    found = chart(made(tmp_path, *rows()))
    (measured,) = found.panels[1].series
    assert [len(mark.points) for mark in measured.marks] == [3, 3]
    assert all(mark.interval is not None and mark.interval.low is not None for mark in measured.marks)
    relative = next(one for one in found.panels[2].series if one.role is Role.MEASURED)
    assert [len(mark.points) for mark in relative.marks] == [3, 3]
    assert relative.marks[0].interval is not None
    assert relative.marks[0].interval.value == 1.0
    theirs = next(one for one in found.panels[2].series if one.role is Role.PUBLISHED)
    assert [mark.interval.value for mark in theirs.marks if mark.interval] == [1.0, 0.6]


def test_what_can_share_an_axis_does(tmp_path: Path) -> None:
    found = chart(made(tmp_path, *rows(time_s=800.0)))
    assert found.columns == 2
    assert titles(found)[0] == "training time"
    assert {one.role for one in found.panels[0].series} == {Role.MEASURED, Role.PUBLISHED}


def test_the_caption_says_whose_numbers_they_are_and_for_what_they_serve(tmp_path: Path) -> None:
    found = chart(made(tmp_path, *rows()))
    assert found.notes == (
        "Published: Kim $x_y$ <script>alert(1)</script> 2024 (시험, on 4 x T4), as the authors give it.",
        "Hardware differs: shapes can be compared, times cannot.",
        "one value each.",
    )
    assert found.title.startswith("Published and measured: Kim $x_y$")
    assert len(found.runs) == 6


def test_scores_of_random_numbers_are_left_out(tmp_path: Path) -> None:
    found = chart(made(tmp_path, *rows(input="synthetic")))
    assert not any("accuracy" in title for title in titles(found))
    assert any("training time" in title for title in titles(found))


def test_series_of_the_reference_and_of_the_study(tmp_path: Path) -> None:
    text = "# source: A\n# x: workers\n# series: mode\nmode,workers,train_time_s\n"
    text += "scale-up,1,100\nscale-up,2,80\nscale-out,1,110\nscale-out,2,90\n"
    own = [
        run(mode=mode, workers=count, train_time_s=9.0 / count)
        for mode in ("scale-up", "scale-out")
        for count in (1, 2)
    ]
    found = chart(made(tmp_path, *own, text=text))
    assert found.panels[0].x.label == "workers"
    assert [one.label for one in found.panels[0].series] == ["A, scale-up", "A, scale-out"]
    assert [one.label for one in found.panels[1].series] == ["scale-out", "scale-up"]
    assert len({one.hue for one in found.panels[2].series}) == 4


def test_without_the_references_columns_there_is_nothing_to_draw(tmp_path: Path) -> None:
    failed = [run(batch_size=size, status="failed") for size in (8, 16)]
    with pytest.raises(MissingRowsError, match="train_time_s, train_accuracy"):
        chart(made(tmp_path, *failed))
