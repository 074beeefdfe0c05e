"""Arms, whose base line a run is, and the efficiency of arms and of single runs."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dlbench.analysis.arms import EQUAL, arms, efficiencies, equal_columns, last_attempts
from dlbench.analysis.groups import varying
from dlbench.records.columns import names
from dlbench.records.tables import read_table, write_table
from dlbench.scenario.run_spec import arm_name
from dlbench.scenario.settings import Affects, Settings, settings_of

ROOT = Path(__file__).parents[3]
STUDIES = [*sorted(path.parent for path in (ROOT / "results").glob("*/runs.csv")), ROOT / "tests/fixtures/study-v1"]


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
    assert two.efficiency.low is not None
    assert two.efficiency.high is not None
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
        if name not in ("epochs", "remainder", "strategy", "workers"):
            with subtests.test(name=name):
                assert has_base_line(**{name: "other"})
    assert set(EQUAL) - set(Settings.model_fields) == {"dataset_checksum"}
    assert equal_columns(["model.filters", "strategy.chunk_bytes", "trainer.x"]) == ("model.filters", "trainer.x")


def test_two_emulated_runs_are_compared_whatever_the_reasons() -> None:
    pair = row("base-r0", 100.0, emulated="simulated"), row("two-r0", 160.0, 2, emulated="oversubscribed")
    assert arms(pair)[1].efficiency is not None


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
            rows = [row("two-r0", 160.0, 2) | {name: value} for value in ("one", "other")]
            assert varying(pd.DataFrame(rows)) == (name,)


def table(tmp_path: Path, *rows: dict[str, Any]) -> pd.DataFrame:
    write_table(tmp_path / "runs.csv", "runs", rows, ["model.filters"])
    return read_table(tmp_path / "runs.csv")


def test_a_run_is_compared_with_the_median_of_its_base_line(tmp_path: Path) -> None:
    rates = zip("abcde", (100.0, 300.0, 110.0, 110.0, 242.0), (1, 1, 1, 2, 2), strict=True)
    found = efficiencies(table(tmp_path, *(row(f"{name}-r0", rate, workers) for name, rate, workers in rates)))
    assert found.isna().tolist() == [True, True, True, False, False]
    assert found[3:].tolist() == [0.5, 1.1]


def test_what_is_not_known_is_not_compared(tmp_path: Path) -> None:
    base, two = row("a-r0", 100.0), row("b-r0", 100.0, 2)
    for other in ({"study": "t"}, {"status": "failed"}, *({"samples_per_s_per_worker": rate} for rate in (None, 0.0))):
        assert efficiencies(table(tmp_path, base, two | other)).isna().all(), other
        assert efficiencies(table(tmp_path, base | other, two)).isna().all(), other


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_the_efficiency_of_runs_is_that_of_their_arm(path: Path) -> None:
    runs = read_table(path / "runs.csv")
    rows = runs.astype(object).where(runs.notna(), None).to_dict("records")
    found = dict(zip(runs["run_id"], efficiencies(runs), strict=True))
    for arm in arms(rows):
        own = [value for run_id, value in found.items() if arm_name(run_id) == arm.name and value == value]
        assert bool(own) == (arm.efficiency is not None)
        if arm.efficiency is not None:
            assert statistics.median(own) == pytest.approx(arm.efficiency.value)
