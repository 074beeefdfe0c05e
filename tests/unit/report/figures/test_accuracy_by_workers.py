"""Whether more workers cost accuracy."""

from functools import partial
from pathlib import Path

from dlbench.report.figures.accuracy_by_workers import chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import repeats, run

drawn = partial(real.drawn, chart)


def test_every_run_its_median_and_interval_at_each_number_of_workers(tmp_path: Path) -> None:
    made = drawn(
        *repeats(3, workers=1, validation_accuracy=[0.9, 0.94, 0.92], train_loss=[0.1, 0.2, 0.3]),
        *repeats(3, workers=2, validation_accuracy=[0.8, 0.84, 0.82], train_loss=[0.4, 0.5, 0.6]),
        tmp_path=tmp_path,
    )
    assert [panel.y.label for panel in made.panels] == [
        "validation accuracy", "training accuracy", "validation loss (nats)", "training loss (nats)",
    ]  # fmt: skip
    (line,) = made.panels[0].series
    assert [mark.x for mark in line.marks] == [1, 2]
    assert sorted(line.marks[1].points) == [0.8, 0.82, 0.84]
    interval = line.marks[1].interval
    assert interval is not None
    assert (interval.value, interval.low, interval.high, interval.n) == (0.82, 0.8, 0.84, 3)
    loss = made.panels[3].series[0].marks[0].interval
    assert loss is not None
    assert loss.value == 0.2
    assert len(made.runs) == 6
    assert "the global batch grows with the workers" in " ".join(made.notes)


def test_a_global_batch_does_not_grow(tmp_path: Path) -> None:
    made = drawn(*(run(workers=w, batch_scope="global") for w in (1, 2)), tmp_path=tmp_path)
    assert "grows" not in " ".join(made.notes)


def test_divided_epochs_are_said(tmp_path: Path) -> None:
    made = drawn(*(run(workers=w, divide="epochs") for w in (1, 2)), tmp_path=tmp_path)
    assert "passes over all samples" in " ".join(made.notes)


def test_a_task_with_one_number_of_workers_is_left_out_by_name(tmp_path: Path) -> None:
    made = drawn(run(model="cnn", workers=1), run(model="cnn", workers=2), run(model="lstm"), tmp_path=tmp_path)
    assert {panel.title for panel in made.panels} == {"cnn"}
    assert "Left out, with one number of workers only: lstm." in made.notes
    assert len(made.runs) == 2


def test_what_was_trained_on_random_numbers_is_left_out(tmp_path: Path) -> None:
    rows = [run(workers=w, input=i) for w in (1, 2) for i in ("mapped", "synthetic")]
    made = drawn(*rows, tmp_path=tmp_path)
    assert len(made.runs) == 2
    assert "2 runs on synthetic input left out" in " ".join(made.notes)
