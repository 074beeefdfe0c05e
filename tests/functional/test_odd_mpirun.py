"""An mpirun that misbehaves: mpirun is a fake, the rest is real."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dlbench.launch.launchers import mpirun
from dlbench.launch.processes import end, leftovers
from dlbench.records.outcome import Outcome, Status
from tests.functional.attempt import FakeAttempt, fake_attempt
from tests.functional.executables import write_executable
from tests.functional.waiting import wait_until

# It prints its version as the real one does.
VERSION = """
import sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("mpirun (Open MPI) 5.0.11"))
"""
# Starts the program (the last three words) as ranks 0 and 1, as the real one does.
START = """
import os, subprocess, sys, time
ranks = [subprocess.Popen(sys.argv[-3:], env=os.environ | {"OMPI_COMM_WORLD_RANK": str(rank)}, start_new_session=True)
         for rank in range(2)]
"""
KILLED = """
import os, sys, threading
from pathlib import Path
from tests.functional.attempt import fake_attempt
with fake_attempt(Path(sys.argv[1]), "local", "hang") as attempt:
    print(attempt.assignment.attempt_id, flush=True)
    attempt.run()
"""


def run(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    mode: str = "hang",
    act: Callable[[FakeAttempt], None] | None = None,
    **limits: float,
) -> Outcome:
    fake = folder / "bin" / "mpirun"
    fake.parent.mkdir()
    write_executable(fake, VERSION, code, interpreter=sys.executable)
    monkeypatch.setattr(mpirun, "executable", lambda: str(fake))
    with fake_attempt(folder, "mpirun", mode, **limits) as attempt:
        return attempt.run() if act is None else attempt.run_and(act)


def test_the_refusal_of_mpirun_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; print('-' * 70); print('There are not enough slots available'); print('-' * 70); sys.exit(1)"
    outcome = run(tmp_path, monkeypatch, code)
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 1)
    refusal = "There are not enough slots available"
    assert outcome.reason == f"the launcher ended (exit code 1) before a worker connected: {refusal}"


def test_an_mpirun_that_leaves_its_workers_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = START + f"while not os.path.exists({str(tmp_path / 'reported')!r}):\n    time.sleep(0.02)\n"
    outcome = run(tmp_path, monkeypatch, code, act=lambda _: (tmp_path / "reported").touch())
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 0)
    assert outcome.reason == "the launcher ended (exit code 0) before its workers"


def test_an_mpirun_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = START + "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)\n"
    outcome = run(tmp_path, monkeypatch, code, "finish", stall_timeout_s=4, grace_s=0.5)
    assert (outcome.status, outcome.reason) == (
        Status.STALLED,
        "no progress for stall_timeout_s (4 s): every worker has ended, the launcher has not",
    )


def test_an_mpirun_that_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(tmp_path, monkeypatch, "import sys; sys.exit(0)")
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 0)
    assert "before it connected" in outcome.reason


def test_processes_of_a_killed_dlbench_are_found_and_ended(tmp_path: Path, root: Path) -> None:
    program = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(program, cwd=root, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        attempt_id = killed.stdout.readline().strip()
        wait_until((tmp_path / "worker-1.log").exists)
        # Workers without a dlbench end by themselves: all are stopped until they are looked for.
        killed.send_signal(signal.SIGSTOP)
        pids = leftovers(attempt_id)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        killed.kill()
    try:
        assert len(pids) == 3, "the supervisor and its workers"
        assert leftovers(attempt_id) == pids
    finally:
        assert end(pids, grace_s=2.0) == []
    assert leftovers(attempt_id) == []
