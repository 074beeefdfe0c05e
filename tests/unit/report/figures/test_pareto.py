"""Time against device-hours: the front, the knee, and what may be compared."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Chart, Role, Series
from dlbench.report.figures.pareto import FRONT, MOST_PANELS, chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import base_line, repeats, run

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}


drawn = partial(real.drawn, chart)


def arms(**values: Any) -> list[dict[str, Any]]:
    """Return four arms of which the last is beaten by the second in both costs."""
    times = {(1, 32): 100.0, (2, 32): 60.0, (4, 32): 40.0, (4, 64): 80.0}
    return [run(**{"workers": w, "batch_size": b, "train_time_s": t, **values}) for (w, b), t in times.items()]


def front(made: Chart, panel: int = 0) -> list[tuple[float, float]]:
    lines = [one for one in made.panels[panel].series if one.role is Role.FITTED]
    return [(mark.x, mark.interval.value) for one in lines for mark in one.marks if mark.interval is not None]


def labels(made: Chart, panel: int = 0) -> list[str]:
    return [one.label for one in made.panels[panel].series if one.role is not Role.FITTED]


def test_an_arm_stands_at_its_median_with_all_its_runs(tmp_path: Path) -> None:
    rows = repeats(3, workers=4, train_time_s=[90.0, 110.0, 100.0]) + repeats(3, workers=1, train_time_s=[300.0] * 3)
    made = drawn(*rows, tmp_path=tmp_path)
    one, four = (series.marks[0] for series in made.panels[0].series[:2])
    assert four.x == pytest.approx(4 * 100 / 3600)
    assert sorted(four.points) == [90, 100, 110]
    assert four.interval is not None
    assert (four.interval.value, four.interval.low, four.interval.high) == (100, 90, 110)
    assert one.x == pytest.approx(300 / 3600)
    assert (made.panels[0].x.scale, made.panels[0].y.scale) == ("log10", "log10")
    assert made.panels[0].y.label == "training time (s)"


def test_the_front_leaves_out_what_another_arm_beats(tmp_path: Path) -> None:
    made = drawn(*arms(), tmp_path=tmp_path)
    assert [hours * 3600 for hours, _ in front(made)] == pytest.approx([100, 120, 160])
    assert [time_s for _, time_s in front(made)] == [100, 60, 40]
    assert len(made.runs) == 4
    (line,) = (one for one in made.panels[0].series if one.role is Role.FITTED)
    assert line.hue not in {one.hue for one in made.panels[0].series if one is not line}


def test_the_knee_is_named(tmp_path: Path) -> None:
    made = drawn(*arms(), tmp_path=tmp_path)
    assert "2 workers, batch 32 (knee)" in labels(made)
    assert sum("(knee)" in label for label in labels(made)) == 1
    assert (
        "Pareto front, from the fewest device-hours to the least time: 1 worker, batch 32 (100 s, 0.0278 device-hours);"
        " 2 workers, batch 32 (60 s, 0.0333 device-hours); 4 workers, batch 32 (40 s, 0.0444 device-hours)."
    ) in made.notes
    assert (
        "Its knee: 2 workers, batch 32, which lies farthest below the line between the front's ends, in logarithms "
        "scaled to the front." in made.notes
    )


def test_a_front_of_two_has_no_knee(tmp_path: Path) -> None:
    made = drawn(*arms()[:2], tmp_path=tmp_path)
    assert "A knee needs a third arm between them." in made.notes
    assert not any("(knee)" in label for label in labels(made))


def test_a_front_that_does_not_bend_has_no_knee(tmp_path: Path) -> None:
    rows = [run(workers=w, train_time_s=t) for w, t in ((1, 100.0), (2, 99.0), (8, 40.0))]
    made = drawn(*rows, tmp_path=tmp_path)
    assert len(front(made)) == 3
    assert any("no arm on it lies below" in note for note in made.notes)


def test_one_arm_that_beats_all_is_the_whole_front(tmp_path: Path) -> None:
    made = drawn(run(workers=1, train_time_s=10.0), run(workers=2, train_time_s=10.0), tmp_path=tmp_path)
    assert front(made) == [(pytest.approx(10 / 3600), 10)]
    assert (
        "Pareto front: one arm has both the least time and the fewest device-hours, 1 worker (10 s, 0.00278 "
        "device-hours)." in made.notes
    )


def test_without_a_target_the_difference_in_accuracy_is_said(tmp_path: Path) -> None:
    rows = [run(workers=1, validation_accuracy=0.95), run(workers=2, validation_accuracy=0.91)]
    made = drawn(*rows, tmp_path=tmp_path)
    (note,) = [note for note in made.notes if "do not end alike" in note]
    assert "0.9100 (mpi workers=2 batch_size=32) to 0.9500 (mpi workers=1 batch_size=32)" in note


@pytest.mark.parametrize("nothing", [{"validation_accuracy": None}, {"input": "synthetic"}])
def test_accuracy_that_is_unknown_or_means_nothing_is_said(nothing: dict[str, Any], tmp_path: Path) -> None:
    made = drawn(*arms(**nothing), tmp_path=tmp_path)
    assert any("was not measured as an accuracy" in note for note in made.notes)


def test_with_a_target_it_is_the_time_to_it(tmp_path: Path) -> None:
    rows = [
        run(**TARGET, workers=w, time_to_target_s=t, train_time_s=500.0) for w, t in ((1, 100.0), (2, 60.0), (4, 40.0))
    ]
    made = drawn(*rows, tmp_path=tmp_path)
    assert made.panels[0].y.label == "time to a validation accuracy of at least 0.9 (s)"
    assert [height for _, height in front(made)] == [100, 60, 40]
    assert not any("do not end alike" in note for note in made.notes)


def test_an_arm_that_never_reached_the_target_is_shown_and_not_on_the_front(tmp_path: Path) -> None:
    late = [run(**TARGET, workers=8, repeat=r, time_to_target_s=None, train_time_s=9.0) for r in range(2)]
    rows = [run(**TARGET, workers=w, time_to_target_s=t) for w, t in ((1, 100.0), (2, 60.0))]
    made = drawn(*rows, *late, tmp_path=tmp_path)
    last: Series = made.panels[0].series[2]
    assert (last.label, last.marks[0].ended, last.marks[0].interval) == ("8 workers", (9, 9), None)
    assert last.marks[0].x == pytest.approx(8 * 9 / 3600)
    assert len(front(made)) == 2


def test_tasks_and_targets_and_emulation_have_fronts_of_their_own(tmp_path: Path) -> None:
    rows = [*arms(model="cnn"), *arms(model="lstm"), *arms(model="cnn", emulated="simulated")]
    target = [run(**TARGET, model="cnn", workers=w, time_to_target_s=5.0, study="other") for w in (1, 2)]
    made = drawn(*rows, *target, tmp_path=tmp_path)
    assert [panel.title for panel in made.panels] == [
        "cnn", "cnn, emulated", "lstm", "cnn, to a validation accuracy of at least 0.9",
    ]  # fmt: skip
    assert {one.emulated for one in made.panels[1].series if one.role is not Role.FITTED} == {"simulated"}
    assert [note.split(",")[0] for note in made.notes if note.startswith("Pareto front of ")] == [
        "Pareto front of cnn", "Pareto front of cnn", "Pareto front of lstm", "Pareto front of cnn",
    ]  # fmt: skip
    assert sum(note.startswith("Its knee: 2 workers, batch 32") for note in made.notes) == 3


def test_many_arms_are_spread_over_panels_that_share_the_front(tmp_path: Path) -> None:
    rows = [
        run(workers=w, batch_size=b, train_time_s=1000.0 / w**0.8 / b**0.5)
        for w in (1, 2, 4, 8)
        for b in (8, 16, 32, 64)
    ]
    made = drawn(*rows, tmp_path=tmp_path)
    assert len(made.panels) == 4
    assert sum(len(labels(made, panel)) for panel in range(4)) == 16
    assert len(front(made)) == 4
    assert all(front(made, panel) == front(made) for panel in range(4))
    assert len({(panel.x, panel.y) for panel in made.panels}) == 1
    assert any("8 workers, batch 64 (" in note for note in made.notes)


def test_of_very_many_panels_those_with_the_front_are_shown(tmp_path: Path) -> None:
    rows = [
        run(workers=workers, batch_size=batch, strategy=strategy, train_time_s=batch / workers + 0.01 * len(strategy))
        for workers in (2, 4, 8)
        for batch in range(20, 40)
        for strategy in ("mpi", "horovod")
    ] + [row for batch in range(20, 40) for row in base_line(batch_size=batch, train_time_s=3.0)]
    made = drawn(*rows, tmp_path=tmp_path)
    assert len(made.panels) == MOST_PANELS
    assert made.panels[0].title == "batch 20"
    assert {one.label for one in made.panels[0].series} >= {"mpi, 8 workers", FRONT}
    (left_out,) = [note for note in made.notes if note.startswith("Left out")]
    assert left_out.startswith("Left out, without an arm of the front: batch 32; ")
    slowest_first = [{**row, "train_time_s": 80.0 - row["train_time_s"]} for row in rows]
    assert "batch 39" in [panel.title for panel in drawn(*slowest_first, tmp_path=tmp_path).panels]


def test_failed_runs_are_at_their_arms_place(tmp_path: Path) -> None:
    rows = [*arms(), run(workers=2, batch_size=32, repeat=1, status="failed"), run(workers=16, status="timeout")]
    made = drawn(*rows, tmp_path=tmp_path)
    failed = {one.label: mark.num_failed for one in made.panels[0].series for mark in one.marks if mark.num_failed}
    assert failed == {"2 workers, batch 32 (knee)": 1}
    assert "Left out: 1 arm without the time of any completed run." in made.notes


def test_an_arm_alone_in_its_task_is_counted(tmp_path: Path) -> None:
    made = drawn(*arms(model="cnn"), run(model="lstm"), tmp_path=tmp_path)
    assert {panel.title for panel in made.panels} == {"cnn"}
    assert any(note.startswith("Left out: 1 arm with no other of the same task") for note in made.notes)
