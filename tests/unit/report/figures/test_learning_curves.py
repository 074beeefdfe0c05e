"""Learning curves: medians over repeats at each epoch, at the right update and time, of nobody who failed."""

import csv
from pathlib import Path
from statistics import median

import pytest

from dlbench.report.chart import MissingRowsError, Role
from dlbench.report.data import read
from dlbench.report.figures._curves import MOST_MARKS
from dlbench.report.figures.learning_curves import FEW_MARKS, MOST_PANELS, chart
from dlbench.report.lines import ALONE, MOST_SERIES
from tests.unit.report.figures.makers import base_line, epochs_of, line, medians, panel, repeats, report_data, run

TITLES = [
    f"{value} by {place}"
    for value in ("training loss", "validation loss", "training accuracy", "validation accuracy")
    for place in ("epochs", "updates", "time")
]


def curves(runs: list[dict], **columns) -> list[dict]:
    return [row for of in runs if of["status"] == "completed" for row in epochs_of(of, **columns)]


def test_a_line_is_the_median_over_repeats_at_each_epoch(tmp_path):
    arms = {size: repeats(3, batch_size=size, workers=2, epochs=2) for size in (16, 32)}
    losses = {16: ([3.0, 1.0], [4.0, 2.0], [5.0, 0.5]), 32: ([9.0, 8.0], [9.0, 8.0], [9.0, 8.0])}
    rows = [
        row
        for size, runs in arms.items()
        for one, values in zip(runs, losses[size], strict=True)
        for row in epochs_of(one, slowest=2.0, train_loss=values, train_time_s=[1.0 + one["repeat"], 10.0])
    ]
    found = report_data(*arms[16], *arms[32], epochs=rows, tmp_path=tmp_path)
    made = chart(found)
    assert [one.title for one in made.panels] == TITLES
    assert made.columns == 3
    by_epoch = line(panel(made, "training loss by epochs"), "batch 16")
    assert medians(by_epoch) == {1: 4.0, 2: 1.0}
    assert by_epoch.marks[0].points == (3.0, 4.0, 5.0)
    assert (by_epoch.marks[1].interval.low, by_epoch.marks[1].interval.high) == (0.5, 2.0)
    # 1438 samples make 44 global batches of 2 x 16, and 22 of 2 x 32.
    assert list(medians(line(panel(made, "training loss by updates"), "batch 16"))) == [44, 88]
    assert list(medians(line(panel(made, "training loss by updates"), "batch 32"))) == [22, 44]
    # The slower of both workers took twice as long as the first; the median repeat's first 2 s.
    assert medians(line(panel(made, "training loss by time"), "batch 16")) == {4.0: 4.0, 20.0: 1.0}
    assert made.runs == set(zip(found.runs["study"], found.runs["run_id"], strict=True))


def test_where_batch_sizes_do_not_vary_each_arm_is_a_line(tmp_path):
    runs = [run(workers=1), run(workers=2), run(workers=4)]
    made = chart(report_data(*runs, epochs=curves(runs), tmp_path=tmp_path))
    assert [one.label for one in made.panels[0].series] == ["1 worker", "2 workers", "4 workers"]


def test_only_epochs_that_were_evaluated_have_a_mark(tmp_path):
    runs = [run(epochs=4)]
    rows = curves(runs, validation_loss=[None, 1.0, None, 0.5], validation_accuracy=[None] * 4)
    made = chart(report_data(*runs, epochs=rows, tmp_path=tmp_path))
    assert medians(panel(made, "validation loss by epochs").series[0]) == {2: 1.0, 4: 0.5}
    assert not [one for one in made.panels if one.title.startswith("validation accuracy")]


def test_failed_runs_have_no_curve_and_are_counted_at_the_end(tmp_path):
    good = repeats(2, batch_size=8, epochs=3)
    began = run(batch_size=8, epochs=3, repeat=2, status="failed")
    never = run(batch_size=8, epochs=3, repeat=3, status="timeout")
    rows = [*curves(good, train_loss=[3.0, 2.0, 1.0]), *epochs_of(began, train_loss=[99.0])]
    made = chart(report_data(*good, began, never, epochs=rows, tmp_path=tmp_path))
    for place in ("epochs", "updates", "time"):
        (measured,) = panel(made, f"training loss by {place}").series
        assert [(mark.points, mark.num_failed) for mark in measured.marks] == [
            ((3.0,) * 2, 0),
            ((2.0,) * 2, 0),
            ((1.0,) * 2, 2),
        ]
    assert "2 runs that did not complete have no line." in made.notes
    assert len(made.runs) == 4


def test_an_arm_that_failed_altogether_is_counted_where_it_was_to_end(tmp_path):
    runs = [run(batch_size=8, epochs=3), run(batch_size=16, epochs=3, status="out-of-memory")]
    made = chart(report_data(*runs, epochs=curves(runs), tmp_path=tmp_path))
    failed = line(panel(made, "training loss by epochs"), "batch 16")
    assert [(mark.x, mark.points, mark.num_failed) for mark in failed.marks] == [(3, (), 1)]


def test_long_lines_have_fewer_marks_up_to_the_last_and_no_points(tmp_path):
    runs = [run(epochs=251)]
    made = chart(report_data(*runs, epochs=curves(runs), tmp_path=tmp_path))
    (measured,) = panel(made, "training loss by epochs").series
    assert len(measured.marks) <= MOST_MARKS
    assert measured.marks[-1].x == 251
    assert not any(mark.points for mark in measured.marks)
    assert any(note.startswith(f"Where a line has more than {FEW_MARKS} marks") for note in made.notes)


def test_of_many_batch_sizes_as_many_are_shown_as_can_be_told_apart(tmp_path):
    runs = [run(batch_size=2**power) for power in range(10)]
    made = chart(report_data(*runs, epochs=curves(runs), tmp_path=tmp_path))
    labels = [one.label for one in made.panels[0].series]
    assert len(labels) == MOST_SERIES
    assert (labels[0], labels[-1]) == ("batch 1", "batch 512")
    assert len(made.panels) == len(TITLES)
    assert any(note.startswith("Of all batch sizes 7 are shown: 1, ") for note in made.notes)


def test_more_panels_than_can_be_read_are_named_instead(tmp_path):
    runs = [run(batch_size=size, optimizer=name, momentum=momentum) for size in (8, 16) for name in ("sgd", "rmsprop")
            for momentum in (0.0, 0.5, 0.9)]  # fmt: skip
    made = chart(report_data(*runs, epochs=curves(runs), tmp_path=tmp_path))
    assert len(made.panels) == MOST_PANELS
    assert any(note.startswith("Left out for want of room") for note in made.notes)
    assert len(made.runs) == 6


def test_base_lines_are_shown_where_there_is_room(tmp_path):
    runs = [run(batch_size=8, workers=2), run(batch_size=16, workers=2), *base_line(batch_size=8)]
    made = chart(report_data(*runs, epochs=curves(runs), tmp_path=tmp_path))
    assert [one.role for one in made.panels[0].series] == [Role.MEASURED, Role.MEASURED, Role.BASE_LINE]
    assert made.panels[0].series[-1].label == f"{ALONE}, batch 8"
    many = [run(batch_size=2**power, workers=2) for power in range(6)]
    many += [row for power in range(6) for row in base_line(batch_size=2**power)]
    made = chart(report_data(*many, epochs=curves(many), tmp_path=tmp_path))
    assert {one.role for one in made.panels[0].series} == {Role.MEASURED}
    assert "Base lines are left out where a panel would have more than 7 lines." in made.notes
    assert len(made.runs) == 6


def test_what_is_lacking_is_said(tmp_path):
    done, failed, random = run(epochs=3), run(status="failed"), run(input="synthetic")
    short = run(epochs=1)
    for runs, rows, message in (
        ([failed], [], "no run is completed"),
        ([done], [], "needs epochs.csv beside runs.csv"),
        ([short], curves([short]), "two or more epochs"),
        ([random], curves([random]), "on data that can be learned"),
        ([done], curves([done], train_loss=[None] * 3, train_accuracy=[None] * 3, validation_loss=[None] * 3,
                        validation_accuracy=[None] * 3), "with a loss or an accuracy"),
    ):  # fmt: skip
        with pytest.raises(MissingRowsError, match=message):
            chart(report_data(*runs, epochs=rows, tmp_path=tmp_path))


def test_a_real_study_shows_the_medians_of_its_rows(root: Path):
    folder = root / "results" / "digits-batch-workers"
    made = chart(read([folder]))
    with (folder / "epochs.csv").open(newline="", encoding="utf-8") as file:
        rows = [
            row for row in csv.DictReader(file) if row["run_id"].startswith("mlp-mpi-w2-b16-") and row["epoch"] == "10"
        ]
    first = [row for row in rows if row["worker"] == "0"]
    slowest = [max(float(row["train_time_s"]) for row in rows if row["run_id"] == one["run_id"]) for one in first]
    assert len(first) == 5
    by_epoch = medians(line(panel(made, "2 workers: training loss by epochs"), "batch 16"))
    assert by_epoch[10] == pytest.approx(median(float(row["train_loss"]) for row in first))
    by_time = medians(line(panel(made, "2 workers: training loss by time"), "batch 16"))
    assert list(by_time)[9] == pytest.approx(median(slowest))
    assert len(made.panels) == 24
    assert all(len(one.series) <= MOST_SERIES for one in made.panels)


def test_axes_are_logarithmic_where_lines_end_far_apart_or_losses_fall_far(tmp_path):
    runs = [run(batch_size=8), run(batch_size=256)]
    rows = curves(runs, train_loss=[2.0, 0.5, 0.1, 0.01], validation_loss=[2.0, 1.0, 0.9, 0.8])
    made = chart(report_data(*runs, epochs=rows, tmp_path=tmp_path))
    scales = {one.title: (one.x.scale, one.y.scale) for one in made.panels}
    assert scales["training loss by epochs"] == ("linear", "log10")
    assert scales["training loss by updates"] == ("log10", "log10")
    assert scales["validation loss by time"] == ("linear", "linear")
    assert scales["training accuracy by updates"] == ("log10", "linear")
