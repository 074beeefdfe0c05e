"""How an attempt ended, decided from all that is known at its end. Pure: users live by the reasons written here."""

import math
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dlbench.grouping import by_key
from dlbench.launch.logs import LauncherLog, ProcessExit, says_crash
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
    # A process that starts MPI without its launcher is alone.
    r"|MPI ranks were expected to connect"
    r"|^SystemExit\b|^KeyboardInterrupt\b",
    re.IGNORECASE,
)
# What Horovod makes of a peer's end stands in the middle of a long traceback of TensorFlow's.
_SHUT_DOWN = re.compile(r"Horovod has been shut ?down", re.IGNORECASE)
_SIGNAL_BASE = 128
_FINE = "exit code 0"
_UNKNOWN = "its launcher does not report how"
# A worker that loses its peer ends within milliseconds; connections that close within this time may do so in any order.
_AT_ONCE_S = 0.1
# Workers that a doubt names.
_MOST_NAMED = 4
_ASKED = "something has asked the launcher to end"
# MPI_ERR_UNKNOWN: how Open MPI ends a process whose connection to another has broken.
_PEER_LOST = 14
# What an exit code beyond 128 may stand for: programs use others of them for their own ends.
_DEADLY = frozenset({
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS),
    *(signal.SIGFPE, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV, signal.SIGUSR2, signal.SIGPIPE, signal.SIGALRM),
    *(signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS),
})  # fmt: skip
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


@dataclass(frozen=True)
class Evidence:
    """All that is known when the processes have ended and the streams are drained.

    Attributes:
        views: What is known of the workers, by rank.
        hosts: The address of each process's host, by rank.
        exit_code: The launcher's; negative: ended by that signal; None where it could not be started.
        is_direct: Whether the process that dlbench has started is the only worker itself, with no launcher between.
        launcher_log: What the launcher's log says.
        lines: The telling line of each process's log, by rank.
        termination: Why dlbench ended the attempt, or None where it ended by itself.
        ended_at: When dlbench began to end what was left; what closed later was alive until then.
        failure: Why rows could not be kept, or "".
        was_oom: Whether the kernel, here or on a worker's host, has killed processes for lack of memory during the run.
        remaining: Processes that could not be ended.
        memory_limit_bytes: What each process was allowed to take; None where it was not limited.
    """

    views: Mapping[int, WorkerView]
    hosts: Mapping[int, str] = field(default_factory=dict)
    exit_code: int | None = None
    is_direct: bool = False
    launcher_log: LauncherLog = field(default_factory=LauncherLog)
    lines: Mapping[int, str] = field(default_factory=dict)
    termination: Termination | None = None
    ended_at: float = math.inf
    failure: str = ""
    was_oom: bool = False
    remaining: tuple[int, ...] = ()
    memory_limit_bytes: int | None = None

    @property
    def first_exit(self) -> ProcessExit | None:
        """What the launcher says of the process that failed first; None where dlbench has ended them."""
        return None if self.termination else self.launcher_log.first_exit

    @property
    def errors(self) -> list[WorkerError]:
        """The errors in the order of their arrival; those after our own signal only say that it arrived."""
        errors = [error for view in self.views.values() for error in view.errors if error.at <= self.ended_at]
        return sorted(errors, key=lambda error: error.at)

    @property
    def is_over_a_lost_peer(self) -> bool:
        """Whether Open MPI has ended a process because a connection broke, and the launcher knows of no earlier end."""
        return (self.first_exit.code if self.first_exit else self.exit_code) == _PEER_LOST

    @property
    def has_ended_all_silently(self) -> bool:
        """Whether a launcher ended its workers and failed without a word: of a worker's failure it has one."""
        is_silent = self.launcher_log == LauncherLog() and not any(self.lines.values()) and not self.errors
        is_own = (self.exit_code or 0) > 0 and self.termination is None and not self.is_over_a_lost_peer
        is_early = not all(view.has_left for view in self.views.values())
        return not self.is_direct and is_silent and is_own and is_early

    @property
    def was_launcher_killed(self) -> bool:
        """Whether a signal ended the launcher itself: it would have reported the end of a process that it started."""
        return not self.is_direct and (self.exit_code or 0) < 0


def has_killed_elsewhere(
    views: Mapping[int, WorkerView], hosts: Mapping[int, str], oom_kills: Mapping[str, int]
) -> bool:
    """Return whether the kernel of another host has killed processes for lack of memory since a worker connected.

    Args:
        views: What the workers sent when they connected.
        hosts: The address of each worker's host, by rank.
        oom_kills: How many each host's kernel has killed by now, by address.
    """
    return any(
        view.oom_kills is not None and oom_kills.get(hosts[rank], 0) > view.oom_kills for rank, view in views.items()
    )


def decide(evidence: Evidence) -> tuple[Status, str]:
    """Return the status of an attempt and the reason; the reason is empty where it is completed."""
    rules = (_diverged, _completed, _interrupted, _out_of_memory, _reported_error, _ended_by_us)
    if evidence.failure:
        status, reason = Status.FAILED, evidence.failure
    else:
        outcome = next((outcome for rule in rules if (outcome := rule(evidence))), None)
        status, reason = outcome or (Status.FAILED, _unexplained(evidence) + _perhaps_memory(evidence))
    if not evidence.remaining:
        return status, reason
    note = f"processes that SIGKILL does not end: {', '.join(map(str, evidence.remaining))}"
    return (Status.FAILED if status is Status.COMPLETED else status), f"{reason}; {note}" if reason else note


def _diverged(evidence: Evidence) -> tuple[Status, str] | None:
    """Weights differ between workers, or a worker says that its run has diverged."""
    for error in evidence.errors:
        if error.status == Status.DIVERGED:
            return Status.DIVERGED, _reason_of(error, evidence)
    results = {view.name: view.result or {} for view in evidence.views.values()}
    for name, result in results.items():
        if result.get("agreement") == "no":
            difference = result.get("max_difference")
            size = "" if difference is None else f" (largest difference {difference:g})"
            return Status.DIVERGED, f"{name}: the workers' weights do not agree{size}"
    # Those that scripts have handed in; dlbench's own loop has compared them itself. A parameter server makes no step.
    trained = [result for result in results.values() if result.get("steps") != 0] or list(results.values())
    hashes = [result.get("weights_hash") for result in trained if result.get("agreement") is None]
    if len(hashes) < len(trained) or None in hashes or len(set(hashes)) < 2:
        return None
    reason = "the workers' weights do not agree at the end: gradients are not summed, or they began from different ones"
    hint = "wrap a PyTorch model in DistributedDataParallel before the hook"
    finish = "`run.finish` gets trainable weights alone, and none where each worker has another model"
    return Status.DIVERGED, f"{reason}; {hint}; {finish}"


def _completed(evidence: Evidence) -> tuple[Status, str] | None:
    is_whole = all(view.result is not None and view.has_left for view in evidence.views.values())
    return (Status.COMPLETED, "") if is_whole and evidence.exit_code == 0 and not evidence.errors else None


def _interrupted(evidence: Evidence) -> tuple[Status, str] | None:
    termination = evidence.termination
    return termination if termination and termination.status is Status.INTERRUPTED else None


def _out_of_memory(evidence: Evidence) -> tuple[Status, str] | None:
    """A worker says so, its log does where a library has ended it, or the kernel has killed one."""
    for error in evidence.errors:
        if error.out_of_memory:
            return Status.OUT_OF_MEMORY, _reason_of(error, evidence)
    if evidence.termination is not None:
        return None
    rank = _first_to_fail(evidence)
    line = evidence.lines.get(rank, "") if rank is not None else ""
    if rank is not None and not evidence.views[rank].errors and says_out_of_memory(line):
        return Status.OUT_OF_MEMORY, f"{evidence.views[rank].name}: {line}"
    if not evidence.was_oom or _signal_of(evidence) != signal.SIGKILL:
        return None
    if evidence.first_exit and evidence.first_exit.rank is not None:
        rank = evidence.first_exit.rank
    elif len(evidence.views) == 1 and not evidence.was_launcher_killed:
        (rank,) = evidence.views  # also where it had sent its result
    unnamed = "the launcher" if evidence.was_launcher_killed else "a worker"
    who = unnamed if rank is None else evidence.views[rank].name
    return Status.OUT_OF_MEMORY, f"the kernel killed {who} for lack of memory (SIGKILL)"


def _reported_error(evidence: Evidence) -> tuple[Status, str] | None:
    errors = evidence.errors
    if not errors:
        return None
    causes = [error for error in errors if not _is_follower(error)]
    was_launcher_killed = evidence.termination is None and evidence.was_launcher_killed
    if not causes and (was_launcher_killed or _has_silent_cause(evidence)):
        return None  # the launcher failed first, or a worker that reported nothing, and these are its followers
    hosts = evidence.launcher_log.unreachable
    # What a worker gets to see of it is an "internal error".
    route = f": MPI finds no route between {hosts}" if hosts else ""
    return Status.FAILED, _reason_of((causes or errors)[0], evidence) + route


def _has_silent_cause(evidence: Evidence) -> bool:
    """Whether another worker than those that reported an error failed before them, without a report."""
    rank, errors = _first_to_fail(evidence), evidence.errors
    if rank is None or rank in {error.worker for error in errors}:
        return False
    is_named = evidence.first_exit is not None and evidence.first_exit.rank == rank
    closed_at = evidence.views[rank].closed_at
    return is_named or (closed_at is not None and closed_at < errors[0].at)


def _ended_by_us(evidence: Evidence) -> tuple[Status, str] | None:
    termination = evidence.termination
    if termination is None or not termination.reason:
        return None
    silent = [line for rank, line in evidence.lines.items() if line and not evidence.views[rank].has_connected]
    reason = f"{termination.reason}; its log says: {silent[0]}" if silent else termination.reason
    views = evidence.views.values()
    early = [view for view in views if view.result and view.result.get("epochs_to_target") is not None]
    if early and any(view.result is None for view in views):
        reason += f"; {early[0].name} has reached the target: `run.epoch` needs the same scores on every worker"
    return termination.status, reason


def _unexplained(evidence: Evidence) -> str:
    """Say which worker ended how, and quote the line of the logs that says most."""
    if evidence.has_ended_all_silently:
        return f"the launcher ended all its workers and does not say why ({_how(evidence.exit_code)}): {_ASKED}"
    rank = _first_to_fail(evidence)
    if rank is None:
        quoted = next((line for line in evidence.lines.values() if line), "") or evidence.launcher_log.line
        return _joined(f"the launcher ended ({_how(evidence.exit_code)}){_before(evidence.views.values())}", quoted)
    view = evidence.views[rank]
    how = _how_of(rank, evidence)
    if view.result is not None and view.has_left:
        return _joined(f"{view.name} sent its result, then failed ({how})", evidence.lines.get(rank, ""))
    if how == _FINE and view.result is not None:
        return f"{view.name} sent its result, and ended before its interpreter did: does the script call `os._exit`?"
    if how == _FINE and view.has_connected:
        return early_end(view, how)
    quoted = evidence.lines.get(rank, "") or ("" if view.has_connected else evidence.launcher_log.line)
    # So ends a worker that gets the signal, and every worker of a launcher that does.
    is_request = not evidence.is_direct and _signal_of(evidence) == signal.SIGTERM and evidence.termination is None
    return _joined(early_end(view, how) + _doubt(view, how, evidence) + f", or {_ASKED}" * is_request, quoted)


def _before(views: Collection[WorkerView]) -> str:
    if not any(view.has_connected for view in views):
        return " before a worker connected"
    return " before its workers" if any(view.has_connected and not view.has_left for view in views) else ""


def _doubt(view: WorkerView, how: str, evidence: Evidence) -> str:
    """Name the workers that may have been the first instead of the one that is named.

    Without a word of the launcher those that ended at once with it. While workers start, Open MPI may name one that it
    has ended itself, by SIGKILL: then those that had not connected, or were gone as early.
    """
    if evidence.first_exit and _signal_of(evidence) == signal.SIGKILL and not view.has_trained:
        until = min(view.closed_at or math.inf, evidence.ended_at) + _AT_ONCE_S
        others = [other for other in evidence.views.values() if other is not view]
        gone = [other for other in others if not other.has_connected or (other.closed_at or math.inf) < until]
        which = _named(gone[:_MOST_NAMED])
        after = f"{1000 * _AT_ONCE_S:.0f} ms later"
        return f"; or {which} did, which was not connected {after} either" if gone else ""
    if how != _UNKNOWN or view.closed_at is None:
        return ""
    others = [other for other in _gone(evidence) if other is not view]
    at_once = [other for other in others if other.closed_at and other.closed_at - view.closed_at < _AT_ONCE_S]
    within = f"{1000 * _AT_ONCE_S:.0f} ms"
    return f"; or {_named(at_once)} did, which ended within {within} of it" if at_once else ""


def _named(views: Sequence[WorkerView]) -> str:
    """Return `worker 1 or 2 or server 0`."""
    numbers = by_key((view.role, str(view.number)) for view in views)
    return " or ".join(f"{role} {' or '.join(of_role)}" for role, of_role in numbers.items())


def _perhaps_memory(evidence: Evidence) -> str:
    """Say that a crash under a memory limit may be one: not every library looks at what an allocation gave it."""
    limit = evidence.memory_limit_bytes
    if limit is None or _signal_of(evidence) not in (signal.SIGSEGV, signal.SIGBUS):
        return ""
    return f"; memory_limit_bytes is {limit / 2**20:.0f} MiB: this may be a failed allocation"


def _how_of(rank: int, evidence: Evidence) -> str:
    first, host = evidence.first_exit, evidence.launcher_log.missing_host
    if first is not None and first.rank in (rank, None):
        return _how(first.code)
    if host is not None and host.exit_code is not None:
        return f"its launcher could not start on the host {host.address}, {_how(host.exit_code)}"
    if host is not None:
        # As the cluster names it: its launcher says the name in one message and the address in another.
        is_own = host.address in ("", evidence.views[rank].host)
        name = evidence.hosts.get(rank, host.address) if is_own else host.address
        return f"the host {name} is down, or cannot be reached"
    if first is None and not evidence.is_over_a_lost_peer:
        return _how(evidence.exit_code)
    return _UNKNOWN


def _first_to_fail(evidence: Evidence) -> int | None:
    """Return the worker that failed first: as the launcher says, else by its connection; None for the launcher.

    One that only reported a peer's end is not the first where another reported nothing, nor is one that Open MPI
    has ended because the connection to another broke: over a network that comes first.
    """
    first, host = evidence.first_exit, evidence.launcher_log.missing_host
    crashed = [rank for rank, line in evidence.lines.items() if says_crash(line)]
    # The launcher reports a crash, and not whose it was.
    is_unnamed_crash = first is not None and first.rank is None and -first.code in _CRASHES
    if crashed and (evidence.is_over_a_lost_peer or is_unnamed_crash):
        return crashed[0]
    causes = set() if evidence.is_over_a_lost_peer else evidence.views.keys() - _followers(evidence)
    if first is not None and first.rank in causes:
        return first.rank
    if evidence.was_launcher_killed:
        return None
    if host is not None and host.address:
        for rank, view in evidence.views.items():
            if host.address in (view.host, evidence.hosts.get(rank)):  # launchers say the name or the address
                return rank
    lost, gone = _lost(evidence), _gone(evidence)
    silent = [view for view in lost if not view.has_connected]
    telling = [view for view in silent if evidence.lines.get(view.rank)]
    # With nothing between, the only worker is the process that dlbench has started itself.
    sole_worker = next(iter(evidence.views)) if evidence.is_direct else None
    if evidence.exit_code and first is None and len(silent) == len(evidence.views):
        silent = []  # nothing was heard of any: the launcher itself has failed
    return next((view.rank for view in (*telling, *gone, *silent)), sole_worker)


def _lost(evidence: Evidence) -> list[WorkerView]:
    """Return the workers that did not end as they should; without those that only followed, where there are others."""
    followers = _followers(evidence)
    lost = [view for view in evidence.views.values() if view.result is None or not view.has_left]
    return [view for view in lost if view.rank not in followers] or lost


def _gone(evidence: Evidence) -> list[WorkerView]:
    """Return those of them whose connections closed before dlbench ended any, in the order in which they did."""
    closed = [view for view in _lost(evidence) if view.closed_at and view.closed_at <= evidence.ended_at]
    return sorted(closed, key=lambda view: view.closed_at or 0)


def _followers(evidence: Evidence) -> set[int]:
    return {error.worker for error in evidence.errors} | evidence.launcher_log.over_a_peer


def _is_follower(error: WorkerError) -> bool:
    texts = (error.error, _last_line(error.traceback))
    return bool(_SHUT_DOWN.search(error.traceback)) or any(_FOLLOWERS.search(text) for text in texts)


def _reason_of(error: WorkerError, evidence: Evidence) -> str:
    text = error.error.strip() or _last_line(error.traceback) or "an error without a message"
    return f"{evidence.views[error.worker].name}: {text}"


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def _signal_of(evidence: Evidence) -> int:
    """Return the signal that ended the first process to fail; 0 where it was none."""
    code = evidence.first_exit.code if evidence.first_exit else evidence.exit_code
    return _signal_in(code or 0)


def _signal_in(exit_code: int) -> int:
    """Return the signal that an exit code stands for, in Python's way (-9) or a shell's (137); 0 where for none."""
    if exit_code < 0:
        return -exit_code
    number = exit_code - _SIGNAL_BASE
    return number if number in _DEADLY else 0


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "no exit code"
    number = _signal_in(exit_code)
    if not number:
        return f"exit code {exit_code}"
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"


def _joined(reason: str, quoted: str) -> str:
    return f"{reason}: {quoted}" if quoted else reason
