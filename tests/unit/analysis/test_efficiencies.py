"""Efficiency of single runs: the same number as that of their arm, and nothing where there is no base line."""

import statistics
from pathlib import Path

import pytest

from dlbench.analysis.arms import arm_name, arms, efficiencies
from dlbench.records.columns import names
from dlbench.records.tables import read_table, write_table

ROOT = Path(__file__).parents[3]
STUDIES = [*sorted(path.parent for path in (ROOT / "results").glob("*/runs.csv")), ROOT / "tests/fixtures/study-v1"]


def table(tmp_path, *rows):
    """Return rows as they are read from a file; what is not given is the same in all of them."""
    common = {"study": "s", "attempt": 1, "status": "completed", "workers": 1, "strategy": "single", "batch_size": 32}
    filled = [common | {"run_id": f"a{place}-r0"} | row for place, row in enumerate(rows)]
    options = dict.fromkeys(key for row in filled for key in row if "." in key)
    write_table(tmp_path / "runs.csv", "runs", filled, list(options))
    return read_table(tmp_path / "runs.csv")


def base(rate, **others):
    return {"samples_per_s_per_worker": rate, **others}


def two(rate, **others):
    return {"samples_per_s_per_worker": rate, "workers": 2, "strategy": "mpi", **others}


def test_a_run_is_held_against_the_median_of_its_base_line(tmp_path):
    found = efficiencies(table(tmp_path, base(100.0), base(300.0), base(110.0), two(55.0), two(121.0)))
    assert found.isna().tolist() == [True, True, True, False, False]
    assert found[3:].tolist() == [0.5, 1.1]


def test_what_is_not_equal_or_not_known_is_not_compared(tmp_path):
    for other in (
        {"batch_size": 64}, {"study": "t"}, {"emulated": "oversubscribed"}, {"model.hidden": "[1]"}, {"model": "cnn"},
        {"samples_per_s_per_worker": None}, {"samples_per_s_per_worker": 0.0}, {"status": "failed"},
    ):  # fmt: skip
        assert efficiencies(table(tmp_path, base(100.0), two(50.0) | other)).isna().all(), other
        assert efficiencies(table(tmp_path, base(100.0) | other, two(50.0))).isna().all(), other


def test_two_emulated_runs_are_compared_whatever_the_reasons(tmp_path):
    rows = table(tmp_path, base(100.0, emulated="simulated"), two(50.0, emulated="oversubscribed"))
    assert efficiencies(rows)[1] == 0.5


def test_what_does_not_change_the_work_of_one_worker_may_differ(tmp_path):
    others = {"batch_scope": "global", "divide": "epochs", "strategy.chunk_bytes": 4, "launcher.mca": "x", "seed": 3}
    assert efficiencies(table(tmp_path, base(100.0), two(50.0, **others)))[1] == 0.5


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_it_is_the_efficiency_of_the_arm(path):
    runs = read_table(path / "runs.csv")
    rows = runs.astype(object).where(runs.notna(), None).to_dict("records")
    found = dict(zip(runs["run_id"], efficiencies(runs), strict=True))
    assert set(names("runs")) <= set(runs.columns)
    for arm in arms(rows):
        own = [value for run_id, value in found.items() if arm_name(run_id) == arm.name and value == value]
        assert bool(own) == (arm.efficiency is not None)
        if arm.efficiency is not None:
            assert statistics.median(own) == pytest.approx(arm.efficiency.value)
