"""Processes of an attempt are found and ended whatever they do about it."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from dlbench.launch.processes import end, leftovers, state, wait_for

SLEEP = "import time; print(flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP


@pytest.fixture
def attempt_id() -> Iterator[str]:
    made = secrets.token_hex(8)
    yield made
    for pid in leftovers(made):
        os.kill(pid, signal.SIGKILL)


def start(attempt_id: str, code: str = SLEEP) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own and wait until it runs its code."""
    program = [sys.executable, "-c", code]
    env = os.environ | {"DLBENCH_ATTEMPT": attempt_id}
    child = subprocess.Popen(program, env=env, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


def test_only_the_attempt_s_own_are_found(attempt_id: str) -> None:
    mine, other = start(attempt_id), start(attempt_id + "0")
    try:
        assert leftovers(attempt_id) == [mine.pid]
        assert set(leftovers(attempt_id, session=other.pid)) == {mine.pid, other.pid}
    finally:
        for child in (mine, other):
            child.kill()
            child.wait()
    assert leftovers(attempt_id) == []


@pytest.mark.parametrize("code", [SLEEP, STUBBORN])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_all_processes_end_within_one_grace_period(attempt_id: str, code: str, is_stopped: bool) -> None:
    children = [start(attempt_id, code) for _ in range(4)]
    if is_stopped:
        for child in children:
            os.kill(child.pid, signal.SIGSTOP)
    started = time.monotonic()
    assert end(leftovers(attempt_id), grace_s=1.0) == []
    assert time.monotonic() - started < 10
    assert leftovers(attempt_id) == []
    expected = signal.SIGKILL if code is STUBBORN else signal.SIGTERM
    assert [child.wait(60) for child in children] == [-expected] * 4


def test_an_orphan_is_found(attempt_id: str) -> None:
    born = f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}], stdout=subprocess.PIPE, start_new_session=True)"
    child = start(attempt_id, f"import subprocess, sys; {born}.stdout.readline(); print(flush=True)")
    child.wait(60)
    (orphan,) = leftovers(attempt_id)
    assert orphan != child.pid
    assert end([orphan], grace_s=2.0) == []
    assert leftovers(attempt_id) == []


def test_a_zombie_is_no_leftover(attempt_id: str) -> None:
    child = start(attempt_id, "print(flush=True)")
    deadline = time.monotonic() + 10
    while (seen := state(child.pid)) and seen.letter != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seen is not None
    assert (seen.letter, leftovers(attempt_id, session=child.pid)) == ("Z", [])
    child.wait()


def test_a_process_that_has_ended_counts_as_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert state(child.pid) is None
    assert end([child.pid], grace_s=1.0) == []


def test_waiting_ends_with_the_process_or_with_the_time(attempt_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    child = start(attempt_id)
    waited = [seconds_of_waiting(child.pid, 0.2)]
    child.kill()
    waited.append(seconds_of_waiting(child.pid, 60.0))

    def no_descriptor(pid: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", no_descriptor)
    waited.append(seconds_of_waiting(child.pid, 0.2))
    child.wait()
    assert waited[0] >= 0.2
    assert waited[1] < 30
    assert waited[2] >= 0.2


def seconds_of_waiting(pid: int, seconds: float) -> float:
    started = time.monotonic()
    wait_for(pid, seconds)
    return time.monotonic() - started
