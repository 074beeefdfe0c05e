"""`dlbench run` on Horovod: true rows, unsynchronised workers end as diverged, and faults leave nothing behind."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.faults.fault import FAULT, Fault
from tests.functional.studies import Bench

pytestmark = [pytest.mark.mpi, pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(900)]

PLUGINS = "tests.functional.horovod_programs.odd"
BASE = {
    "dataset": "digits",
    "model": "mlp",
    "model.hidden": [8],
    "strategy": "horovod",
    "workers": 2,
    "cores_per_worker": 1,
    "batch_size": 25,
    "batch_scope": "global",
    "epochs": 2,
    "train_samples": 250,
    "validation_samples": 50,
}
# Each option, library and launcher once: a run has as many options as it can take.
SOUND: dict[str, dict[str, Any]] = {
    "doubling in parts over mpi": {
        "collectives": "mpi",
        "strategy.compression": "fp16",
        "strategy.adasum": True,
        "batch_size": 20,
        "largest_batch_size": 40,
        "microbatch_size": 10,
        "batch_policy": "step-doubling",
        "batch_doubling_epochs": 2,
        "epochs": 4,
    },
    "three steps in a call over gloo": {
        "strategy": f"{PLUGINS}:QuickAutotuning",
        "strategy.autotune": True,
        "collectives": "gloo",
        "steps_per_execution": 3,
        "epochs": 10,
    },
}
GOODPUT = {
    "collectives": "mpi",
    "batch_size": 20,
    "largest_batch_size": 80,
    "batch_policy": "goodput",
    "batch_policy_steps": 8,
    "epochs": 8,
}
# Horovod's own optimizer beside a strategy that does nothing; under Keras 3 it silently reduces nothing (horovod#4290).
UNSOUND = {"strategy": f"{PLUGINS}:Unreduced", "trainer": f"{PLUGINS}:OwnOptimizer"}
Rows = dict[str, dict[str, str]]


def scenario(folder: Path, points: list[dict[str, Any]], **more: Any) -> Path:
    path = folder / "horovod.yaml"
    content = {"base": BASE, "include": points, "baseline": "none", "order": "written", **more}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Rows]]:
    """Return one study of every sound arm, and its rows by arm."""
    with Bench(tmp_path_factory.mktemp("horovod")) as found:
        found.call(scenario(found.folder, [*SOUND.values()]))
        assert found.left_running() == []
        yield found, dict(zip(SOUND, found.rows(), strict=True))


def test_sound_arms_complete_and_their_rows_name_what_moved_bytes(study: tuple[Bench, Rows]) -> None:
    launchers = {"mpi": "mpirun", "gloo": "horovodrun"}
    for name, settings in SOUND.items():
        row = study[1][name]
        assert (row["status"], row["workers_agree"]) == ("completed", "exact"), (name, row["reason"])
        assert (row["collectives"], row["launcher"]) == (settings["collectives"], launchers[row["collectives"]])
        assert row["horovod_version"] == "0.28.1"
        assert row["mpi_version"].startswith("Open MPI") == (row["collectives"] == "mpi")


def test_horovods_operations_repeat_within_a_call(study: tuple[Bench, Rows]) -> None:
    found, rows = study
    row = rows["three steps in a call over gloo"]
    of_first = [s for s in found.rows("steps") if (s["run_id"], s["worker"]) == (row["run_id"], "0")]
    # 10 steps in each of ten epochs, the first one alone.
    assert [step["num_steps"] for step in of_first] == [*"1333", *(9 * "3331")]
    assert row["samples_seen"] == "2500"


def test_autotunings_log_and_result_are_kept(study: tuple[Bench, Rows]) -> None:
    found, rows = study
    row = rows["three steps in a call over gloo"]
    log = found.study() / "runs" / row["run_id"] / "1" / "autotune.csv"
    assert log.read_text().startswith("hierarchical_allreduce,")
    assert (row["strategy.fusion_threshold_mb"], row["strategy.cycle_time_ms"]) == ("", "")
    assert float(row["autotuned_cycle_time_ms"]) > 0
    assert 0 <= float(row["autotuned_fusion_threshold_mb"]) <= 64
    other = rows["doubling in parts over mpi"]
    assert (other["strategy.fusion_threshold_mb"], other["strategy.cycle_time_ms"]) == ("128.0", "1.0")
    assert other["autotuned_cycle_time_ms"] == ""


def test_a_batch_that_doubles_is_computed_in_parts(study: tuple[Bench, Rows]) -> None:
    found, rows = study
    row = rows["doubling in parts over mpi"]
    changes = [change for change in found.rows("batch_changes") if change["run_id"] == row["run_id"]]
    assert [(change["step"], change["batch_size"], change["parts"]) for change in changes] == [
        ("26", "40", "2"),
    ]
    assert (row["batch_changes"], row["batch_size_last"]) == ("1", "40")
    # Epochs of 250 samples: 12 batches of 20, or 6 of 40, and a remainder of 10.
    assert int(row["steps"]) == 2 * 13 + 2 * 7


@pytest.mark.soak  # over MPI it is tested with the other policies
def test_goodput_trains_all_samples_whatever_it_decides(tmp_path: Path) -> None:
    with Bench(tmp_path) as found:
        found.call(scenario(tmp_path, [GOODPUT]))
        (row,), changes = found.rows(), found.rows("batch_changes")
    assert (row["status"], row["workers_agree"]) == ("completed", "exact"), row["reason"]
    assert (row["samples_seen"], row["batch_changes"]) == (str(8 * 250), str(len(changes)))
    assert row["batch_size_last"] == (changes[-1]["batch_size"] if changes else "20")
    assert row["gradient_noise_scale"] == ""


@pytest.mark.soak  # without a reduction workers disagree, and who disagrees is diverged: both are tested elsewhere
def test_what_does_not_synchronise_is_diverged(tmp_path: Path) -> None:
    with Bench(tmp_path) as found:
        found.call(scenario(tmp_path, [UNSOUND]), code=1)
        (row,) = found.rows()
    assert row["status"] == "diverged", row["reason"]
    assert "workers disagree after step 1" in row["reason"]


STALL_TIMEOUT_S = 15
# Kind of fault, collectives, status, beginning of the reason. Which worker stalls is judged without looking at Horovod.
FAULTS = [
    pytest.param(
        "hang", "mpi", "stalled", f"no progress for stall_timeout_s ({STALL_TIMEOUT_S} s): ", marks=pytest.mark.soak
    ),
    ("kill", "gloo", "failed", "worker 1 exited before sending its result (killed by SIGKILL)"),
]


@pytest.mark.parametrize(("kind", "collectives", "status", "reason"), FAULTS)
def test_a_fault_is_reported_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, collectives: str, status: str, reason: str
) -> None:
    limits = {"stall_timeout_s": STALL_TIMEOUT_S, "startup_timeout_s": 120, "orphan_timeout_s": 10, "grace_s": 1}
    point = {"strategy": f"{PLUGINS}:Horovod", "trainer": f"{PLUGINS}:Faulty", "collectives": collectives}
    with Bench(tmp_path) as found:
        path = scenario(tmp_path, [point], **limits)
        monkeypatch.setenv(FAULT, Fault(kind, "gradient", 1, 5, 0).text())
        found.call(path, code=1)
        assert found.left_running() == []
        (row,) = found.rows()
    (log,) = tmp_path.glob("studies/*/runs/*/*/worker-1.log")
    assert f"struck by {kind} in gradient" in log.read_text(errors="replace")
    assert (row["status"], row["reason"][: len(reason)]) == (status, reason), row["reason"]
