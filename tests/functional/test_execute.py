"""Real processes that end well, badly, or not at all: right status, a reason that names the culprit, nothing left."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from dlbench.launch import processes
from dlbench.launch.execute import write_outcome
from dlbench.launch.processes import leftovers
from dlbench.records.outcome import Outcome, Status
from tests.functional.attempt import FakeAttempt, fake_attempt

LAUNCHERS = ["local", pytest.param("mpirun", marks=pytest.mark.mpi)]

pytestmark = pytest.mark.parametrize("launcher", LAUNCHERS)


def run(folder: Path, launcher: str, mode: str, **limits: float) -> Outcome:
    with fake_attempt(folder, launcher, mode, **limits) as attempt:
        return attempt.run()


def test_asking_other_hosts_afterwards_is_no_time_of_the_run(tmp_path: Path, launcher: str) -> None:
    asked: list[bool] = []
    with fake_attempt(tmp_path, launcher, "finish") as attempt:
        attempt.bring = lambda assignment, folder, went_well: (asked.append(went_well), time.sleep(3.0), {})[-1]
        began = time.monotonic()
        outcome = attempt.run()
    assert asked == [True]
    assert outcome.wall_time_s < time.monotonic() - began - 3.0


def kinds(folder: Path) -> list[tuple[int, str]]:
    return [
        (line["worker"], line["kind"]) for line in map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    ]


def test_a_good_end(tmp_path: Path, launcher: str) -> None:
    outcome = run(tmp_path, launcher, "finish")
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.COMPLETED, "", 0)
    assert sorted(kinds(tmp_path)) == sorted((w, k) for w in (0, 1) for k in ("steps", "epoch", "result", "bye"))
    write_outcome(tmp_path, outcome)
    assert Outcome.model_validate_json((tmp_path / "outcome.json").read_text()) == outcome


def test_odd_names_change_nothing(tmp_path: Path, launcher: str) -> None:
    folder = tmp_path / 'a study\'s "runs" 한글\n$HOME;x, -x 100%'
    folder.mkdir()
    assert run(folder, launcher, "finish").status is Status.COMPLETED
    assert (folder / "worker-1.log").exists()


def test_files_of_the_attempt_hold_no_token(tmp_path: Path, launcher: str) -> None:
    with fake_attempt(tmp_path, launcher, "finish") as attempt:
        attempt.run()
        assert attempt.assignment.home is not None
        token = attempt.assignment.home.token
    assert {"assignment.json", "plan.json", "journal.jsonl"} <= {path.name for path in tmp_path.iterdir()}
    assert not [path for path in tmp_path.iterdir() if token in path.read_text()]


@pytest.mark.parametrize(
    ("mode", "status", "reason"),
    [
        ("raise", Status.FAILED, "worker 1: ValueError: all is lost"),
        ("diverge", Status.DIVERGED, "worker 1: the loss is not finite at step 17"),
        ("memory", Status.OUT_OF_MEMORY, "worker 1: MemoryError"),
        ("disagree", Status.DIVERGED, "worker 1: the workers' weights do not agree"),
        (
            "raise-in-silence",
            Status.FAILED,
            (
                "worker 1 ended without handing in its result (exit code 1), in phase compute at step 17: "
                "ValueError: only my log knows"
            ),
        ),
        (
            "import-error",
            Status.FAILED,
            (
                "worker 1 ended without handing in its result (exit code 1), before it called home: "
                "ModuleNotFoundError: No module named 'nowhere'"
            ),
        ),
        (
            "exit-0",
            Status.FAILED,
            "worker 1 ended without handing in its result (exit code 0), in phase compute at step 17",
        ),
        (
            "exit-3",
            Status.FAILED,
            "worker 1 ended without handing in its result (exit code 3), in phase compute at step 17",
        ),
        (
            "kill",
            Status.FAILED,
            "worker 1 ended without handing in its result (killed by SIGKILL), in phase compute at step 17",
        ),
    ],
)
def test_a_worker_that_ends_badly(tmp_path: Path, launcher: str, mode: str, status: Status, reason: str) -> None:
    outcome = run(tmp_path, launcher, mode)
    assert (outcome.status, outcome.reason) == (status, reason)
    assert outcome.wall_time_s < 60


@pytest.mark.parametrize(("told", "status"), [(4, Status.OUT_OF_MEMORY), (3, Status.FAILED)])
def test_a_kernel_that_kills_on_another_host(tmp_path: Path, launcher: str, told: int, status: Status) -> None:
    with fake_attempt(tmp_path, launcher, "kill") as attempt:
        attempt.bring = lambda *_: {attempt.assignment.layout.places[1].host: told}
        assert attempt.run().status is status


def test_a_stopped_worker_is_named_before_the_stall_time_out(tmp_path: Path, launcher: str) -> None:
    outcome = run(tmp_path, launcher, "stop", stall_timeout_s=100.0)
    assert outcome.status is Status.STALLED
    assert outcome.reason.startswith("worker 1 (in phase compute at step 17) is stopped: process ")
    assert outcome.wall_time_s < 60


def test_a_hang_in_start_up_names_phase_and_worker(tmp_path: Path, launcher: str) -> None:
    outcome = run(tmp_path, launcher, "hang-start", startup_timeout_s=10.0)
    assert (outcome.status, outcome.reason) == (
        Status.TIMEOUT,
        (
            "start-up took longer than startup_timeout_s (10 s): worker 1 (in phase build), "
            "while worker 0 (in phase broadcast)"
        ),
    )


def test_a_stall_names_the_worker_outside_the_collective(tmp_path: Path, launcher: str) -> None:
    outcome = run(tmp_path, launcher, "hang", stall_timeout_s=1.5)
    assert (outcome.status, outcome.reason) == (
        Status.STALLED,
        (
            "no progress for stall_timeout_s (1.5 s): worker 1 (in phase compute at step 17), "
            "while worker 0 (in phase exchange at step 17)"
        ),
    )


def test_a_worker_that_ignores_sigterm_is_killed_and_its_launcher_tidies_up(
    tmp_path: Path, launcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    # Tidying up may take longer than a second on a busy machine; who has done so is waited for no more.
    monkeypatch.setattr(processes, "_TIDY_S", 60.0)
    monkeypatch.setattr(processes, "_KILL_TIMEOUT_S", 60.0)
    outcome = run(tmp_path, launcher, "stubborn", stall_timeout_s=1.0, grace_s=0.02)
    assert list(temporary.iterdir()) == []
    assert outcome.status is Status.STALLED
    assert outcome.wall_time_s < 60


def test_a_hang_after_the_result_is_a_stall(tmp_path: Path, launcher: str) -> None:
    outcome = run(tmp_path, launcher, "teardown", stall_timeout_s=5.0)
    assert (outcome.status, outcome.reason) == (
        Status.STALLED,
        "no progress for stall_timeout_s (5 s): worker 1 (which has handed in its result and not ended)",
    )


def test_the_whole_time_is_limited(tmp_path: Path, launcher: str) -> None:
    outcome = run(tmp_path, launcher, "hang", timeout_s=10.0)
    assert outcome.status is Status.TIMEOUT
    assert outcome.reason.startswith("it took longer than timeout_s (10 s); worker 0 (in phase exchange")


def test_an_interruption_ends_it(tmp_path: Path, launcher: str) -> None:
    with fake_attempt(tmp_path, launcher, "hang") as attempt:
        outcome = attempt.run_and(lambda running: running.stop.set())
    assert (outcome.status, outcome.reason) == (Status.INTERRUPTED, "interrupted")


def test_a_log_that_grows_without_end_stays_small(tmp_path: Path, launcher: str) -> None:
    outcome = run(tmp_path, launcher, "print")
    assert outcome.status is Status.COMPLETED, outcome.reason
    log = tmp_path / "worker-1.log"
    assert log.stat().st_size < 32 * 2**20
    assert "of this log were dropped here" in log.read_text()


def test_a_child_in_a_session_of_its_own_is_ended(tmp_path: Path, launcher: str) -> None:
    outcome = run(tmp_path, launcher, "fork", grace_s=0.5)
    assert outcome.status is Status.COMPLETED, outcome.reason


def test_a_killed_launcher_is_not_blamed_on_a_worker(tmp_path: Path, launcher: str) -> None:
    with fake_attempt(tmp_path, launcher, "hang") as attempt:
        outcome = attempt.run_and(_kill_launcher)
    assert outcome.status is Status.FAILED
    assert outcome.reason == "the launcher ended (killed by SIGKILL) before its workers"


def _kill_launcher(attempt: FakeAttempt) -> None:
    pids = leftovers(attempt.assignment.attempt_id)
    os.kill(next(pid for pid in pids if os.getsid(pid) == pid), signal.SIGKILL)


def test_a_full_disk_ends_the_run_and_keeps_the_journal(
    tmp_path: Path, launcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, journal = os.write, tmp_path / "journal.jsonl"

    def write(descriptor: int, content: bytes) -> int:
        if b'"result"' in bytes(content):
            whole(descriptor, bytes(content)[:10])
            raise OSError(28, "No space left on device")
        return whole(descriptor, content)

    monkeypatch.setattr("dlbench.launch.reception.os.write", write)
    outcome = run(tmp_path, launcher, "finish")
    assert (outcome.status, outcome.reason) == (
        Status.FAILED,
        "the journal cannot be written: No space left on device",
    )
    assert {json.loads(line)["kind"] for line in journal.read_text().splitlines()} <= {"steps", "epoch"}


def test_a_launcher_that_is_not_there(tmp_path: Path, launcher: str) -> None:
    with fake_attempt(tmp_path, launcher, "finish") as attempt:
        attempt.plan = attempt.plan.model_copy(update={"argv": (str(tmp_path / "nowhere"),)})
        outcome = attempt.run()
    assert outcome.status is Status.FAILED
    assert outcome.reason.startswith("the launcher cannot be started: ")
    assert outcome.exit_code is None


def test_an_error_of_the_observer_leaves_nothing_running(tmp_path: Path, launcher: str) -> None:
    with fake_attempt(tmp_path, launcher, "hang") as attempt:
        attempt.seen = _Broken()
        with pytest.raises(RuntimeError, match="the screen is gone"):
            attempt.run()
        assert leftovers(attempt.assignment.attempt_id) == []


class _Broken(list):  # type: ignore[type-arg]
    def append(self, _: object) -> None:
        time.sleep(0.3)
        raise RuntimeError("the screen is gone")
