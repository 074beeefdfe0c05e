"""Real processes that end well, badly, or not at all: right status, a reason that names the culprit, nothing left.

Attempts of one table are made side by side: each is mostly a wait.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from dlbench.launch import processes
from dlbench.launch.processes import leftovers
from dlbench.records.outcome import Outcome, Status, write_outcome
from tests.functional.attempt import FAKE_WORKER, FakeAttempt, fake_attempt

# Attempts at the same time: each has three processes.
AT_ONCE = 6

both_launchers = pytest.mark.parametrize("launcher", ["local", pytest.param("mpirun", marks=pytest.mark.mpi)])
has_torch = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")


class Row(NamedTuple):
    """How the second worker behaves, under which limits, and how the attempt has to end; the reason's beginning."""

    mode: str
    status: Status
    reason: str
    limits: Mapping[str, float] = {}


ENDED = "worker 1 exited before sending its result"
AT_17 = "in phase compute at step 17"
ROWS = (
    Row("raise", Status.FAILED, "worker 1: ValueError: all is lost"),
    Row("diverge", Status.DIVERGED, "worker 1: the loss is not finite at step 17"),
    Row("memory", Status.OUT_OF_MEMORY, "worker 1: MemoryError"),
    Row("disagree", Status.DIVERGED, "worker 1: the workers' weights do not agree"),
    Row("raise-in-silence", Status.FAILED, f"{ENDED} (exit code 1), {AT_17}: ValueError: only my log knows"),
    Row(
        "import-error",
        Status.FAILED,
        f"{ENDED} (exit code 1), before it connected: ModuleNotFoundError: No module named 'nowhere'",
    ),
    Row("exit-0", Status.FAILED, f"{ENDED} (exit code 0), {AT_17}"),
    Row("exit-3", Status.FAILED, f"{ENDED} (exit code 3), {AT_17}"),
    Row("kill", Status.FAILED, f"{ENDED} (killed by SIGKILL), {AT_17}"),
    # Before the stall time-out.
    Row("stop", Status.STALLED, f"worker 1 ({AT_17}) is stopped: process ", {"stall_timeout_s": 100.0}),
    Row(
        "hang-start",
        Status.TIMEOUT,
        "start-up took longer than startup_timeout_s (10 s): worker 1 (in phase build), "
        "while worker 0 (in phase broadcast)",
        {"startup_timeout_s": 10.0},
    ),
    Row(
        "hang",
        Status.STALLED,
        f"no progress for stall_timeout_s (1.5 s): worker 1 ({AT_17}), while worker 0 (in phase all_reduce at step 17)",
        {"stall_timeout_s": 1.5},
    ),
    Row(
        "teardown",
        Status.STALLED,
        "no progress for stall_timeout_s (5 s): worker 1 (which has sent its result and is still running)",
        {"stall_timeout_s": 5.0},
    ),
    Row(
        "hang",
        Status.TIMEOUT,
        "it took longer than timeout_s (10 s); worker 0 (in phase all_reduce",
        {"timeout_s": 10.0},
    ),
    # A child in a session of its own is ended.
    Row("fork", Status.COMPLETED, "", {"grace_s": 0.5}),
)

# Ends in these ways are a launcher's affair; the others are the same under any.
OF_LAUNCHERS = {"import-error", "exit-0", "exit-3", "kill", "stop", "fork"}
# Enough where each start takes seconds.
OF_SLOW_LAUNCHERS = {"kill"}


def run(folder: Path, launcher: str, mode: str, **limits: float) -> Outcome:
    with fake_attempt(folder, launcher, mode, **limits) as attempt:
        return attempt.run()


def kinds(folder: Path) -> list[tuple[int, str]]:
    lines = map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    return [(line["worker"], line["kind"]) for line in lines]


@both_launchers
def test_a_good_end_in_a_folder_with_an_odd_name(tmp_path: Path, launcher: str) -> None:
    folder = tmp_path / 'a study\'s "runs" 한글\n$HOME;x, -x 100%'
    folder.mkdir()
    with fake_attempt(folder, launcher, "finish") as attempt:
        outcome = attempt.run()
        assert attempt.assignment.endpoint is not None
        token = attempt.assignment.endpoint.token
    assert (outcome.status, outcome.reason, outcome.exit_code) == (Status.COMPLETED, "", 0)
    assert sorted(kinds(folder)) == sorted((w, k) for w in (0, 1) for k in ("steps", "epoch", "result", "bye"))
    write_outcome(folder, outcome)
    assert Outcome.model_validate_json((folder / "outcome.json").read_text()) == outcome
    names = {"assignment.json", "plan.json", "journal.jsonl", "worker-1.log"}
    assert names <= {path.name for path in folder.iterdir()}
    assert not [path for path in folder.iterdir() if token in path.read_text()]


def slow_to_start(row: Row) -> Row:
    """Return the row with a time limit that a launcher keeps which loads PyTorch itself, beside two others."""
    if "startup_timeout_s" not in row.limits:
        return row
    return row._replace(reason=row.reason.replace("(10 s)", "(40 s)"), limits={"startup_timeout_s": 40.0})


# Ends that are the same under any launcher are proven by the local one: under others they are for the soak, as are most
# under PyTorch's, which takes seconds to load.
@pytest.mark.parametrize(
    ("launcher", "rows"),
    [
        ("local", ROWS),
        pytest.param("mpirun", [row for row in ROWS if row.mode in OF_LAUNCHERS], marks=pytest.mark.mpi),
        pytest.param(
            "mpirun",
            [row for row in ROWS if row.mode not in OF_LAUNCHERS],
            marks=(pytest.mark.mpi, pytest.mark.soak),
        ),
        pytest.param("torchrun", [row for row in ROWS if row.mode in OF_SLOW_LAUNCHERS], marks=has_torch),
        pytest.param(
            "torchrun",
            [slow_to_start(row) for row in ROWS if row.mode not in OF_SLOW_LAUNCHERS],
            marks=(has_torch, pytest.mark.soak),
        ),
    ],
    ids=["local", "mpirun", "mpirun-others", "torchrun", "torchrun-others"],
)
def test_every_way_to_end_has_its_status_and_reason(tmp_path: Path, launcher: str, rows: Sequence[Row]) -> None:

    def outcome_of(place: int) -> Outcome:
        folder = tmp_path / str(place)
        folder.mkdir()
        return run(folder, launcher, rows[place].mode, **rows[place].limits)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(outcome_of, range(len(rows))))
    for row, outcome in zip(rows, outcomes, strict=True):
        assert outcome.status is row.status, (row, outcome)
        assert outcome.reason.startswith(row.reason), (row, outcome)
        assert outcome.wall_time_s < 90, (row, outcome)


@pytest.mark.parametrize(
    "launcher",
    [
        "local",
        pytest.param("mpirun", marks=pytest.mark.mpi),
        pytest.param("torchrun", marks=(has_torch, pytest.mark.soak)),
    ],
)
def test_an_interrupted_attempt_is_called_so(tmp_path: Path, launcher: str) -> None:
    with fake_attempt(tmp_path, launcher, "hang") as attempt:
        outcome = attempt.run_and(lambda running: running.stop.set())
    assert (outcome.status, outcome.reason) == (Status.INTERRUPTED, "interrupted")


def test_an_attempt_whose_processes_are_asked_to_end_with_dlbench_is_interrupted(tmp_path: Path) -> None:
    """As `scancel` and a shutdown ask all of them at once."""

    def ask(running: FakeAttempt) -> None:
        kill_launcher(running, signal.SIGTERM)
        running.stop.set()

    with fake_attempt(tmp_path, "local", "hang") as attempt:
        outcome = attempt.run_and(ask)
    assert (outcome.status, outcome.reason) == (Status.INTERRUPTED, "interrupted")


@pytest.mark.parametrize(
    "launcher",
    [
        "local",
        pytest.param("mpirun", marks=pytest.mark.mpi),
        pytest.param("torchrun", marks=(has_torch, pytest.mark.soak)),
    ],
)
def test_a_killed_launcher_is_not_blamed_on_a_worker(tmp_path: Path, launcher: str) -> None:
    with fake_attempt(tmp_path, launcher, "hang") as attempt:
        outcome = attempt.run_and(kill_launcher)
    assert outcome.status is Status.FAILED
    assert outcome.reason == "the launcher ended (killed by SIGKILL) before its workers"


@both_launchers
@pytest.mark.parametrize("workers", [1, 2])
def test_a_launcher_killed_while_its_workers_start(tmp_path: Path, launcher: str, workers: int) -> None:
    with fake_attempt(tmp_path, launcher, "finish", workers=workers) as attempt:
        program = attempt.plan.argv.index(str(FAKE_WORKER))
        silent = (*attempt.plan.argv[:program], "-c", "import time; time.sleep(60)")
        attempt.plan = attempt.plan.model_copy(update={"argv": silent})
        killer = threading.Timer(1.0, kill_launcher, (attempt,))
        killer.start()
        outcome = attempt.run()
        killer.join()
    assert outcome.status is Status.FAILED
    is_direct = launcher == "local" and workers == 1
    early = "worker 0 exited before sending its result (killed by SIGKILL), before it connected"
    assert outcome.reason == (
        early if is_direct else "the launcher ended (killed by SIGKILL) before a worker connected"
    )


def kill_launcher(attempt: FakeAttempt, number: int = signal.SIGKILL) -> None:
    pids = leftovers(attempt.assignment.attempt_id)
    os.kill(next(pid for pid in pids if os.getsid(pid) == pid), number)


def test_an_mpirun_that_is_asked_to_end_is_not_blamed_on_a_worker_alone(tmp_path: Path) -> None:
    """It ends its workers, and says of one that SIGTERM ended it, or nothing at all."""
    with fake_attempt(tmp_path, "mpirun", "hang") as attempt:
        outcome = attempt.run_and(lambda running: kill_launcher(running, signal.SIGTERM))
    assert outcome.status is Status.FAILED
    assert "something has asked the launcher to end" in outcome.reason


@both_launchers
def test_a_worker_that_ignores_sigterm_is_killed_and_its_launcher_tidies_up(
    tmp_path: Path, launcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    # Tidying up may take longer than a second on a busy machine; once it has, nothing waits any longer.
    monkeypatch.setattr(processes, "_TIDY_S", 60.0)
    monkeypatch.setattr(processes, "_KILL_TIMEOUT_S", 60.0)
    outcome = run(tmp_path, launcher, "stubborn", stall_timeout_s=1.0, grace_s=0.02)
    assert list(temporary.iterdir()) == []
    assert outcome.status is Status.STALLED
    assert outcome.wall_time_s < 60


def test_collecting_from_other_hosts_is_no_time_of_the_run(tmp_path: Path) -> None:
    asked: list[bool] = []
    with fake_attempt(tmp_path, "local", "finish") as attempt:
        attempt.collect_remote = lambda assignment, folder, went_well: (asked.append(went_well), time.sleep(1.0), {})[
            -1
        ]
        began = time.monotonic()
        outcome = attempt.run()
    assert asked == [True]
    assert outcome.wall_time_s < time.monotonic() - began - 1.0


@pytest.mark.parametrize(("killed", "status"), [(4, Status.OUT_OF_MEMORY), (3, Status.FAILED)])
def test_a_kernel_that_kills_on_another_host(tmp_path: Path, killed: int, status: Status) -> None:
    with fake_attempt(tmp_path, "local", "kill") as attempt:
        attempt.collect_remote = lambda *_: {attempt.assignment.layout.places[1].host: killed}
        assert attempt.run().status is status


def test_a_log_that_grows_without_end_stays_small(tmp_path: Path) -> None:
    outcome = run(tmp_path, "local", "print")
    assert outcome.status is Status.COMPLETED, outcome.reason
    log = tmp_path / "worker-1.log"
    assert log.stat().st_size < 32 * 2**20
    assert "of this log were dropped here" in log.read_text()


def test_a_full_disk_ends_the_run_and_keeps_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, journal = os.write, tmp_path / "journal.jsonl"

    def write(descriptor: int, content: bytes) -> int:
        if b'"result"' in bytes(content):
            whole(descriptor, bytes(content)[:10])
            raise OSError(28, "No space left on device")
        return whole(descriptor, content)

    monkeypatch.setattr("dlbench.telemetry.journal.os.write", write)
    outcome = run(tmp_path, "local", "finish")
    assert outcome.status is Status.FAILED
    assert outcome.reason == "the journal cannot be written: No space left on device"
    assert {json.loads(line)["kind"] for line in journal.read_text().splitlines()} <= {"steps", "epoch"}


def test_a_launcher_that_is_not_there(tmp_path: Path) -> None:
    with fake_attempt(tmp_path, "local", "finish") as attempt:
        attempt.plan = attempt.plan.model_copy(update={"argv": (str(tmp_path / "nowhere"),)})
        outcome = attempt.run()
    assert outcome.status is Status.FAILED
    assert outcome.reason.startswith("the launcher cannot be started: ")
    assert outcome.exit_code is None


@both_launchers
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
