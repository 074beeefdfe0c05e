"""Utilisation and memory while runs train."""

from pathlib import Path

import pytest

from dlbench.report.chart import MissingRowsError
from dlbench.report.figures.devices_over_time import MOST_PLACES, chart
from tests.unit.report.figures.cases import Case, check_cases, drawn, see
from tests.unit.report.figures.makers import UTILISATION, medians, readings, repeats, report_data, run

GIB = 2**30


ONE, TWO, STALLED, DEAD = run(), run(workers=2), run(repeat=1, status="stalled"), run(repeat=2, status="failed")
THREE = repeats(3)
LEVELS = [
    *readings(ONE, [1e9, 2e9], ("network", "sent_bytes")),
    *readings(ONE, [10.0, 11.0], ("cpu", "time_s")),
    *readings(ONE, [1.5 * GIB, 2 * GIB], ("memory", "rss_bytes")),
    *readings(ONE, [8 * GIB, 9 * GIB], ("nvml", "memory_used_bytes")),
    *readings(ONE, [0.9, 1.0], ("nvml", "utilization")),
    *readings(ONE, [0.5, 0.6]),
]
CASES = (
    Case(
        "a run is the mean of its workers at each moment", [TWO], {0: {"mpi": {0: 0.3, 1: 0.7, 2: 0.8}}},
        more={"sensors": [*readings(TWO, [0.2, 0.8, 0.9]), *readings(TWO, [0.4, 0.6, 0.7], worker=1, start=0.01)]},
    ),
    Case(
        "an arm is the median of its repeats", THREE, num_runs=3,
        shows={0: {"mpi": dict.fromkeys(range(4), see(0.5, 0.6, 0.9, value=0.6, low=0.5, high=0.9))}},
        more={"sensors": [one for row, share in zip(THREE, (0.5, 0.9, 0.6), strict=True)
                          for one in readings(row, [share] * 4)]},
    ),
    Case(
        "levels have panels and counters have none", [ONE],
        {number: {"mpi": {0: first, 1: last}}
         for number, (first, last) in enumerate(((0.9, 1.0), (0.5, 0.6), (8, 9), (1.5, 2)))},
        more={"sensors": LEVELS},
    ),
    Case(
        "what was read before the first step is not training", [ONE], {0: {"mpi": {0: 0.8, 1: 0.9}}},
        more={"sensors": readings(ONE, [0.1, 0.2, 0.8, 0.9], start=-2.0)},
    ),
    Case(
        "failed runs are counted once where their readings end", [ONE, STALLED, DEAD], num_runs=3,
        shows={0: {"mpi": {place: see(0.5, num_failed=int(place in (0, 2))) for place in range(5)}}},
        more={"sensors": [*readings(ONE, [0.5] * 5), *readings(STALLED, [0.9] * 3)]},
    ),
    Case(
        "runs without readings are not in it", [ONE, TWO, run(study="other")], num_runs=1,
        more={"sensors": readings(ONE, [0.5, 0.6])},
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)
    made = drawn(chart, ONE, sensors=LEVELS, tmp_path=tmp_path)
    assert [panel.y.label for panel in made.panels] == [
        "utilisation of the GPUs", "utilisation of the workers' cores", "memory in use on one GPU (GiB)",
        "memory of one process (GiB)",
    ]  # fmt: skip
    assert (made.columns, made.panels[0].x.label) == (4, "time since the first step (s)")
    assert [panel.y.percent for panel in made.panels] == [True, True, False, False]


def test_a_worker_that_was_read_more_often_counts_no_more(tmp_path: Path) -> None:
    often = readings(TWO, [1.0] * 200, worker=1, every=0.01)
    made = drawn(chart, TWO, sensors=readings(TWO, [0.0] * 3) + often, tmp_path=tmp_path)
    found = medians(made.panels[0].series[0])
    assert max(found.values()) == 1.0
    assert (found[0], found[1]) == (0.5, 0.5)


def test_a_long_run_is_thinned_to_means(tmp_path: Path) -> None:
    made = drawn(chart, ONE, sensors=readings(ONE, [0.0, 1.0] * 2000), tmp_path=tmp_path)
    found = list(medians(made.panels[0].series[0]).values())
    assert MOST_PLACES / 2 < len(found) <= MOST_PLACES + 1
    assert found[5:-5] == pytest.approx([0.5] * (len(found) - 10), abs=0.02)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for status, values, what in (
        ("completed", [], UTILISATION),
        ("completed", [1.0, 2.0], ("network", "sent_bytes")),
        ("completed", [0.5], UTILISATION),
        ("failed", [0.5, 0.6], UTILISATION),
    ):
        one = run(status=status)
        with pytest.raises(MissingRowsError, match=r"needs sensors.csv .* at two moments"):
            chart(report_data(one, sensors=readings(one, values, what), tmp_path=tmp_path))
