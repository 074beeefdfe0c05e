"""How an attempt ended, decided from all that is known at its end. Pure: users live by the reasons written here."""

import math
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dlbench.launch.logs import says_crash
from dlbench.launch.watch import Termination, early_end
from dlbench.records.outcome import Status, says_out_of_memory
from dlbench.telemetry.attempt_session import WorkerView
from dlbench.telemetry.failure import WorkerError

# Errors of workers whose peer has failed: never the first cause where there is another.
_FOLLOWERS = re.compile(
    r"Horovod has been shut ?down|HorovodInternalError|MPI_ERR_PROC_FAILED|MPI_ERR_REVOKED|Connection reset by peer"
    r"|ConnectionResetError|ConnectionAbortedError|BrokenPipeError|Broken pipe|Socket closed|Connection closed by peer"
    # MPI_ERR_UNKNOWN: so mpi4py reports a broken connection to a peer.
    r"|\berror code: 14$"
    r"|^SystemExit\b|^KeyboardInterrupt\b",
    re.IGNORECASE,
)
# What Horovod makes of a peer's end stands in the middle of a long traceback of TensorFlow's.
_SHUT_DOWN = re.compile(r"Horovod has been shut ?down", re.IGNORECASE)
_SIGNAL_BASE = 128
_FINE = "exit code 0"
# MPI_ERR_UNKNOWN: how Open MPI ends a process whose connection to another has broken.
_PEER_LOST = 14
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


@dataclass(frozen=True)
class Evidence:
    """All that is known when the processes have ended and the streams are drained.

    Attributes:
        views: What is known of the workers, by rank.
        exit_code: The launcher's; negative: ended by that signal; None where it could not be started.
        launcher_pid: The launcher's process; that of the only worker where nothing is between.
        termination: Why dlbench ended the attempt, or None where it ended by itself.
        ended_at: When dlbench began to end what was left; what closed later was alive until then.
        failure: Why rows could not be kept, or "".
        was_oom: Whether the kernel, here or on a worker's host, has killed processes for lack of memory meanwhile.
        rank_exit: What the launcher says of the process that failed first: (rank, "exit code" or "signal", number); the
            rank is None where it knows only how.
        lost_host: The host that the launcher reports as lost, "" where it does not name it; None where none is lost.
        hosts: The address of each process's host, by rank.
        unstarted_host: The host on which the launcher could not begin, and the exit code it had there; else None.
        unreachable: Hosts between which MPI has found no way, as the launcher's log says, or "".
        lines: The telling line of each process's log, by rank.
        launcher_line: The telling line of the launcher's log.
        remaining: Processes that could not be ended.
        memory_limit_bytes: What each process was allowed to take; None where it was not limited.
    """

    views: Mapping[int, WorkerView]
    exit_code: int | None
    launcher_pid: int = 0
    termination: Termination | None = None
    ended_at: float = math.inf
    failure: str = ""
    was_oom: bool = False
    rank_exit: tuple[int | None, str, int] | None = None
    lost_host: str | None = None
    hosts: Mapping[int, str] = field(default_factory=dict)
    unstarted_host: tuple[str, int] | None = None
    unreachable: str = ""
    lines: Mapping[int, str] = field(default_factory=dict)
    launcher_line: str = ""
    remaining: tuple[int, ...] = ()
    memory_limit_bytes: int | None = None


def has_killed_elsewhere(evidence: Evidence, oom_kills: Mapping[str, int]) -> bool:
    """Return whether the kernel of another host has killed processes for lack of memory since a worker first called.

    Args:
        evidence: What the workers sent when they connected, and where they are.
        oom_kills: How many each host's kernel has killed by now, by address.
    """
    return any(
        view.oom_kills is not None and oom_kills.get(evidence.hosts[rank], 0) > view.oom_kills
        for rank, view in evidence.views.items()
    )


def decide(evidence: Evidence) -> tuple[Status, str]:
    """Return the status of an attempt and the reason; the reason is empty where it is completed."""
    rules: tuple[Callable[[Evidence], tuple[Status, str] | None], ...] = (
        _journal_failed,
        _diverged,
        _completed,
        _interrupted,
        _out_of_memory,
        _reported_error,
        _ended_by_us,
    )
    found = next((answer for rule in rules if (answer := rule(evidence))), None)
    status, reason = found or (Status.FAILED, _unexplained(evidence) + _perhaps_memory(evidence))
    if not evidence.remaining:
        return status, reason
    pids = ", ".join(map(str, evidence.remaining))
    note = f"processes that SIGKILL does not end: {pids}"
    return (Status.FAILED if status is Status.COMPLETED else status), f"{reason}; {note}" if reason else note


def _journal_failed(evidence: Evidence) -> tuple[Status, str] | None:
    return (Status.FAILED, evidence.failure) if evidence.failure else None


def _diverged(evidence: Evidence) -> tuple[Status, str] | None:
    """Weights differ between workers, a loss is not finite, or a worker says so."""
    for error in _errors(evidence):
        if error.status == Status.DIVERGED:
            return Status.DIVERGED, _said(error)
    for rank, view in evidence.views.items():
        result = view.result or {}
        if result.get("agreement") == "no":
            difference = result.get("max_difference")
            size = f" (largest difference {difference:g})" if isinstance(difference, int | float) else ""
            return Status.DIVERGED, f"worker {rank}: the workers' weights do not agree{size}"
        for name in ("train_loss", "validation_loss"):
            if isinstance(result.get(name), float) and not math.isfinite(result[name]):
                return Status.DIVERGED, f"worker {rank}: {name} is not finite ({result[name]})"
    return None


def _completed(evidence: Evidence) -> tuple[Status, str] | None:
    is_whole = all(view.result is not None and view.has_left for view in evidence.views.values())
    return (Status.COMPLETED, "") if is_whole and evidence.exit_code == 0 and not _errors(evidence) else None


def _interrupted(evidence: Evidence) -> tuple[Status, str] | None:
    termination = evidence.termination
    return (
        (termination.status, termination.reason) if termination and termination.status is Status.INTERRUPTED else None
    )


def _out_of_memory(evidence: Evidence) -> tuple[Status, str] | None:
    for error in _errors(evidence):
        if error.out_of_memory:
            return Status.OUT_OF_MEMORY, _said(error)
    if (found := _out_of_memory_in_log(evidence)) is not None:
        return found
    number, rank = _signal_of(evidence)
    if not evidence.was_oom or number != signal.SIGKILL or evidence.termination is not None:
        return None
    who = "a worker" if rank is None else f"worker {rank}"
    return Status.OUT_OF_MEMORY, f"the kernel killed {who} for lack of memory (SIGKILL)"


def _out_of_memory_in_log(evidence: Evidence) -> tuple[Status, str] | None:
    """Return out-of-memory where the log of a worker that ended without a word says so: libraries end processes."""
    rank = None if evidence.termination is not None else _first_to_fail(evidence)
    line = evidence.lines.get(rank, "") if rank is not None else ""
    if rank is None or evidence.views[rank].errors or not says_out_of_memory(line):
        return None
    return Status.OUT_OF_MEMORY, f"worker {rank}: {line}"


def _reported_error(evidence: Evidence) -> tuple[Status, str] | None:
    errors = _errors(evidence)
    if not errors:
        return None
    causes = [error for error in errors if not _is_follower(error)]
    is_by_itself = evidence.termination is None
    if not causes and (_has_silent_cause(evidence, errors) or (is_by_itself and _launcher_was_killed(evidence))):
        return None  # a worker that reported nothing failed first, or the launcher, and these are its followers
    return Status.FAILED, _said((causes or errors)[0]) + _without_a_way(evidence)


def _without_a_way(evidence: Evidence) -> str:
    """Say between which hosts MPI has found no way: what a worker gets to hear is an "internal error"."""
    return f": MPI finds no way between {evidence.unreachable}" if evidence.unreachable else ""


def _has_silent_cause(evidence: Evidence, followers: list[WorkerError]) -> bool:
    """Whether another worker than those that reported an error failed before them, without a report."""
    rank = _first_to_fail(evidence)
    if rank is None or rank in {error.worker for error in followers}:
        return False
    is_told = evidence.rank_exit is not None and evidence.rank_exit[0] == rank
    closed_at = evidence.views[rank].closed_at
    return is_told or (closed_at is not None and closed_at < followers[0].at)


def _ended_by_us(evidence: Evidence) -> tuple[Status, str] | None:
    termination = evidence.termination
    if termination is None or not termination.reason:
        return None
    silent = [line for rank, line in evidence.lines.items() if line and not evidence.views[rank].has_connected]
    return termination.status, f"{termination.reason}; its log says: {silent[0]}" if silent else termination.reason


def _unexplained(evidence: Evidence) -> str:
    """Say which worker ended how, and quote the line of the logs that says most."""
    rank = _first_to_fail(evidence)
    if rank is None:
        quoted = next((line for line in evidence.lines.values() if line), "") or evidence.launcher_line
        return _joined(f"the launcher ended ({_how(evidence.exit_code)}){_too_early(evidence)}", quoted)
    view = evidence.views[rank]
    how = _how_of(rank, evidence)
    if view.result is not None and view.has_left:
        return _joined(
            f"worker {rank} handed in its result and then ended wrongly ({how})", evidence.lines.get(rank, "")
        )
    if how == _FINE and view.has_connected:
        return early_end(view, how)
    quoted = evidence.lines.get(rank, "") or ("" if view.has_connected else evidence.launcher_line)
    return _joined(early_end(view, how), quoted)


def _perhaps_memory(evidence: Evidence) -> str:
    """Say that a crash under a memory limit may be one: not every library looks at what an allocation gave it."""
    limit = evidence.memory_limit_bytes
    if limit is None or _signal_of(evidence)[0] not in (signal.SIGSEGV, signal.SIGBUS):
        return ""
    return f"; it could take {limit / 2**20:.0f} MiB (memory_limit_bytes), and libraries crash where they get no more"


def _how_of(rank: int, evidence: Evidence) -> str:
    if evidence.rank_exit is not None and evidence.rank_exit[0] in (rank, None):
        return _rank_how(evidence.rank_exit)
    if evidence.lost_host is not None:
        return f"the host {evidence.lost_host or evidence.hosts[rank]} is down, or cannot be reached"
    if evidence.unstarted_host:
        host, exit_code = evidence.unstarted_host
        return f"its launcher could not begin on the host {host}, {_how(exit_code)}"
    if evidence.rank_exit is None and not _is_over_a_lost_peer(evidence):
        return _how(evidence.exit_code)
    return "its launcher does not say how"


def _too_early(evidence: Evidence) -> str:
    is_early = any(view.has_connected and not view.has_left for view in evidence.views.values())
    return " before its workers" if is_early else ""


def _first_to_fail(evidence: Evidence) -> int | None:
    """Return the worker that failed first: as the launcher says, else by its connection; None for the launcher.

    One that only reported a peer's end is not the first where another reported nothing, nor is one that Open MPI
    has ended because the connection to another broke: over a network that comes first.
    """
    followers = {error.worker for error in _errors(evidence)}
    crashed = [rank for rank, line in evidence.lines.items() if says_crash(line)]
    if crashed and (_is_over_a_lost_peer(evidence) or _is_of_an_unnamed_crash(evidence)):
        return crashed[0]
    named = evidence.rank_exit
    if named is not None and named[0] in evidence.views.keys() - followers and not _is_over_a_lost_peer(evidence):
        return named[0]
    if _launcher_was_killed(evidence):
        return None
    if lost_with_host := [rank for rank in evidence.views if _is_on_the_lost_host(rank, evidence)]:
        return lost_with_host[0]
    lost = [view for view in evidence.views.values() if view.result is None or not view.has_left]
    lost = [view for view in lost if view.rank not in followers] or lost
    gone = sorted((v for v in lost if v.closed_at and v.closed_at <= evidence.ended_at), key=lambda v: v.closed_at or 0)
    silent = [view for view in lost if not view.has_connected]
    telling = [view for view in silent if evidence.lines.get(view.rank)]
    return next((view.rank for view in (*telling, *gone, *silent)), None)


def _is_on_the_lost_host(rank: int, evidence: Evidence) -> bool:
    """Whether a worker is of the host that the launcher has lost, or not begun on: it says the name or the address."""
    lost = evidence.lost_host or (evidence.unstarted_host or ("",))[0]
    return bool(lost) and lost in (evidence.views[rank].host, evidence.hosts.get(rank, ""))


def _is_over_a_lost_peer(evidence: Evidence) -> bool:
    """Whether Open MPI has ended a process because a connection broke, and the launcher knows of no earlier end."""
    if evidence.rank_exit is None:
        return evidence.exit_code == _PEER_LOST
    return evidence.rank_exit[1:] == ("exit code", _PEER_LOST)


def _is_of_an_unnamed_crash(evidence: Evidence) -> bool:
    """Whether the launcher reports a crash, and not whose it was."""
    rank, kind, number = evidence.rank_exit or (0, "", 0)
    return rank is None and kind == "signal" and number in _CRASHES


def _launcher_was_killed(evidence: Evidence) -> bool:
    """Whether a signal ended the launcher itself: it would have reported the end of a process that it started.

    Nothing is between where there is one worker. A worker on another host may have the launcher's number there.
    """
    called = [view for view in evidence.views.values() if view.has_connected]
    is_between = len(evidence.views) > 1 or any(view.pid != evidence.launcher_pid for view in called)
    return bool(called) and is_between and (evidence.exit_code or 0) < 0


def _errors(evidence: Evidence) -> list[WorkerError]:
    """Return the errors in the order of their arrival; those after our own signal only say that it arrived."""
    errors = [error for view in evidence.views.values() for error in view.errors]
    return sorted((error for error in errors if error.at <= evidence.ended_at), key=lambda error: error.at)


def _is_follower(error: WorkerError) -> bool:
    if _SHUT_DOWN.search(error.traceback):
        return True
    return bool(_FOLLOWERS.search(error.error) or _FOLLOWERS.search(_last_line(error.traceback)))


def _said(error: WorkerError) -> str:
    text = error.error.strip() or _last_line(error.traceback) or "an error without a message"
    return f"worker {error.worker}: {text}"


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _signal_of(evidence: Evidence) -> tuple[int, int | None]:
    """Return the signal that ended the first worker to fail and its rank; 0 where it was none."""
    if evidence.rank_exit is not None:
        rank, kind, number = evidence.rank_exit
        who = _first_to_fail(evidence) if rank is None else rank
        return (number % _SIGNAL_BASE if kind == "signal" else _signal_in(number)), who
    return _signal_in(evidence.exit_code or 0), _first_to_fail(evidence)


def _signal_in(exit_code: int) -> int:
    """Return the signal that an exit code stands for, in Python's way (-9) or a shell's (137); 0 where for none."""
    number = -exit_code if exit_code < 0 else exit_code - _SIGNAL_BASE
    return number if 0 < number < signal.NSIG else 0


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "no exit code"
    number = _signal_in(exit_code)
    return f"killed by {_signal_name(number)}" if number else f"exit code {exit_code}"


def _rank_how(rank_exit: tuple[int | None, str, int]) -> str:
    _, kind, number = rank_exit
    return f"killed by {_signal_name(number)}" if kind == "signal" else _how(number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _joined(reason: str, quoted: str) -> str:
    return f"{reason}: {quoted}" if quoted else reason
