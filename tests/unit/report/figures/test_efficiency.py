"""Efficiency is that of `dlbench.analysis.arms`, weak and strong apart, and unknown where no base line is equal."""

from pathlib import Path

import pytest

from dlbench.analysis.arms import arms
from dlbench.analysis.statistics.intervals import ratio_interval
from dlbench.report.chart import Role
from dlbench.report.data import read
from dlbench.report.figures.efficiency import WHOLE, chart
from tests.unit.report.figures.makers import base_line, line, medians, repeats, report_data


def base(**values) -> list[dict]:
    return base_line(3, samples_per_s=[100.0, 110.0, 120.0], **values)


def two(**values) -> list[dict]:
    return repeats(3, workers=2, samples_per_s=[176.0, 198.0, 220.0], **values)


def test_a_point_is_one_run_over_the_median_of_its_base_line(tmp_path):
    found = report_data(*base(), *two(), tmp_path=tmp_path)
    made = chart(found)
    (panel,) = made.panels
    assert (panel.title, panel.y.low, panel.y.high, panel.y.percent) == ("weak scaling", 0.0, 1.1, True)
    (mark,) = panel.series[0].marks
    assert mark.x == 2
    assert mark.points == pytest.approx((0.8, 0.9, 1.0))
    assert mark.interval == ratio_interval([88.0, 99.0, 110.0], [100.0, 110.0, 120.0])
    assert mark.interval.value == pytest.approx(0.9)
    whole = line(panel, WHOLE)
    assert (whole.role, medians(whole)) == (Role.IDEAL, {1: 1.0, 2: 1.0})
    assert {run_id for _, run_id in made.runs} == {row["run_id"] for row in two()}


def test_one_worker_that_could_communicate_has_an_efficiency_too(tmp_path):
    one = repeats(3, workers=1, samples_per_s=[88.0, 99.0, 110.0])
    (panel,) = chart(report_data(*base(), *one, *two(), tmp_path=tmp_path)).panels
    assert medians(panel.series[0]) == pytest.approx({1: 0.9, 2: 0.9})


def test_weak_and_strong_scaling_and_models_have_panels_apart(tmp_path):
    rows = [row for model in ("cnn", "lstm") for row in (*base(model=model), *two(model=model),
            *two(model=model, batch_scope="global"))]  # fmt: skip
    made = chart(report_data(*rows, tmp_path=tmp_path))
    assert [one.title for one in made.panels] == [
        "strong scaling, cnn", "strong scaling, lstm", "weak scaling, cnn", "weak scaling, lstm",
    ]  # fmt: skip
    assert all(medians(one.series[0]) == pytest.approx({2: 0.9}) for one in made.panels)


def test_emulated_and_real_runs_are_never_on_one_curve_nor_compared(tmp_path):
    rows = [*base(), *two(), *two(emulated="oversubscribed")]
    made = chart(report_data(*rows, tmp_path=tmp_path))
    assert [one.emulated for one in made.panels[0].series if one.role is Role.MEASURED] == [""]
    assert any(note.startswith("No efficiency is known where no base line is the equal") for note in made.notes)
    rows += base_line(3, samples_per_s=198.0, emulated="oversubscribed")
    (panel,) = chart(report_data(*rows, tmp_path=tmp_path)).panels
    assert {one.emulated: medians(one) for one in panel.series if one.role is Role.MEASURED} == {
        "": pytest.approx({2: 0.9}),
        "oversubscribed": pytest.approx({2: 0.5}),
    }


def test_arms_that_share_a_place_keep_their_median_alone(tmp_path):
    rows = [*base(), *two(), *two(evaluate_every=2, run_id=None, label="other")]
    for number, row in enumerate(rows[-3:]):
        row["run_id"] = f"other-r{number}"
    (panel,) = chart(report_data(*rows, tmp_path=tmp_path)).panels
    (mark,) = panel.series[0].marks
    assert len(mark.points) == 6
    assert (mark.interval.value, mark.interval.low) == (pytest.approx(0.9), None)


@pytest.mark.parametrize(
    ("study", "num_panels"), [("cifar10-resnet20", 2), ("digits-batch-workers", 6), ("dividing", 4)]
)
def test_a_real_study_shows_the_efficiency_of_its_arms(root: Path, study, num_panels):
    found = read([root / "results" / study])
    made = chart(found)
    rows = found.runs.astype(object).where(found.runs.notna(), None).to_dict("records")
    intervals = [arm.efficiency for arm in arms(rows) if arm.efficiency]
    shown = [mark.interval for one in made.panels for series in one.series if series.role is Role.MEASURED
             for mark in series.marks]  # fmt: skip
    assert sorted(shown, key=lambda one: one.value) == sorted(intervals, key=lambda one: one.value)
    assert len(made.panels) == num_panels
    for one in made.panels:
        for mark in (mark for series in one.series if series.role is Role.MEASURED for mark in series.marks):
            ordered = sorted(mark.points)
            assert ordered[len(ordered) // 2] == pytest.approx(mark.interval.value)
