"""Execute a plan: start the launcher, watch it, end it whatever happens, and say how it ended."""

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from dlbench import scratch
from dlbench.cgroups import oom_kills
from dlbench.launch import processes
from dlbench.launch.logs import LogBounds, read_launcher_log, telling_line
from dlbench.launch.outcome_rules import Evidence, decide, has_killed_elsewhere
from dlbench.launch.plan import LaunchPlan
from dlbench.launch.processes import WorkerStates, worker_states
from dlbench.launch.watch import Termination, Watch
from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.records.outcome import Outcome, Status
from dlbench.telemetry.attempt_session import AttemptSession, WorkerView
from dlbench.telemetry.server import TelemetryServer

# A launcher's end is seen at once; everything else can wait so long, and costs the workers less of their cores.
_POLL_S = 0.25
_LOOK_EVERY = 2
# What workers sent before their launcher ended is received before the rest is ended.
_LAUNCHER_DRAIN_S = 0.5
_DRAIN_S, _DRAIN_POLL_S = 3.0, 0.005
# An outcome takes less.
_ROOM_BYTES = 8192

CollectRemote = Callable[[Assignment, Path, bool], dict[str, int]]


@dataclass(frozen=True)
class Progress:
    """How far an attempt is, `elapsed_s` seconds after its launch."""

    elapsed_s: float
    workers: tuple[WorkerView, ...]


def execute(
    plan: LaunchPlan,
    assignment: Assignment,
    folder: Path,
    server: TelemetryServer,
    on_progress: Callable[[Progress], None],
    stop: threading.Event,
    collect_remote: CollectRemote | None = None,
) -> Outcome:
    """Run one attempt to its end and return how it ended; nothing of it is left running.

    Args:
        plan: What to execute.
        assignment: The attempt; its endpoint is one of `server`.
        folder: The attempt's folder, which exists.
        server: Where its workers connect.
        on_progress: Called some five times a second.
        stop: Set to interrupt the attempt.
        collect_remote: Called once nothing of it is left on this machine, with the assignment, the folder and whether
            all went well: ends what is left on other hosts, brings their logs into the folder, and returns how many
            processes their kernels have killed for lack of memory, by host.
    """
    started_at, clock = datetime.now(UTC), time.monotonic()
    try:
        for name, text in plan.files.items():
            files.write_text(folder / name, text, is_private=True)
        files.write_text(folder / files.ROOM, "." * _ROOM_BYTES)
        session = server.expect(assignment, folder / files.JOURNAL)
    except OSError as error:
        status, reason, exit_code = Status.FAILED, f"the attempt's files cannot be written: {error}", None
        ended_at = time.monotonic()
    else:
        with session:
            logs = LogBounds(folder)
            attempt = _Attempt(plan, assignment, folder, session, logs, on_progress, stop, collect_remote)
            status, reason, exit_code = attempt.run()
            ended_at = attempt.ended_at or time.monotonic()
    return Outcome(
        status=status,
        reason=reason,
        exit_code=exit_code,
        started_at=started_at.isoformat(timespec="milliseconds"),
        wall_time_s=round(ended_at - clock, 6),
    )


@dataclass
class _Attempt:
    plan: LaunchPlan
    assignment: Assignment
    folder: Path
    session: AttemptSession
    logs: LogBounds
    on_progress: Callable[[Progress], None]
    stop: threading.Event
    collect_remote: CollectRemote | None
    # When every process of it on this machine had ended and all was taken in; asking other hosts comes after.
    ended_at: float | None = None

    def run(self) -> tuple[Status, str, int | None]:
        """Start, watch, end, drain, decide."""
        oom_kills_before = oom_kills()
        variables: dict[str, str] = {}
        # Where all processes are on this machine, what they leave behind is in folders that are held here.
        with contextlib.ExitStack() as at_end:
            at_end.callback(scratch.sweep)
            if self.assignment.layout.is_here:
                # A script's temporary files are its own affair.
                for held in scratch.use(variables, temporary=self.assignment.run.settings.command is None):
                    at_end.callback(os.close, held)
            try:
                with (self.folder / files.LAUNCHER_LOG).open("ab") as log:
                    launcher = subprocess.Popen(
                        self.plan.argv, env=self.plan.env | variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                        start_new_session=True,
                    )  # fmt: skip
            except OSError as error:
                return Status.FAILED, f"the launcher cannot be started: {error}", None
            try:
                evidence = self._follow(launcher, oom_kills_before)
            except BaseException:
                self._end(launcher)
                raise
        return *decide(evidence), evidence.exit_code

    def _follow(self, launcher: subprocess.Popen[bytes], oom_kills_before: int) -> Evidence:
        """Watch the attempt to its end and gather what is known of it then."""
        started_at = time.monotonic()
        termination = self._watch(launcher, started_at)
        if termination is None:
            self._drain(_LAUNCHER_DRAIN_S)
            if launcher.returncode and self.stop.is_set():  # as Slurm asks workers and dlbench at once
                termination = Termination(Status.INTERRUPTED, "interrupted")
        ended_at = time.monotonic()
        remaining = self._end(launcher)
        self._drain(_DRAIN_S)
        self.ended_at = time.monotonic()
        went_well = termination is None and launcher.returncode == 0
        killed = {} if self.collect_remote is None else self.collect_remote(self.assignment, self.folder, went_well)
        views = self.session.workers()
        self.on_progress(Progress(time.monotonic() - started_at, tuple(views.values())))
        # A number that processes of two hosts share tells nothing.
        pids = Counter(view.pid for view in views.values())
        ranks = {view.pid: rank for rank, view in views.items() if pids[view.pid] == 1}
        hosts = {place.rank: place.host for place in self.assignment.layout.places}
        return Evidence(
            views=views,
            hosts=hosts,
            exit_code=launcher.returncode,
            is_direct=self.assignment.run.settings.launcher == "local" and len(views) == 1,
            launcher_log=read_launcher_log(self.folder / files.LAUNCHER_LOG, ranks),
            lines={rank: telling_line(self.folder / files.worker_log(rank)) for rank in views},
            termination=termination,
            ended_at=ended_at,
            failure=self.session.failure,
            was_oom=oom_kills() > oom_kills_before or has_killed_elsewhere(views, hosts, killed),
            remaining=tuple(remaining),
            memory_limit_bytes=self.assignment.run.settings.memory_limit_bytes,
        )

    def _watch(self, launcher: subprocess.Popen[bytes], started_at: float) -> Termination | None:
        """Return why the attempt has to be ended, or None once its launcher has ended by itself."""
        has_script = self.assignment.run.settings.command is not None
        watch, host = Watch(self.assignment.run.limits, started_at, has_script), socket.gethostname()
        turn, states = 0, WorkerStates()
        while launcher.poll() is None:
            now, views = time.monotonic(), self.session.workers()
            self.logs.enforce()
            if turn % _LOOK_EVERY == 0:
                with contextlib.suppress(OSError):  # no descriptor is left to look with: they are as they were
                    states = worker_states(self.assignment.attempt_id, views, host)
                    if self.assignment.run.settings.workers_inside:  # the command says how those that it started ended
                        states = replace(states, gone=frozenset())
            self.on_progress(Progress(now - started_at, tuple(views.values())))
            if turn % _LOOK_EVERY == 0 and not self.folder.is_dir():
                return Termination(Status.FAILED, "the attempt's folder is gone")
            if self.stop.is_set():
                return Termination(Status.INTERRUPTED, "interrupted")
            if self.session.failure:
                return Termination(Status.FAILED, self.session.failure)
            if termination := watch.check(now, views, states):
                return termination
            turn += 1
            processes.wait_for(launcher.pid, _POLL_S)
        return None

    def _end(self, launcher: subprocess.Popen[bytes]) -> list[int]:
        """End every process of the attempt, the launcher among them; return those that cannot be ended."""

        def find() -> list[int]:
            launcher.poll()
            self.logs.enforce()
            return processes.leftovers(self.assignment.attempt_id, session=launcher.pid)

        remaining = processes.end_all(find, self.assignment.run.limits.grace_s, launcher.pid)
        if launcher.pid not in remaining:
            launcher.wait()
        return remaining

    def _drain(self, timeout_s: float) -> None:
        """Wait until all that ended workers have sent is taken in: none has a connection open."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(view.is_connected for view in self.session.workers().values()):
            time.sleep(_DRAIN_POLL_S)
