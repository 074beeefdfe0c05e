from pathlib import Path

import numpy as np
import pytest

from dlbench.communicators.simulated import SimulatedOptions
from dlbench.errors import UserError
from dlbench.records import parquet
from dlbench.records.tables import write_table
from dlbench.worker.simulate.times import ComputeTimes, measured


def drawn(count: int = 4000, worker: int = 0, num_workers: int = 2, seed: int = 0, **options) -> np.ndarray:
    times = ComputeTimes(SimulatedOptions(**options), num_workers, seed)
    return np.array([times.next(worker, 8) for _ in range(count)])


@pytest.mark.parametrize("name", ["lognormal", "exponential", "constant"])
def test_the_mean_and_deviation_are_those_of_the_options(name: str) -> None:
    found = drawn(20_000, compute_times=name, compute_time_s=0.2, variation=0.3)
    deviation = {"lognormal": 0.06, "exponential": 0.2, "constant": 0.0}[name]
    assert np.mean(found) == pytest.approx(0.2, rel=0.03)
    assert np.std(found) == pytest.approx(deviation, rel=0.05, abs=1e-12)


def test_a_worker_has_the_same_times_whoever_else_draws() -> None:
    alone, times = drawn(300, worker=1), ComputeTimes(SimulatedOptions(), 5, 0)
    mixed = []
    for _ in range(300):
        times.next(0, 8)
        mixed.append(times.next(1, 8))
    assert alone.tolist() == mixed
    assert drawn(5, worker=0).tolist() != drawn(5, worker=1).tolist() != drawn(5, worker=1, seed=1).tolist()


def test_samples_add_their_time_to_a_fixed_part_and_none_take_none() -> None:
    options = SimulatedOptions(compute_times="constant", compute_time_s=1.0, compute_time_per_sample_s=0.25)
    times = ComputeTimes(options, 1, 0)
    assert [times.next(0, count) for count in (4, 8, 0)] == [2.0, 3.0, 0.0]


def test_slow_workers_are_the_last_ones() -> None:
    options = {"compute_times": "constant", "compute_time_s": 1.0, "slow_workers": 1, "slow_factor": 3.0}
    assert set(drawn(9, worker=0, **options)) == {1.0}
    assert set(drawn(9, worker=1, **options)) == {3.0}


def test_hiccups_are_as_frequent_as_they_are_said_to_be() -> None:
    found = drawn(20_000, compute_times="constant", compute_time_s=1.0, hiccup_probability=0.1, hiccup_factor=7.0)
    assert set(found) == {1.0, 7.0}
    assert np.mean(found == 7.0) == pytest.approx(0.1, abs=0.01)


HEADER = "run_id,phase,step_time_s,compute_time_s,communication_time_s,num_steps\n"


def test_measured_times_are_those_of_timed_steps(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    # A step takes its batch and update, too, and what it waits for others is not a worker's own.
    rows = ("first,9,9,,1", "timed,0.375,0.2,0.125,1", "extended,1.5,1.2,0,3", "sampled,8,8,0,1", "timed,1,,,1")
    path.write_text(HEADER + "".join(f"a-r{n},{row}\n" for n, row in enumerate(rows)))
    assert measured(path).tolist() == [0.25, 0.5]
    assert set(drawn(200, compute_times="measured", measured=str(path))) == {0.25, 0.5}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "phase\ntimed\n",
        f"{HEADER}a-r0,timed,x,1,0,1\n",
        HEADER,
        f"{HEADER}a-r0,timed,1,1,0,1\nb-r0,timed,1,1,0,1\n",
    ],
    ids=["empty", "no column", "no number", "no row", "two arms"],
)
def test_a_file_without_measured_times_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(text)
    for place in (path, tmp_path / "absent.csv", tmp_path):
        with pytest.raises(UserError, match="measured: "):
            measured(place)


def test_measured_times_come_from_parquet_too(tmp_path: Path) -> None:
    place = {"run_id": "a-r0", "attempt": 1, "worker": 0, "num_steps": 1, "phase": "timed"}
    times = [{"step": n, "step_time_s": n / 8, "compute_time_s": n / 16 if n % 2 else None} for n in range(1, 7)]
    write_table(tmp_path / "steps.csv", "steps", [place | one for one in times])
    assert measured(tmp_path / "steps.csv").tolist() == [1 / 8, 3 / 8, 5 / 8]
    parquet.convert(tmp_path / "steps.csv", "steps")
    assert measured(tmp_path / "steps.parquet").tolist() == [1 / 8, 3 / 8, 5 / 8]
