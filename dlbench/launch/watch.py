"""Whether a running attempt has to be ended, and why: time-outs, stalls, workers that are stopped or gone. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dlbench.launch.processes import WorkerStates
from dlbench.records.outcome import Status
from dlbench.scenario.needs import EVALUATOR
from dlbench.scenario.run_spec import Limits
from dlbench.telemetry.attempt_session import WorkerView
from dlbench.telemetry.messages import SCRIPT_PHASE, START_UP_PHASES

# Phases in which a worker waits for its peers; the culprit of a stall is one that is in none of them.
WAITING_PHASES = frozenset({"rendezvous", "broadcast", "all_reduce", "serve", "barrier", "agree"})
# A worker in an earlier phase of start-up is behind; "" where it has sent no heartbeat yet.
_START_UP = ("", *START_UP_PHASES)
# The launcher ends the others within a second after one has failed; it and its last words are waited for.
DEATH_PATIENCE_S = 2.0
# A worker that has reported an error is about to end; one that hangs instead is not waited for longer.
ERROR_PATIENCE_S = 10.0
# A debugger stops a process for a moment; what stays stopped has been stopped by someone.
STOPPED_PATIENCE_S = 3.0
# A worker beats every `flush_interval_s`, and less often only if its interpreter cannot run.
_MISSED_BEATS = 4
# What is said where no worker is left to blame.
_ALL_ENDED = "every worker has ended, the launcher has not"


class Termination(NamedTuple):
    """Why dlbench ends an attempt: its status and the reason."""

    status: Status
    reason: str


@dataclass
class Watch:
    """Follows one attempt; `started_at` and every `now` are monotonic seconds.

    Of a user's script (`has_script`) a process may make no step, such as a parameter server's: once another does, it
    has started up, too.
    """

    limits: Limits
    started_at: float
    has_script: bool = False
    _since: dict[tuple[str, int], float] = field(default_factory=dict)

    def check(self, now: float, views: Mapping[int, WorkerView], states: WorkerStates) -> Termination | None:
        """Return why the attempt has to be ended now, or None where it may go on."""
        limit = self.limits.timeout_s
        if limit is not None and now - self.started_at >= limit:
            run_on = [view for rank, view in views.items() if not (view.has_left and rank in states.gone)]
            who = _where(run_on) or _ALL_ENDED
            return Termination(Status.TIMEOUT, f"it took longer than timeout_s ({limit:g} s); {who}")
        # A worker has reported its error and the run does not end by itself.
        if any(now - error.at >= ERROR_PATIENCE_S for view in views.values() for error in view.errors):
            return Termination(Status.FAILED, "")
        checks = (self._gone, self._stopped, self._start_up, self._stall)
        return next((termination for check in checks if (termination := check(now, views, states))), None)

    def _gone(self, now: float, views: Mapping[int, WorkerView], states: WorkerStates) -> Termination | None:
        """A worker ended early while its launcher carries on: with another exit code it would have ended the job."""
        for rank, view in views.items():
            is_lost = view.is_gone and rank in states.gone
            if self._lasts("gone", rank, is_lost, now) >= DEATH_PATIENCE_S:
                return Termination(Status.FAILED, early_end(view, "exit code 0"))
            is_cut_off = view.is_gone and rank not in states.gone
            if self._lasts("cut off", rank, is_cut_off, now) >= self.limits.orphan_timeout_s:
                # Their launcher may hang over one that ended before it called, which is then the cause.
                unheard = [other for other in views.values() if not other.has_connected]
                return Termination(Status.FAILED, f"the connection to {_named(view)} is lost{_while(unheard)}")
        return None

    def _stopped(self, now: float, views: Mapping[int, WorkerView], states: WorkerStates) -> Termination | None:
        patience = min(STOPPED_PATIENCE_S, self.limits.stall_timeout_s / 2)
        for rank, view in views.items():
            if self._lasts("stopped", rank, rank in states.stopped, now) >= patience:
                return _is_stopped(view)
        return None

    def _start_up(self, now: float, views: Mapping[int, WorkerView], states: WorkerStates) -> Termination | None:
        limit, late = self.limits.startup_timeout_s, self._late(now, views)
        if not late or now - self.started_at < limit:
            return None
        if stopped := _first_stopped(late, states):
            return stopped
        culprits = _culprits(late, self._silent(now, late))
        others = [view for view in views.values() if view not in culprits]
        reason = f"start-up took longer than startup_timeout_s ({limit:g} s): {_where(culprits)}"
        return Termination(Status.TIMEOUT, reason + _while(others))

    def _stall(self, now: float, views: Mapping[int, WorkerView], states: WorkerStates) -> Termination | None:
        limit = self.limits.stall_timeout_s
        if self._late(now, views) or any(view.phase == SCRIPT_PHASE for view in views.values()):
            return None
        last = max((view.progressed_at or self.started_at for view in views.values()), default=now)
        if now - last < limit:
            return None
        if stopped := _first_stopped(views.values(), states):
            return stopped
        blame = _blame(views, self._silent(now, views.values()), states)
        return Termination(Status.STALLED, f"no progress for stall_timeout_s ({limit:g} s): {blame}")

    def _late(self, now: float, views: Mapping[int, WorkerView]) -> list[WorkerView]:
        """Return those that have not started up yet."""
        late = [view for view in views.values() if not view.has_trained]
        may_be_none = self.has_script and len(late) < len(views) and all(view.has_connected for view in late)
        return [] if may_be_none and now - self.started_at >= self.limits.startup_timeout_s else late

    def _silent(self, now: float, views: Iterable[WorkerView]) -> frozenset[int]:
        """Return the ranks that have called and send no heartbeat: their interpreter's lock is held for ever."""
        patience = max(self.limits.stall_timeout_s / 2, _MISSED_BEATS * self.limits.flush_interval_s)
        called = [view for view in views if view.has_connected and not view.has_left]
        return frozenset(view.rank for view in called if now - (view.beat_at or self.started_at) > patience)

    def _lasts(self, what: str, rank: int, is_so: bool, now: float) -> float:
        """Return for how long something has been so, or a negative number where it is not."""
        if not is_so:
            self._since.pop((what, rank), None)
            return -1.0
        return now - self._since.setdefault((what, rank), now)


def early_end(view: WorkerView, how: str) -> str:
    """Say that a worker ended before it should, where it was, and how it ended."""
    where = f", {_place(view)}" if view.has_connected else ", before it connected"
    if not view.has_connected and how == "exit code 0":  # as only a script of the user's own does
        where += "; does the script call `dlbench.worker.begin`?"
    return f"{view.name} exited before sending its result ({how}){where}"


def _first_stopped(views: Iterable[WorkerView], states: WorkerStates) -> Termination | None:
    return next((_is_stopped(view) for view in views if view.rank in states.stopped), None)


def _is_stopped(view: WorkerView) -> Termination:
    reason = f"{_named(view)} is stopped: process {view.pid} was sent a signal such as SIGSTOP"
    return Termination(Status.STALLED, reason)


def _blame(views: Mapping[int, WorkerView], silent: frozenset[int], states: WorkerStates) -> str:
    """Say whom a stalled attempt waits for, and what the others do."""
    busy = [view for view in views.values() if not view.has_left]
    ending = [view for view in views.values() if view.rank not in states.gone]
    if not busy and not ending:
        return _ALL_ENDED
    culprits = _culprits(busy, silent) if busy else ending
    others = [view for view in ending if view not in culprits]
    quiet = sorted(silent & {view.rank for view in culprits})
    note = f" (no heartbeat from worker{'s' * (len(quiet) > 1)} {', '.join(map(str, quiet))})" if quiet else ""
    return f"{_where(culprits)}{note}{_while(others)}"


def _culprits(views: list[WorkerView], silent: frozenset[int]) -> list[WorkerView]:
    """Return those the others wait for.

    Those not connected; else those silent while others are not, whose last heartbeat is old; else those that have
    not entered a collective; else those behind.
    """
    unheard = [view for view in views if not view.has_connected]
    quiet = [view for view in views if view.rank in silent] if silent < {view.rank for view in views} else []
    outside = [view for view in views if view.phase not in WAITING_PHASES]
    # The evaluator has its own steps: others wait for it in no step.
    training = [view for view in views if view.role != EVALUATOR.name]
    least = min((_position(view) for view in training), default=(0, 0))
    behind = [view for view in training if _position(view) == least]
    return unheard or quiet or outside or behind


def _position(view: WorkerView) -> tuple[int, int, int]:
    stage = _START_UP.index(view.phase) if view.phase in _START_UP else len(_START_UP)
    return (stage, view.epoch if view.epoch is not None else -1, view.step if view.step is not None else -1)


def _where(views: Iterable[WorkerView]) -> str:
    return ", ".join(_named(view) for view in views)


def _while(others: list[WorkerView]) -> str:
    """Say what the others do; of many, the first few."""
    if not others:
        return ""
    more = f" and {len(others) - 4} more" if len(others) > 4 else ""
    return f", while {_where(others[:4])}{more}"


def _named(view: WorkerView) -> str:
    name = f"{view.name} on {view.address}" if view.address else view.name
    return f"{name} ({_place(view)})" if view.has_connected else f"{name} has not connected"


def _place(view: WorkerView) -> str:
    if view.has_left:
        return "which has sent its result and is still running"
    at = f" at step {view.step}" if view.step is not None and view.phase != SCRIPT_PHASE else ""
    return f"in phase {view.phase or 'start'}{at}"
