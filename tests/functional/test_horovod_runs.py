"""`dlbench run` on Horovod: rows that are true, what does not synchronise is found, and nothing is left of a fault."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.faults.fault import FAULT, Fault
from tests.functional.faults.study import AttemptFolder
from tests.functional.studies import Bench, bench
from tests.functional.test_faults import end_s

pytestmark = [pytest.mark.mpi, pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(1800)]

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
SOUND: dict[str, dict[str, Any]] = {
    "mpi": {"collectives": "mpi"},
    "gloo": {"collectives": "gloo", "workers": 3},
    "mpi by horovodrun": {"launcher": "horovodrun"},
    "fp16": {"strategy.compression": "fp16"},
    "adasum": {"strategy.adasum": True},
    "autotune": {"strategy.autotune": True},
}
UNSOUND = {
    "unreduced mpi": {"strategy": f"{PLUGINS}:Unreduced"},
    "unreduced gloo": {"strategy": f"{PLUGINS}:Unreduced", "collectives": "gloo"},
    "own optimizer": {"strategy": f"{PLUGINS}:Unreduced", "trainer": f"{PLUGINS}:OwnOptimizer"},
}

Rows = dict[str, dict[str, str]]


def scenario(folder: Path, points: list[dict[str, Any]], **more: Any) -> Path:
    path = folder / "horovod.yaml"
    content = {"base": BASE, "include": points, "baseline": "none", "order": "written", **more}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """The plugins of these tests are found from any folder."""
    monkeypatch.setenv("PYTHONPATH", str(root))


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Rows]]:
    """Return one study of every sound and unsound arm, and its rows by arm."""
    root = Path(__file__).parents[2]
    with pytest.MonkeyPatch.context() as patch, bench(tmp_path_factory.mktemp("horovod")) as found:
        patch.setenv("PYTHONPATH", str(root))
        code, output = found.run(scenario(found.folder, [*SOUND.values(), *UNSOUND.values()]), timeout_s=1700)
        assert code == 1, output
        assert found.left_running() == []
        yield found, dict(zip([*SOUND, *UNSOUND], found.rows(), strict=True))


def test_sound_arms_are_completed_and_their_workers_agree(studied: tuple[Bench, Rows]) -> None:
    rows = {name: studied[1][name] for name in SOUND}
    assert {(row["status"], row["workers_agree"]) for row in rows.values()} == {("completed", "exact")}, rows


def test_rows_say_what_moved_bytes_and_what_was_set(studied: tuple[Bench, Rows]) -> None:
    rows = studied[1]
    found = {name: (row["collectives"], row["launcher"]) for name, row in rows.items() if name in SOUND}
    assert found["mpi"] == ("mpi", "mpirun")
    assert found["gloo"] == ("gloo", "horovodrun")
    assert found["mpi by horovodrun"] == ("mpi", "horovodrun")
    for name in SOUND:
        row = rows[name]
        assert row["horovod_version"] == "0.28.1"
        assert row["mpi_version"].startswith("Open MPI") == (row["collectives"] == "mpi")
    numbers = ("strategy.fusion_threshold_mb", "strategy.cycle_time_ms")
    assert [float(rows["mpi"][number]) for number in numbers] == [128.0, 1.0]
    assert [rows["autotune"][number] for number in numbers] == ["", ""]


def test_autotuning_keeps_its_log_with_the_attempt(studied: tuple[Bench, Rows]) -> None:
    found, rows = studied
    log = found.study() / "runs" / rows["autotune"]["run_id"] / "1" / "autotune.csv"
    assert log.read_text().startswith("hierarchical_allreduce,")
    assert rows["autotune"]["autotuned_cycle_time_ms"] == "", "so few steps settle nothing"


@pytest.mark.parametrize("name", UNSOUND)
def test_what_does_not_synchronise_is_diverged(studied: tuple[Bench, Rows], name: str) -> None:
    """Horovod's own optimizer is among them: under Keras 3 it reduces nothing and says nothing (horovod#4290)."""
    row = studied[1][name]
    assert row["status"] == "diverged", row["reason"]
    assert "workers disagree after step 1" in row["reason"]


STALL_TIMEOUT_S = 20
REASONS = {
    "raise": ("failed", "worker 1: RuntimeError: struck in gradient"),
    "kill": ("failed", "worker 1 ended without handing in its result (killed by SIGKILL)"),
    "exit0": ("failed", "worker 1 ended without handing in its result ("),
    # Five steps are over before the next beat: the phase is the one of the last that was sent.
    "stop": ("stalled", "worker 1 (in phase "),
    "hang": ("stalled", f"no progress for stall_timeout_s ({STALL_TIMEOUT_S} s): "),
}


def fault(kind: str) -> Fault:
    return Fault(kind, "gradient", 1, 5, 0)


@pytest.mark.parametrize("collectives", ["mpi", "gloo"])
def test_a_fault_is_told_and_leaves_nothing(tmp_path: Path, collectives: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [{"batch_size": 25 + number} for number in range(len(REASONS))]
    more = {"stall_timeout_s": STALL_TIMEOUT_S, "startup_timeout_s": 120, "orphan_timeout_s": 10, "grace_s": 1}
    base = {"strategy": f"{PLUGINS}:Horovod", "trainer": f"{PLUGINS}:Faulty", "collectives": collectives}
    with bench(tmp_path) as found:
        path = scenario(found.folder, [base | point for point in points], **more)
        for number, kind in enumerate(REASONS):
            monkeypatch.setenv(FAULT, fault(kind).text())
            words = () if number == 0 else ("--resume",)
            code, output = found.run(path, *words, "--only", f"batch_size={25 + number}", timeout_s=300)
            assert code == 1, output
            assert found.left_running() == []
        rows, runs = found.rows(), found.study() / "runs"
    assert len(rows) == len(REASONS)
    for row, (kind, (status, reason)) in zip(rows, REASONS.items(), strict=True):
        assert (row["status"], row["reason"][: len(reason)]) == (status, reason), row["reason"]
        after_s = end_s(AttemptFolder(runs / row["run_id"] / row["attempt"]), fault(kind))
        assert after_s is not None, "it was not struck"
        assert after_s < STALL_TIMEOUT_S + 40, kind
    assert "is stopped" in rows[list(REASONS).index("stop")]["reason"]
