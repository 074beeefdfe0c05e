"""Studies of the repository: what figures show of them is computed again here from their CSV files alone."""

import csv
from collections.abc import Iterator
from statistics import median

import pytest

from dlbench.analysis.arms import MOST_DRIFT
from dlbench.report.chart import Role
from dlbench.report.figures import learning_curves
from dlbench.report.figures._table import TABLE
from dlbench.report.lines import ALONE
from tests.unit.report.figures.cases import STUDIES, check, study
from tests.unit.report.figures.makers import line, medians, panel

SIZES = (8, 16, 32, 64, 128, 256)
DIGITS = study("digits")


def cells(table: str, column: str, **where: object) -> Iterator[float]:
    """Yield the numbers of a column of the study of digits, of the rows that have these values."""
    with (STUDIES["digits"] / f"{table}.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if all(row[name].startswith(str(value)) for name, value in where.items()):
                yield float(row[column])


def test_medians_by_batch_size() -> None:
    times, scores, rates = (
        figure.chart(DIGITS) for figure in map(TABLE.__getitem__, ("training_time", "accuracy", "throughput"))
    )
    assert [len(made.panels) for made in (times, scores, rates)] == [1, 4, 1]
    for made, column in ((times, "train_time_s"), (scores, "validation_accuracy"), (rates, "samples_per_s")):
        assert len(made.runs) == 90
        for label, arm in (("mpi, 2 workers", "mpi-w2"), (ALONE, "single-w1")):
            expected = {size: median(cells("runs", column, run_id=f"mlp-{arm}-b{size}-")) for size in SIZES}
            assert medians(line(made.panels[0], label)) == pytest.approx(expected)
    marks = [mark for one in rates.panels[0].series for mark in one.marks]
    assert {mark.flags for mark in marks} <= {"extended", "extended;unsteady"}
    arms_of = ("single-w1", "mpi-w1", "mpi-w2")
    drifts = [list(cells("runs", "rate_drift", run_id=f"mlp-{arm}-b{size}-")) for arm in arms_of for size in SIZES]
    num_unsteady = sum(max(map(abs, found)) > MOST_DRIFT for found in drifts)
    assert sum("unsteady" in mark.flags for mark in marks) == num_unsteady


def test_learning_curves_at_the_last_epoch() -> None:
    made = learning_curves.chart(DIGITS)
    assert len(made.panels) == 12
    which = {"run_id": "mlp-mpi-w2-b16-", "epoch": "10"}
    by_epoch = medians(line(panel(made, "training loss by epochs"), "batch 16"))
    assert by_epoch[10] == pytest.approx(median(cells("epochs", "train_loss", worker=0, **which)))
    times = [list(cells("epochs", "train_time_s", worker=worker, **which)) for worker in (0, 1)]
    by_time = medians(line(panel(made, "training loss by time"), "batch 16"))
    assert list(by_time)[9] == pytest.approx(median(map(max, *times)))


def test_times_to_the_target_have_every_run() -> None:
    made = TABLE["time_to_target"].chart(DIGITS)
    check(made, DIGITS)
    assert [one.x.label for one in made.panels] == ["batch size of one worker (samples)"] * 2
    for found in made.panels:
        marks = [mark for one in found.series for mark in one.marks]
        assert sum(len(mark.points) + len(mark.ended) for mark in marks) == len(DIGITS.completed) == 90


def test_updates_to_the_target_and_three_fits() -> None:
    made = TABLE["steps_to_target"].chart(DIGITS)
    (found,) = made.panels
    roles = [one.role for one in found.series]
    assert roles[:4] == [Role.MEASURED, Role.MEASURED, Role.BASE_LINE, Role.IDEAL]
    assert sum(note.startswith("Critical batch of ") for note in made.notes) == 3
    # One worker needs the same updates with and without a communication library: the seeds are the same.
    assert medians(found.series[0]) == medians(found.series[2])


@pytest.mark.parametrize(("name", "num_panels"), [("cifar10", 1), ("digits", 1), ("dividing", 4)])
def test_efficiency_is_that_of_the_arms(name: str, num_panels: int) -> None:
    found = study(name)
    made = TABLE["efficiency"].chart(found)
    assert len(made.panels) == num_panels
    intervals = [arm.efficiency for arm in found.arms if arm.efficiency]
    series = [one for each in made.panels for one in each.series if one.role is Role.MEASURED]
    marks = [mark for one in series for mark in one.marks if mark.interval]
    assert sorted(mark.interval.value for mark in marks) == sorted(one.value for one in intervals)
    assert {mark.interval for mark in marks} == set(intervals)
    for mark in marks:
        assert median(mark.points) == pytest.approx(mark.interval.value)
