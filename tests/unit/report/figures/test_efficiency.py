"""Efficiency is that of `dlbench.analysis.arms`, weak and strong apart, and unknown where no base line is equal."""

from pathlib import Path

import pytest

from dlbench.analysis.arms import arms
from dlbench.analysis.intervals import ratio_interval
from dlbench.report.chart import Lacking, Role
from dlbench.report.evidence import read
from dlbench.report.figures.efficiency import WHOLE, chart
from tests.unit.report.figures.makers import base_line, evidence, line, medians, repeats, run


def base(**values) -> list[dict]:
    return base_line(3, samples_per_s=[100.0, 110.0, 120.0], **values)


def two(**values) -> list[dict]:
    return repeats(3, workers=2, samples_per_s=[176.0, 198.0, 220.0], **values)


def test_a_point_is_one_run_over_the_median_of_its_base_line(tmp_path):
    found = evidence(*base(), *two(), tmp_path=tmp_path)
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
    (panel,) = chart(evidence(*base(), *one, *two(), tmp_path=tmp_path)).panels
    assert medians(panel.series[0]) == pytest.approx({1: 0.9, 2: 0.9})


def test_weak_and_strong_scaling_and_models_have_panels_apart(tmp_path):
    rows = [row for model in ("cnn", "lstm") for row in (*base(model=model), *two(model=model),
            *two(model=model, batch_scope="global"))]  # fmt: skip
    made = chart(evidence(*rows, tmp_path=tmp_path))
    assert [one.title for one in made.panels] == [
        "strong scaling, cnn", "strong scaling, lstm", "weak scaling, cnn", "weak scaling, lstm",
    ]  # fmt: skip
    assert all(medians(one.series[0]) == pytest.approx({2: 0.9}) for one in made.panels)


def test_emulated_and_real_runs_are_never_on_one_curve_nor_compared(tmp_path):
    rows = [*base(), *two(), *two(emulated="oversubscribed")]
    made = chart(evidence(*rows, tmp_path=tmp_path))
    assert [one.emulated for one in made.panels[0].series if one.role is Role.MEASURED] == [""]
    assert any(note.startswith("No efficiency is known where no base line is the equal") for note in made.notes)
    rows += base_line(3, samples_per_s=198.0, emulated="oversubscribed")
    (panel,) = chart(evidence(*rows, tmp_path=tmp_path)).panels
    assert {one.emulated: medians(one) for one in panel.series if one.role is Role.MEASURED} == {
        "": pytest.approx({2: 0.9}),
        "oversubscribed": pytest.approx({2: 0.5}),
    }


def test_a_base_line_of_another_study_is_none(tmp_path):
    with pytest.raises(Lacking, match="one worker alone"):
        chart(evidence(*base(study="a"), *two(study="b"), tmp_path=tmp_path))


def test_arms_that_share_a_place_keep_their_median_alone(tmp_path):
    rows = [*base(), *two(), *two(evaluate_every=2, run_id=None, label="other")]
    for number, row in enumerate(rows[-3:]):
        row["run_id"] = f"other-r{number}"
    (panel,) = chart(evidence(*rows, tmp_path=tmp_path)).panels
    (mark,) = panel.series[0].marks
    assert len(mark.points) == 6
    assert (mark.interval.value, mark.interval.low) == (pytest.approx(0.9), None)


def test_one_repeat_has_no_interval_and_failed_runs_are_counted(tmp_path):
    arm = [run(workers=2, samples_per_s=150.0), run(workers=2, repeat=1, status="failed")]
    rows = [*base_line(1, samples_per_s=100.0), *arm, *repeats(2, workers=4, status="timeout")]
    made = chart(evidence(*rows, tmp_path=tmp_path))
    found = [(mark.x, mark.points, mark.num_failed) for mark in made.panels[0].series[0].marks]
    assert found == [(2, (pytest.approx(0.75),), 1), (4, (), 2)]
    assert made.panels[0].series[0].marks[0].interval.low is None
    assert len(made.runs) == 4


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (two(), "needs completed runs with samples/s of one worker alone"),
        ([*base(batch_size=64), *two()], "equal to other arms in model, data, batch size"),
        (base(), "needs completed runs with samples/s of one worker alone"),
        ([run(workers=2, status="failed")], "no run is completed"),
        ([run(workers=2, samples_per_s=None)], "at least 50 steps and 5 s"),
    ],
)
def test_what_is_lacking_is_said(tmp_path, rows, message):
    with pytest.raises(Lacking, match=message):
        chart(evidence(*rows, tmp_path=tmp_path))


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


def test_a_real_study_without_rates_says_so(root: Path):
    with pytest.raises(Lacking, match="samples/s"):
        chart(read([root / "tests" / "fixtures" / "study-v1"]))
