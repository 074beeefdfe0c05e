"""What is seen of workers' processes from outside, by a `/proc` that the test has written."""

from pathlib import Path

import pytest

from dlbench.launch import processes
from dlbench.launch.processes import WorkerStates, worker_states
from tests.unit.launch.fakes import view, views


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processes, "_PROC", tmp_path)
    return tmp_path


def process(proc: Path, pid: int, letter: str, attempt_id: str = "a1") -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} (a name) {letter} 1 {pid} {pid} 0\n")
    (folder / "environ").write_bytes(f"HOME=/h\0DLBENCH_ATTEMPT={attempt_id}\0".encode())


def look(*seen: object) -> WorkerStates:
    return worker_states("a1", views(*seen), "here")  # type: ignore[arg-type]


def test_a_worker_here_is_seen_stopped_or_gone(proc: Path) -> None:
    process(proc, 100, "S")
    process(proc, 101, "T")
    process(proc, 102, "Z")
    process(proc, 103, "S", "of another attempt")
    assert look(*(view(rank, host="here") for rank in range(5))) == WorkerStates(frozenset({1}), frozenset({2, 3, 4}))
    # The number of a worker elsewhere is not looked up here, nor that of one that has not called.
    assert look(view(0, host="there"), view(1, host="there")) == WorkerStates()
    assert look(view(0, pid=0, host="here"), view(1, pid=-1, host="here")) == WorkerStates()
