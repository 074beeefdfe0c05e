"""Arms, whose base line a run is, and the efficiency of arms and of single runs."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from dlbench.analysis.arms import EQUAL, arms, equal_columns, last_attempts
from dlbench.analysis.groups import varying
from dlbench.records.columns import names
from dlbench.scenario.settings import Affects, Settings, settings_of


def row(run_id: str, rate: float | None, workers: int = 1, **values: Any) -> dict[str, Any]:
    defaults = {
        "study": "s", "run_id": run_id, "attempt": 1, "status": "completed", "label": run_id, "workers": workers,
        "strategy": "single" if workers == 1 else "mpi", "batch_size": 32, "model.filters": "[8]",
        "samples_per_s": rate, "samples_per_s_per_worker": None if rate is None else rate / workers,
    }  # fmt: skip
    return dict.fromkeys(names("runs")) | defaults | values


def study(**two_workers: Any) -> Iterator[dict[str, Any]]:
    for repeat in range(5):
        yield row(f"base-r{repeat}", 100.0 + repeat)
        yield row(f"two-r{repeat}", 160.0 + repeat, 2, **two_workers)


def has_base_line(**pair: Any) -> bool:
    return arms(study(**pair))[1].efficiency is not None


def test_repeats_become_an_arm_with_efficiency_against_its_base_line() -> None:
    base, two = arms(study())
    assert base.metrics["samples_per_s"] is not None
    assert (base.n, base.metrics["samples_per_s"].value, base.efficiency) == (5, 102.0, None)
    assert two.efficiency is not None
    assert two.efficiency.value == 81.0 / 102.0
    assert two.efficiency.low < two.efficiency.value < two.efficiency.high


def test_an_arm_and_its_base_line_differ_in_nothing_that_decides_a_step(subtests: pytest.Subtests) -> None:
    assert has_base_line()
    assert {"input", "augmentation", "gradient_accumulation_steps", "nesterov", "weight_decay", "remainder"} < {*EQUAL}
    for name in (*EQUAL, "model.filters", "emulated"):
        with subtests.test(name=name):
            assert not has_base_line(**{name: "synthetic" if name == "input" else "other"})


def test_every_other_setting_may_differ(subtests: pytest.Subtests) -> None:
    others = settings_of(Affects.TRAINING, Affects.DISTRIBUTION, Affects.OBSERVATION)
    for name in (*others, "strategy.chunk_bytes"):
        if name not in (*EQUAL, "strategy", "workers"):
            with subtests.test(name=name):
                assert has_base_line(**{name: "other"})
    # Two emulated runs are compared whatever the reasons.
    pair = row("base-r0", 100.0, emulated="simulated"), row("two-r0", 160.0, 2, emulated="oversubscribed")
    assert arms(pair)[1].efficiency is not None
    assert set(EQUAL) - set(Settings.model_fields) == {"dataset_checksum"}
    assert equal_columns(["model.filters", "strategy.chunk_bytes", "trainer.x"]) == ("model.filters", "trainer.x")


@pytest.mark.parametrize(("policy", "has_one"), [("fixed", True), ("step-doubling", True), ("goodput", False)])
def test_a_batch_that_follows_the_times_of_a_run_has_no_base_line(policy: str, has_one: bool) -> None:
    two = arms({**found, "batch_policy": policy} for found in study())[1]
    assert (two.efficiency is not None) is has_one


def test_a_base_line_is_that_of_its_own_study() -> None:
    two, other = arms(study())[1], [{**found, "study": "other"} for found in study()]
    assert arms([*study(), *other])[1].base_line == two.base_line
    assert arms([found for found in study() if found["workers"] == 2] + other)[0].efficiency is None


def test_only_the_last_attempt_of_a_run_counts() -> None:
    rows = [row("a-r0", None, status="failed"), row("a-r0", 5.0, attempt=2), row("b-r0", None, status="timeout")]
    assert [(found["run_id"], found["attempt"]) for found in last_attempts(rows)] == [("a-r0", 2), ("b-r0", 1)]
    assert [(arm.name, arm.n) for arm in arms(rows)] == [("a", 1), ("b", 0)]


def test_runs_that_differ_in_a_setting_are_no_repeats(subtests: pytest.Subtests) -> None:
    compared = settings_of(Affects.STEP, Affects.ARITHMETIC, Affects.TRAINING, Affects.DISTRIBUTION)
    for name in set(compared) - {"learning_rate", "mode", "workers_per_host", "seed", "launcher"}:
        with subtests.test(name=name):
            rows = [row(f"{value}-r0", 160.0, 2) | {name: value} for value in ("one", "other")]
            assert varying(arms(rows)) == (name,)


def efficiencies(rows: Iterable[dict[str, Any]]) -> list[float | None]:
    return [arm.efficiency_of(row) for arm in arms(rows) for row in arm.rows]


def test_a_run_is_compared_with_the_median_of_its_base_line() -> None:
    rates = zip("abcde", (100.0, 300.0, 110.0, 110.0, 242.0), (1, 1, 1, 2, 2), strict=True)
    found = efficiencies(row(f"{name}-r0", rate, workers) for name, rate, workers in rates)
    assert found == [None, None, None, 0.5, 1.1]


def test_what_is_not_known_is_not_compared() -> None:
    base, two = row("a-r0", 100.0), row("b-r0", 100.0, 2)
    for other in ({"study": "t"}, {"status": "failed"}, *({"samples_per_s_per_worker": rate} for rate in (None, 0.0))):
        assert efficiencies([base, two | other]) == [None, None], other
        assert efficiencies([base | other, two]) == [None, None], other


def test_rows_have_the_mode_or_the_workers_of_a_host_as_placement_and_lists_as_text() -> None:
    rows = [
        row("a-r0", None, mode="scale-up", workers_per_host=2),
        row("b-r0", None, workers_per_host=4, **{"model.filters": [8]}),
        row("c-r0", None, hosts=3),
        row("d-r0", None, hosts=3, command="imported"),
    ]
    found = last_attempts(rows)
    assert [one["placement"] for one in found] == ["scale-up", "4 per host", None, "3 hosts"]
    assert [one["model.filters"] for one in found] == ["[8]"] * 4


def test_a_cell_of_an_arm_is_that_of_its_first_completed_run_that_has_one() -> None:
    modes = {"x": "failed", None: "completed", "y": "completed", "z": "completed"}
    rows = [row(f"a-r{repeat}", 1.0, mode=mode, status=modes[mode]) for repeat, mode in enumerate(modes)]
    assert [arms(rows[:count])[0].get("mode") for count in (1, 2, 4)] == ["x", "x", "y"]
    assert arms(rows)[0].get("no_such_column") is None


def test_only_finite_numbers_of_completed_runs_count() -> None:
    cells = ("n/a", 31.0, None, math.inf, 5.0)
    runs = [row(f"run-r{repeat}", 100.0, bleu=bleu, repeat=repeat) for repeat, bleu in enumerate(cells)]
    (arm,) = arms([*runs[:-1], runs[-1] | {"status": "failed"}])
    assert arm.values("bleu") == tuple(arm.comparable("bleu").values()) == (31.0,)
    assert arm.values("no_such_column") == ()
    assert "bleu" not in arm.metrics


def test_a_simulation_is_the_same_on_each_device() -> None:
    rows = [
        {"run_id": f"{name}-r0", "attempt": 1, "communicator": name, "device_name": "EPYC", "status": "completed"}
        for name in ("simulated", "mpi")
    ]
    assert [row["device_name"] for row in last_attempts(rows)] == ["EPYC", "EPYC"]
    assert [arm.get("device_name") for arm in arms(rows)] == [None, "EPYC"]
