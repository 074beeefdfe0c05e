"""Scale-up against scale-out: pairs of runs that are equal in all else, and their ratio."""

from pathlib import Path

import pytest

from dlbench.report.chart import MissingRowsError
from dlbench.report.figures.up_against_out import chart
from tests.unit.report.figures.cases import Case, check_cases, see
from tests.unit.report.figures.makers import Row, repeats, report_data, run

UP = {"mode": "scale-up", "train_time_s": [10.0, 12.0, 14.0], "samples_per_s": [300.0, 200.0, 100.0]}
OUT = {"mode": "scale-out", "train_time_s": [15.0, 12.0, 21.0], "samples_per_s": [150.0, 200.0, 75.0]}
TITLES = [
    "training time", "training time: above 1 scale-up is faster",
    "steady throughput", "steady throughput: above 1 scale-up is slower",
]  # fmt: skip
RATIO, THIRD, EQUAL = "scale-out / scale-up", "2 per host / scale-up", "no difference"


def side(side: dict[str, object], **values: object) -> list[Row]:
    return repeats(3, **{"workers": 2} | side | values)


def both(**values: object) -> list[Row]:
    return side(UP, **values) + side(OUT, **values)


def ratios(*points: float, **others: object) -> dict[str, object]:
    return {RATIO: {0: see(*points, **others)}, EQUAL: {-0.4: 1, 0.4: 1}}


BETWEEN = repeats(
    3, workers=4, train_time_s=[10.0, 6.0, 7.0], mode=None, workers_per_host=2, hosts=2,
    samples_per_s=[300.0, 100.0, 50.0],
)  # fmt: skip
FAILED = [*both()[:4], run(workers=2, mode="scale-out", repeat=1, status="stalled"), both()[5]]
CASES = (
    # 15/10, 12/12, 21/14: the ratio of the medians, 1.25, is none of them.
    Case(
        "repeats are paired whatever their order", both()[::-1], titles=TITLES, num_runs=6,
        shows={TITLES[0]: {"mpi, scale-up": {0: 12}, "mpi, scale-out": {0: 15}},
               TITLES[1]: ratios(1, 1.5, 1.5, value=1.5, low=1, high=1.5, n=3), TITLES[3]: ratios(0.5, 0.75, 1)},
    ),
    Case(
        "several numbers of workers share a panel", [*both(), *both(workers=4)],
        {TITLES[1]: {RATIO: {0: 1.5, 1: 1.5}, EQUAL: {-0.4: 1, 1.4: 1}}},
    ),
    # 30/10 and so on beside the 15/10 of the others.
    Case(
        "where both launchers did both, each is compared with itself",
        [*both(launcher="mpirun"), *side(UP, launcher="srun"),
         *side(OUT, launcher="srun", train_time_s=[30.0, 36.0, 42.0])],
        {1: ratios(1, 1.5, 1.5, 3, 3, 3)},
    ),
    Case(
        "several workers on each of several hosts are a third arm", [*both(workers=4), *BETWEEN], num_runs=9,
        titles=TITLES,
        shows={0: dict.fromkeys(("mpi, scale-up", "mpi, scale-out", "mpi, 2 per host"), ...),
               1: {RATIO: {0: 1.5}, THIRD: {0: see(0.5, 0.5, 1)}, EQUAL: ...},
               3: {RATIO: ..., THIRD: {0: see(0.5, 0.5, 1)}, EQUAL: ...}},
    ),
    Case(
        "without a mode one host is scale-up, and more hosts are not",
        [*both(mode=None, hosts=1, workers_per_host=2)[:3], *side(OUT, mode=None, hosts=2, workers_per_host=1)],
        {0: {"mpi, scale-up": {0: 12}, "mpi, 1 per host": {0: 15}}, 1: {"1 per host / scale-up": {0: 1.5}, EQUAL: ...}},
    ),
    Case(
        "launchers may differ, and what crossed the network is said",
        [*side(UP, launcher="local"), *side(OUT, launcher="srun", hosts=2, wire_bytes=[2e6, 3e6, None])],
        {TITLES[1]: ratios(1, 1.5, 1.5)},
        says=["Runs on several hosts sent 2.50 MB at the median of 2 runs over the interfaces between them."],
    ),
    Case(
        "a failed run takes its pair with it and both are seen", FAILED, num_runs=6,
        shows={TITLES[0]: {"mpi, scale-up": {0: see(10, 12, 14, num_failed=0)},
                            "mpi, scale-out": {0: see(15, 21, num_failed=1)}},
               TITLES[1]: ratios(1.5, 1.5, num_failed=1)},
    ),
    Case(
        "runs without a partner",
        [*both(), run(workers=8, mode="scale-up"), run(workers=2, mode="scale-out", repeat=3)],
        {TITLES[0]: {"mpi, scale-up": {0: 12}, "mpi, scale-out": {0: 15}}}, num_runs=6,
        says=["2 runs without an equal of the other side left out."],
    ),
    Case(
        "two studies pair where one alone does not",
        [*side(UP, study="one host", device_name="V100"), *side(OUT, study="many hosts", device_name="T4")],
        {TITLES[1]: ratios(1, 1.5, 1.5)},
        says=["Scale-up is of one host, scale-out of many hosts: they did not take turns.",
              "Devices differ: scale-up on V100, scale-out on T4."],
    ),
    Case(
        "runs of one study pair first", [*both(study="a"), *both(study="b", train_time_s=[1.0, 1.0, 1.0])],
        {1: ratios(1, 1, 1, 1, 1.5, 1.5)},
    ),
)  # fmt: skip


def test_cases(tmp_path: Path) -> None:
    check_cases(chart, CASES, tmp_path)


def test_runs_that_differ_in_anything_else_are_no_pair(tmp_path: Path) -> None:
    differences = {
        "strategy": "horovod", "workers": 4, "batch_size": 64, "evaluate_every": 3, "emulated": "oversubscribed",
        "strategy.chunk_bytes": 8,
    }  # fmt: skip
    for key, value in differences.items():
        rows = [*side(UP, **{"strategy.chunk_bytes": 4}), *side(OUT, **{"strategy.chunk_bytes": 4} | {key: value})]
        named = "being emulated" if key == "emulated" else key
        with pytest.raises(MissingRowsError, match=f"they differ in {named}"):
            chart(report_data(*rows, tmp_path=tmp_path))
