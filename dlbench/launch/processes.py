"""The processes of an attempt, found whoever their parent is by now, and ended whatever they do about it.

Open MPI gives its processes groups of their own, a child may open its own session, and orphans get another
parent. So a process belongs to an attempt if it is in the launcher's session *or* carries the attempt's id in the
environment it was started with.
"""

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlbench.records.assignment import ATTEMPT_VARIABLE
from dlbench.telemetry.attempt_session import WorkerView

_PROC = Path("/proc")
_POLL_S = 0.02
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
# A process that does not end for so long after SIGKILL waits in the kernel for a device, and cannot be ended.
_KILL_TIMEOUT_S = 5.0
# A launcher whose processes are gone removes their shared memory and session folders, unless it is killed with them.
_TIDY_S = 1.0


@dataclass(frozen=True)
class ProcessState:
    """One process as the kernel shows it: state letter (`R`, `S`, `D`, `T`, `Z`, ...) and session."""

    pid: int
    letter: str
    session: int

    @property
    def is_alive(self) -> bool:
        """Whether it still runs or could: a zombie only waits for its parent to look."""
        return self.letter not in "ZXx"

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it."""
        return self.letter == "T"


@dataclass(frozen=True)
class WorkerStates:
    """An attempt's worker processes as the kernel shows them: ranks that are stopped, and ranks that are gone."""

    stopped: frozenset[int] = frozenset()
    gone: frozenset[int] = frozenset()


def state(pid: int) -> ProcessState | None:
    """Return the state of a process, or None where there is none.

    Raises:
        OSError: No descriptor is left to look with; so do all below that look.
    """
    fields = _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
    return ProcessState(pid, fields[0], int(fields[3])) if len(fields) > 3 else None


def has_attempt_id(pid: int, attempt_id: str) -> bool:
    """Whether a process was started with the attempt's id in its environment."""
    return f"{ATTEMPT_VARIABLE}={attempt_id}".encode() in _read(pid, "environ").split(b"\0")


def _read(pid: int, name: str) -> bytes:
    """Return a file of a process; nothing where there is no such process, or it is another user's."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError as error:
        if error.errno in _NO_DESCRIPTOR:
            raise
        return b""


def worker_states(attempt_id: str, views: Mapping[int, WorkerView], host: str) -> WorkerStates:
    """Return which of an attempt's worker processes on this host are stopped or gone.

    Process ids are reused, and a worker on another host may have the id of a process here: a process counts as a
    worker's only if the worker is on this host and the process carries the attempt's id.
    """
    here = {rank: view.pid for rank, view in views.items() if view.pid > 0 and view.host == host}
    states = {rank: state(pid) if has_attempt_id(pid, attempt_id) else None for rank, pid in here.items()}
    return WorkerStates(
        stopped=frozenset(rank for rank, seen in states.items() if seen is not None and seen.is_stopped),
        gone=frozenset(rank for rank, seen in states.items() if seen is None or not seen.is_alive),
    )


def leftovers(attempt_id: str, session: int | None = None) -> list[int]:
    """Return the living processes of an attempt, by its id and, if given, by the launcher's session."""
    pids = [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdecimal()]
    alive = (seen for pid in pids if pid != os.getpid() and (seen := state(pid)) is not None and seen.is_alive)
    return [seen.pid for seen in alive if seen.session == session or has_attempt_id(seen.pid, attempt_id)]


def wait_for(pid: int, seconds: float) -> None:
    """Wait so long, but no longer than until a process has ended; where that cannot be watched, all the time."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:  # no descriptor is left
        time.sleep(seconds)
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        ended.poll(1000 * seconds)
    finally:
        os.close(descriptor)


def end(pids: Iterable[int], grace_s: float) -> list[int]:
    """End processes, stopped ones too, within one shared deadline; return those that could not be ended."""
    there = [pid for pid in pids if state(pid) is not None]
    return end_all(lambda: [pid for pid in there if (seen := state(pid)) is not None and seen.is_alive], grace_s)


def end_all(find: Callable[[], list[int]], grace_s: float, launcher: int = 0) -> list[int]:
    """End what `find` finds, and what it finds then: SIGTERM, one deadline for all, SIGKILL until none is left.

    Args:
        find: Returns the living processes.
        grace_s: Time between SIGTERM and SIGKILL.
        launcher: A process that gets a moment more, to tidy up after the others.

    Returns:
        The processes that could not be ended; empty but for those stuck in the kernel.
    """
    deadline = time.monotonic() + grace_s
    asked: set[int] = set()
    while (pids := _patiently(find)) and time.monotonic() < deadline:
        _send({pid for pid in pids if pid not in asked}, signal.SIGTERM, signal.SIGCONT)
        asked |= set(pids)
        time.sleep(_POLL_S)
    killing_at = time.monotonic()
    while pids and time.monotonic() < killing_at + _KILL_TIMEOUT_S:
        is_tidying = time.monotonic() < killing_at + _TIDY_S
        _send([pid for pid in pids if not (is_tidying and pid == launcher)], signal.SIGKILL)
        time.sleep(_POLL_S)
        pids = _patiently(find)
    return pids


def _patiently(find: Callable[[], list[int]]) -> list[int]:
    """Return what `find` finds; while no descriptor is left to look with, wait for one."""
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    while True:
        try:
            return find()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def _send(pids: Iterable[int], *signals: signal.Signals) -> None:
    for pid in pids:
        for number in signals:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
