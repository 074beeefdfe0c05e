"""Whether more workers cost accuracy."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Chart, Lacking, Role
from dlbench.report.figures.accuracy_by_workers import chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import base_line, evidence, repeats, run


def drawn(*rows: dict[str, Any], tmp_path: Path) -> Chart:
    found = evidence(*rows, tmp_path=tmp_path)
    made = chart(found)
    real.check(made, found)
    return made


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


def test_models_have_panels_of_their_own_and_batches_lines(tmp_path: Path) -> None:
    rows = [run(model=m, batch_size=b, workers=w) for m in ("cnn", "lstm") for b in (8, 16) for w in (1, 2)]
    made = drawn(*rows, tmp_path=tmp_path)
    assert [panel.title for panel in made.panels] == ["cnn"] * 4 + ["lstm"] * 4
    assert [[one.label for one in panel.series] for panel in made.panels] == [["batch 8", "batch 16"]] * 8
    assert [one.hue for one in made.panels[0].series] == [one.hue for one in made.panels[7].series] == [0, 1]


def test_emulated_runs_have_a_line_of_their_own(tmp_path: Path) -> None:
    made = drawn(run(workers=1), run(workers=2), run(workers=4, emulated="oversubscribed"), tmp_path=tmp_path)
    assert [(one.emulated, len(one.marks)) for one in made.panels[0].series] == [("", 2), ("oversubscribed", 1)]


def test_one_repeat_has_no_interval(tmp_path: Path) -> None:
    made = drawn(run(workers=1), run(workers=2), tmp_path=tmp_path)
    interval = made.panels[0].series[0].marks[0].interval
    assert interval is not None
    assert (interval.low, interval.high) == (None, None)


def test_one_worker_alone_is_beside_its_arms(tmp_path: Path) -> None:
    made = drawn(*base_line(), run(workers=2), tmp_path=tmp_path)
    assert [(one.role, one.marks[0].x) for one in made.panels[0].series] == [(Role.MEASURED, 2), (Role.BASE_LINE, 1)]


def test_failed_runs_are_counted(tmp_path: Path) -> None:
    rows = [run(workers=1), run(workers=2), run(workers=2, repeat=1, status="failed"), run(workers=4, status="timeout")]
    made = drawn(*rows, tmp_path=tmp_path)
    marks = made.panels[0].series[0].marks
    assert [(mark.x, len(mark.points), mark.num_failed) for mark in marks] == [(1, 1, 0), (2, 1, 1), (4, 0, 1)]
    assert len(made.runs) == 4


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


def test_what_is_unknown_has_no_panel(tmp_path: Path) -> None:
    unknown = {"train_accuracy": None, "validation_accuracy": None}
    made = drawn(run(workers=1, **unknown), run(workers=2, **unknown), tmp_path=tmp_path)
    assert [panel.y.label for panel in made.panels] == ["validation loss (nats)", "training loss (nats)"]


def test_odd_names_and_numbers_stay_as_they_are(tmp_path: Path) -> None:
    odd = "<script>alert(1)</script> $x_1$\n한국어"
    rows = [run(model=m, workers=w, train_loss=1e12, validation_loss=1e-12) for m in (odd, "cnn") for w in (1, 2)]
    made = drawn(*rows, tmp_path=tmp_path)
    assert odd in {panel.title for panel in made.panels}
    assert made.panels[2].series[0].marks[0].points == (1e-12,)


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        ([run(workers=1, status="failed"), run(workers=2, status="failed")], "a loss or an accuracy"),
        ([run(workers=1, input="synthetic"), run(workers=2, input="synthetic")], "that can be learned"),
        ([run(workers=2), run(workers=2, repeat=1)], "there is 2 only"),
        ([run(workers=1), run(workers=2, status="failed")], "there is 1 only"),
        ([run(workers=1, model="cnn"), run(workers=2, model="lstm")], "equal in all else"),
    ],
)
def test_what_is_missing_is_named(rows: list[dict[str, Any]], missing: str, tmp_path: Path) -> None:
    with pytest.raises(Lacking, match=missing):
        chart(evidence(*rows, tmp_path=tmp_path))


@pytest.mark.parametrize("name", real.STUDIES)
def test_the_studies_of_the_repository(name: str) -> None:
    found = real.study(name)
    made = chart(found)
    real.check(made, found)
    points = {p for panel in made.panels[::4] for one in panel.series for mark in one.marks for p in mark.points}
    assert points == set(found.completed["validation_accuracy"].dropna())
