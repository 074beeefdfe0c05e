"""Utilisation and memory while runs train."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Mark, MissingRowsError
from dlbench.report.figures.devices_over_time import MOST_PLACES, chart
from tests.unit.report.figures import real
from tests.unit.report.figures.makers import repeats, report_data, run

GIB = 2**30
UTILISATION = ("cpu", "utilization")


def readings(
    of: dict[str, Any], values: Iterable[float], what: tuple[str, str] = UTILISATION, worker: int = 0, **more: float
) -> list[dict[str, Any]]:
    """Return one reading a second, from 0 s on or from `start`, `every` so many seconds."""
    start, every = more.get("start", 0.0), more.get("every", 1.0)
    return [
        {"run_id": of["run_id"], "study": of["study"], "worker": worker, "at_s": start + every * number,
         "sensor": what[0], "quantity": what[1], "value": value}
        for number, value in enumerate(values)
    ]  # fmt: skip


drawn = partial(real.drawn, chart)


def medians(marks: tuple[Mark, ...]) -> list[float]:
    return [mark.interval.value for mark in marks if mark.interval is not None]


def test_a_run_is_the_mean_of_its_workers_at_each_moment(tmp_path: Path) -> None:
    one = run(workers=2)
    sensors = readings(one, [0.2, 0.8, 0.9]) + readings(one, [0.4, 0.6, 0.7], worker=1, start=0.01)
    made = drawn(one, sensors=sensors, tmp_path=tmp_path)
    (panel,) = made.panels
    assert (panel.x.label, panel.y.label, panel.y.percent) == (
        "time since the first step (s)", "utilisation of the workers' cores", True,
    )  # fmt: skip
    (line,) = panel.series
    assert [mark.x for mark in line.marks] == pytest.approx([0, 1, 2])
    assert medians(line.marks) == pytest.approx([0.3, 0.7, 0.8])


def test_a_worker_that_was_read_more_often_counts_no_more(tmp_path: Path) -> None:
    one = run(workers=2)
    often = readings(one, [1.0] * 200, worker=1, every=0.01)
    made = drawn(one, sensors=readings(one, [0.0] * 3) + often, tmp_path=tmp_path)
    assert max(medians(made.panels[0].series[0].marks)) == 1.0
    shared = [mark for mark in made.panels[0].series[0].marks if mark.x in (0, 1)]
    assert len(shared) == 2
    assert all(mark.points == (0.5,) for mark in shared)


def test_an_arm_is_the_median_of_its_repeats(tmp_path: Path) -> None:
    rows = repeats(3)
    sensors = [
        reading for row, share in zip(rows, (0.5, 0.9, 0.6), strict=True) for reading in readings(row, [share] * 4)
    ]
    made = drawn(*rows, sensors=sensors, tmp_path=tmp_path)
    marks = made.panels[0].series[0].marks
    assert [sorted(mark.points) for mark in marks] == [[0.5, 0.6, 0.9]] * 4
    assert marks[0].interval is not None
    assert (marks[0].interval.value, marks[0].interval.low, marks[0].interval.high) == (0.6, 0.5, 0.9)
    assert len(made.runs) == 3


def test_levels_have_panels_and_counters_have_none(tmp_path: Path) -> None:
    one = run()
    sensors = [
        *readings(one, [1e9, 2e9], ("network", "sent_bytes")),
        *readings(one, [10.0, 11.0], ("cpu", "time_s")),
        *readings(one, [1.5 * GIB, 2 * GIB], ("memory", "rss_bytes")),
        *readings(one, [8 * GIB, 9 * GIB], ("nvml", "memory_used_bytes")),
        *readings(one, [0.9, 1.0], ("nvml", "utilization")),
        *readings(one, [0.5, 0.6]),
    ]
    made = drawn(one, sensors=sensors, tmp_path=tmp_path)
    assert [(panel.y.label, medians(panel.series[0].marks)) for panel in made.panels] == [
        ("utilisation of the GPUs", [0.9, 1.0]),
        ("utilisation of the workers' cores", [0.5, 0.6]),
        ("memory in use on one GPU (GiB)", [8, 9]),
        ("memory of one process (GiB)", [1.5, 2]),
    ]
    assert made.columns == 4


def test_a_long_run_is_thinned_to_means(tmp_path: Path) -> None:
    one = run()
    made = drawn(one, sensors=readings(one, [0.0, 1.0] * 2000), tmp_path=tmp_path)
    marks = made.panels[0].series[0].marks
    assert MOST_PLACES / 2 < len(marks) <= MOST_PLACES + 1
    assert medians(marks)[5:-5] == pytest.approx([0.5] * (len(marks) - 10), abs=0.02)


def test_what_was_read_before_the_first_step_is_not_training(tmp_path: Path) -> None:
    one = run()
    made = drawn(one, sensors=readings(one, [0.1, 0.2, 0.8, 0.9], start=-2.0), tmp_path=tmp_path)
    assert medians(made.panels[0].series[0].marks) == pytest.approx([0.8, 0.9])


def test_failed_runs_are_counted_once_where_their_readings_end(tmp_path: Path) -> None:
    good, bad, dead = run(), run(repeat=1, status="stalled"), run(repeat=2, status="failed")
    sensors = readings(good, [0.5] * 5) + readings(bad, [0.9] * 3)
    made = drawn(good, bad, dead, sensors=sensors, tmp_path=tmp_path)
    marks = made.panels[0].series[0].marks
    assert [(mark.x, mark.num_failed) for mark in marks if mark.num_failed] == [(0, 1), (2, 1)]
    assert all(mark.points == (0.5,) for mark in marks)
    assert len(made.runs) == 3


def test_runs_without_readings_are_not_in_it(tmp_path: Path) -> None:
    one = run()
    made = drawn(one, run(workers=2), run(study="other"), sensors=readings(one, [0.5, 0.6]), tmp_path=tmp_path)
    assert made.runs == {("study", one["run_id"])}


@pytest.mark.parametrize(
    ("status", "values", "what", "missing"),
    [
        ("completed", [], UTILISATION, "needs sensors.csv"),
        ("completed", [1.0, 2.0], ("network", "sent_bytes"), "readings of processors, GPUs or memory"),
        ("completed", [0.5], UTILISATION, "two moments of a run or more"),
        ("failed", [0.5, 0.6], UTILISATION, "two moments of a run or more"),
    ],
)
def test_what_is_missing_is_named(
    status: str, values: list[float], what: tuple[str, str], missing: str, tmp_path: Path
) -> None:
    one = run(status=status)
    with pytest.raises(MissingRowsError, match=missing):
        chart(report_data(one, sensors=readings(one, values, what), tmp_path=tmp_path))
