"""Time and epochs to a target, with runs that never reached it."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Chart, Lacking, Role
from dlbench.report.figures.time_to_target import chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import base_line, evidence, repeats, run

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}


def drawn(*rows: dict[str, Any], tmp_path: Path) -> Chart:
    found = evidence(*rows, tmp_path=tmp_path)
    made = chart(found)
    real.check(made, found)
    return made


def reached(time_s: float | None, epochs: int | None, **values: Any) -> dict[str, Any]:
    return run(**{**TARGET, "time_to_target_s": time_s, "epochs_to_target": epochs, **values})


def test_time_and_epochs_at_each_batch_size(tmp_path: Path) -> None:
    times = {8: (10.0, 14.0, 12.0), 16: (6.0, 5.0, 9.0)}
    rows = [
        reached(time_s, int(time_s), batch_size=b, repeat=r)
        for b, found in times.items()
        for r, time_s in enumerate(found)
    ]
    made = drawn(*rows, tmp_path=tmp_path)
    time, epochs = made.panels
    assert made.title == "Time and epochs to a validation accuracy of at least 0.9"
    assert (time.y.label, epochs.y.label) == ("training time to the target (s)", "epochs to the target")
    assert time.x.label == "batch size of one worker (samples)"
    medians = [mark.interval.value for mark in time.series[0].marks if mark.interval]
    assert medians == [12, 6]
    assert [sorted(mark.points) for mark in epochs.series[0].marks] == [[10, 12, 14], [5, 6, 9]]


def test_runs_that_never_reached_it_are_shown_where_they_ended(tmp_path: Path) -> None:
    rows = [
        reached(10.0, 2, batch_size=8),
        reached(11.0, 3, batch_size=8, repeat=1),
        reached(None, None, batch_size=8, repeat=2, train_time_s=20.0, epochs_completed=4),
        reached(5.0, 1, batch_size=16),
        reached(None, None, batch_size=16, repeat=1, train_time_s=15.0, epochs_completed=4),
        reached(None, None, batch_size=32, train_time_s=12.0, epochs_completed=4),
    ]
    made = drawn(*rows, tmp_path=tmp_path)
    time, epochs = (panel.series[0].marks for panel in made.panels)
    assert [(mark.x, mark.points, mark.ended) for mark in time] == [
        (8, (10, 11), (20,)), (16, (5,), (15,)), (32, (), (12,)),
    ]  # fmt: skip
    assert [mark.interval and mark.interval.value for mark in time] == [11, None, None]
    assert [mark.ended for mark in epochs] == [(4,), (4,), (4,)]
    assert "3 runs of 6 that completed ended before the target" in " ".join(made.notes)
    assert len(made.runs) == 6


def test_both_batch_size_and_workers_have_panels_where_both_vary(tmp_path: Path) -> None:
    rows = [reached(4.0, 1, batch_size=b, workers=w) for b in (8, 16) for w in (1, 2)]
    made = drawn(*rows, tmp_path=tmp_path)
    assert [panel.x.label for panel in made.panels[::2]] == ["batch size of one worker (samples)", "workers"]
    assert [[one.label for one in panel.series] for panel in made.panels[::2]] == [
        ["1 worker", "2 workers"], ["batch 8", "batch 16"],
    ]  # fmt: skip


def test_other_targets_and_tasks_never_share_a_panel(tmp_path: Path) -> None:
    rows = [reached(4.0, 1, batch_size=b, model=m) for b in (8, 16) for m in ("cnn", "lstm")]
    loss = {"target_metric": "train_loss", "target_value": 0.25, "study": "other"}
    made = drawn(*rows, *(reached(3.0, 1, batch_size=b, **loss) for b in (8, 16)), tmp_path=tmp_path)
    assert made.title == "Time and epochs to the targets"
    assert [panel.title for panel in made.panels[::2]] == [
        "train loss of at most 0.25",
        "validation accuracy of at least 0.9: cnn",
        "validation accuracy of at least 0.9: lstm",
    ]


def test_emulated_runs_and_base_lines_have_lines_of_their_own(tmp_path: Path) -> None:
    rows = [reached(4.0, 1, workers=w) for w in (1, 2)] + [reached(9.0, 1, workers=4, emulated="oversubscribed")]
    base = base_line(**TARGET, time_to_target_s=5.0, epochs_to_target=1)
    made = drawn(*rows, *base, tmp_path=tmp_path)
    assert [(one.role, one.emulated, len(one.marks)) for one in made.panels[0].series] == [
        (Role.MEASURED, "", 2), (Role.MEASURED, "oversubscribed", 1), (Role.BASE_LINE, "", 1),
    ]  # fmt: skip


def test_failed_runs_are_counted_and_their_times_are_not(tmp_path: Path) -> None:
    rows = [
        reached(4.0, 1, workers=1),
        reached(3.0, 1, workers=2),
        reached(1.0, 1, workers=2, repeat=1, status="failed", train_time_s=2.0),
        run(**TARGET, workers=2, repeat=2, status="diverged"),
    ]
    made = drawn(*rows, tmp_path=tmp_path)
    marks = made.panels[0].series[0].marks
    assert [(mark.points, mark.ended, mark.num_failed) for mark in marks] == [((4,), (), 0), ((3,), (), 2)]


def test_how_finely_the_moment_is_known_is_said(tmp_path: Path) -> None:
    made = drawn(*(reached(4.0, 2, workers=w, evaluate_every=2) for w in (1, 2)), tmp_path=tmp_path)
    assert "The target is looked for at evaluations alone: every 2 epochs." in made.notes


def test_runs_on_random_numbers_and_without_a_target_are_left_out(tmp_path: Path) -> None:
    rows = [reached(4.0, 1, workers=w) for w in (1, 2)]
    made = drawn(*rows, reached(None, None, workers=4, input="synthetic"), run(workers=8), tmp_path=tmp_path)
    assert [mark.x for mark in made.panels[0].series[0].marks] == [1, 2]
    assert "1 run on synthetic input left out" in " ".join(made.notes)
    assert len(made.runs) == 2


def test_repeats_that_all_ended_before_it_make_a_chart_too(tmp_path: Path) -> None:
    made = drawn(*(row for w in (1, 2) for row in repeats(2, **TARGET, workers=w)), tmp_path=tmp_path)
    assert all(len(mark.ended) == 2 and not mark.points for mark in made.panels[0].series[0].marks)


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        ([run(workers=1), run(workers=2)], r"set `target: \{metric: validation_accuracy, value: 0.9\}`"),
        ([run(**TARGET, workers=w, status="failed") for w in (1, 2)], "completed runs that had a target"),
        ([run(**TARGET), run(**TARGET, repeat=1)], "two or more batch sizes or numbers of workers"),
        ([run(**TARGET, model="cnn", workers=1), run(**TARGET, model="lstm", workers=2)], "two or more batch sizes"),
    ],
)
def test_what_is_missing_is_named(rows: list[dict[str, Any]], missing: str, tmp_path: Path) -> None:
    with pytest.raises(Lacking, match=missing):
        chart(evidence(*rows, tmp_path=tmp_path))


def test_the_study_of_digits() -> None:
    found = real.study("digits")
    made = chart(found)
    real.check(made, found)
    assert [panel.x.label for panel in made.panels] == ["batch size of one worker (samples)"] * 2 + ["workers"] * 2
    for panel in made.panels:
        marks = [mark for one in panel.series for mark in one.marks]
        assert sum(len(mark.points) + len(mark.ended) for mark in marks) == len(found.completed) == 90


def test_the_fixture() -> None:
    found = real.study("fixture")
    made = chart(found)
    real.check(made, found)
    points = {p for one in made.panels[0].series for mark in one.marks for p in mark.points}
    assert points == set(found.completed["time_to_target_s"])
    assert sum(mark.num_failed for one in made.panels[0].series for mark in one.marks) == 2


@pytest.mark.parametrize("name", ["cifar10", "dividing"])
def test_studies_without_a_target(name: str) -> None:
    with pytest.raises(Lacking, match="needs a target"):
        chart(real.study(name))
