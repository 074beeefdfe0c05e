"""Time and epochs to a target, with runs that never reached it."""

from functools import partial
from pathlib import Path
from typing import Any

from dlbench.report.figures.time_to_target import chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import run

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9}


drawn = partial(real.drawn, chart)


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


def test_how_finely_the_moment_is_known_is_said(tmp_path: Path) -> None:
    made = drawn(*(reached(4.0, 2, workers=w, evaluate_every=2) for w in (1, 2)), tmp_path=tmp_path)
    assert "The target is looked for at evaluations alone: every 2 epochs." in made.notes


def test_runs_on_random_numbers_and_without_a_target_are_left_out(tmp_path: Path) -> None:
    rows = [reached(4.0, 1, workers=w) for w in (1, 2)]
    made = drawn(*rows, reached(None, None, workers=4, input="synthetic"), run(workers=8), tmp_path=tmp_path)
    assert [mark.x for mark in made.panels[0].series[0].marks] == [1, 2]
    assert "1 run on synthetic input left out" in " ".join(made.notes)
    assert len(made.runs) == 2


def test_the_study_of_digits() -> None:
    found = real.study("digits")
    made = chart(found)
    real.check(made, found)
    assert [panel.x.label for panel in made.panels] == ["batch size of one worker (samples)"] * 2 + ["workers"] * 2
    for panel in made.panels:
        marks = [mark for one in panel.series for mark in one.marks]
        assert sum(len(mark.points) + len(mark.ended) for mark in marks) == len(found.completed) == 90
