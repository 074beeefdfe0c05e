"""Make the runs of a study, one at a time; every attempt becomes a row, however it ends."""

import contextlib
import errno
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dlbench import plugins, scratch
from dlbench.analysis.answer.doubts import pointless
from dlbench.analysis.answer.power import compared, power_text
from dlbench.analysis.formatting import counted, duration
from dlbench.errors import UserError
from dlbench.hosts.remote import addresses, collect_remote
from dlbench.launch.execute import Progress, execute
from dlbench.launch.layout import plan_layout
from dlbench.launch.plan import plan
from dlbench.launch.processes import end, leftovers
from dlbench.records import files
from dlbench.records.assignment import Assignment, Endpoint
from dlbench.records.noise import LEAST_SHARE, noise
from dlbench.records.outcome import Outcome, Status, write_outcome
from dlbench.scenario.check.warnings import announcement
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.layout import Layout
from dlbench.scenario.metrics import declared
from dlbench.scenario.run_spec import Phase, RunSpec
from dlbench.study import attempts
from dlbench.study.attempts import Attempt
from dlbench.study.budget import Durations, Spending
from dlbench.study.collect import Collector
from dlbench.study.folder import Folder, StudyPlan, write_machine
from dlbench.study.lock import locked
from dlbench.study.own_code import code_checksum
from dlbench.study.own_models import require_buildable
from dlbench.study.prepare import Prepared, Stopped, prepare, recipe_of
from dlbench.study.resume import resumed, with_runs
from dlbench.study.rounds import announced, next_round
from dlbench.telemetry.server import TelemetryServer

# How quiet the machine is gets measured before and after a study: so long each, or for this share of its time.
_NOISE_S, _NOISE_SHARE, _MOST_NOISE_S = 0.05, 0.02, 1.0
# A time that is worth telling, and the kind of line that tells it.
LEAST_TOLD_S, _TIME = 60.0, "time"
# A study with less room than this could not take in one more run's rows.
_ROOM_BYTES = 1 << 20


class Watcher:
    """Receives the progress of a study; this one ignores it."""

    def say(self, line: str) -> None:
        """Take a line about what happens before the first run."""

    def begin(self, folder: Path, todo: Sequence[RunSpec], done: int, durations: Durations) -> None:
        """The runs `todo` will be made now; `done` are complete already, and `durations` says how long runs take."""

    def start(self, run: RunSpec, attempt: int) -> None:
        """An attempt is launched."""

    def progress(self, progress: Progress) -> None:
        """The workers have advanced."""

    def end(self, run: RunSpec, outcome: Outcome, row: Mapping[str, Any]) -> None:
        """An attempt has ended."""


class DiskFull(UserError):  # noqa: N818 - it says what it is
    """There is no room left where the study lies."""


@dataclass(frozen=True)
class StudyResult:
    """How a study stands when dlbench leaves it.

    Attributes:
        folder: The study.
        rows: The row of each attempt, in order.
        is_complete: Whether every run that was asked for is completed.
        was_interrupted: Whether the user ended it.
        problem: Which table could not be written; empty where all were.
        is_spent: Whether it ended because no further run fitted into the budget.
        is_unmet: Whether a job, of rows that are not here, has found runs that are not as the scenario expects.
    """

    folder: Folder
    rows: list[dict[str, Any]]
    is_complete: bool
    was_interrupted: bool
    problem: str = ""
    is_spent: bool = False
    is_unmet: bool = False


def run_study(
    folder: Folder, planned: StudyPlan, watcher: Watcher, stop: threading.Event, spending: Spending
) -> StudyResult:
    """Make every planned run that is pending, one at a time, and keep the tables up to date.

    Args:
        folder: The study, new or continued.
        planned: What is asked for.
        watcher: Receives the progress.
        stop: Set to end the current run as interrupted and leave.
        spending: What is left of the budget for the runs to come.

    Raises:
        UserError: Another dlbench is in the study, it is not the same study, a data set cannot be prepared, or the
            disk is full.
    """
    with full_disk_reported(folder.path), locked(folder.path):
        folder = resumed(folder, planned)
        attempts.close_interrupted(folder.path, folder.record.runs, partial(_end_leftovers, planned.cluster))
        attempts.discard_checkpoints(folder.path, folder.record.runs)
        collector = Collector(folder, planned.scenario.step_table, watcher.say)
        collector.rebuild()
        runner = _Runner(folder, planned.cluster, collector, watcher, stop, spending)
        with _noise_noted(folder, watcher.say), contextlib.suppress(Stopped):
            runner.run_rounds(planned)
        collector.finish()
        last = next_round(planned, collector.rows)
        is_complete = all(attempts.status_of(folder.path, run) is Status.COMPLETED for run in last)
    return StudyResult(runner.folder, collector.rows, is_complete, stop.is_set(), collector.problem, runner.is_spent)


@contextlib.contextmanager
def full_disk_reported(study: Path) -> Iterator[None]:
    """Turn "no space left" and "quota exceeded" into `DiskFull`; what is on disk stays, and `--resume` completes it.

    Raises:
        DiskFull: The disk, or the user's share of it, is full.
        UserError: The study's folder is gone.
    """
    try:
        yield
    except OSError as error:
        if not study.is_dir():
            raise UserError(f"the folder of the study is gone: {study}") from error
        if error.errno not in files.FULL:
            raise
        is_limit = error.errno == errno.EFBIG
        what = "a file would be larger than `ulimit -f` allows" if is_limit else f"the disk under {study} is full"
        raise DiskFull(
            f"{what} ({error.strerror}); no row that was received is lost",
            hint=f"make room, then continue with: dlbench run --study {str(study)!r}",
        ) from error


@contextlib.contextmanager
def _noise_noted(folder: Folder, say: Callable[[str], None]) -> Iterator[None]:
    """Add to `machine.json` how quiet the machine was before and after this part of the study; say where it is not."""
    started_at = time.monotonic()
    before = noise(_NOISE_S)
    if busy := [core for core, share in before["spin_share_by_core"].items() if share < LEAST_SHARE]:
        say(f"doubt: other programs compute on core {', '.join(busy)}: runs there are slower (`dlbench doctor`)")
    yield
    allowed_s = _NOISE_SHARE * (time.monotonic() - started_at) - _NOISE_S
    after = noise(min(max(_NOISE_S, allowed_s), _MOST_NOISE_S))
    parts = [*folder.machine.get("noise", ()), {"before": before, "after": after}]
    write_machine(folder.path, {**folder.machine, "noise": parts})


@dataclass
class _Runner:
    """Makes runs of a study, whose lock is held."""

    folder: Folder
    cluster: Cluster
    collector: Collector
    watcher: Watcher
    stop: threading.Event
    spending: Spending
    data: Mapping[str, Prepared] = field(default_factory=dict)
    is_spent: bool = False
    durations: Durations = field(default_factory=Durations)
    said: set[str] = field(default_factory=set)

    def run_rounds(self, planned: StudyPlan) -> None:
        """Make the runs of one round after the other, each once, until none is left or the user ends the study.

        Raises:
            UserError: A data set cannot be prepared, or a model cannot be built.
            Stopped: The user ended it while data was prepared.
            OSError: As `run_all`.
        """
        for row in self.collector.rows:
            self.durations.add(row["run_id"], row["status"], row.get("wall_time_s") or 0.0)
        made_ids: set[str] = set()
        is_limited = self.spending.budget.is_limited
        is_first = True
        while not (self.stop.is_set() or self.is_spent):
            runs = next_round(planned, self.collector.rows, made_ids, self._has_room if is_limited else None)
            todo = [run for run in attempts.pending(self.folder.path, runs) if run.run_id not in made_ids]
            if not (todo or is_first):
                if is_limited:
                    left = attempts.pending(self.folder.path, next_round(planned, self.collector.rows, made_ids))
                    self.is_spent = any(run.run_id not in made_ids for run in left)
                return
            self.folder = with_runs(self.folder, todo)
            self.collector.know(self.folder)
            if is_first and (text := announcement(planned.scenario, todo, planned.cluster)):
                self.watcher.say(text)
            self.data = prepare(todo, self._say_once, self.stop, planned.cluster)
            if is_first and len(todo) > 1:  # one run alone finds by itself what is wrong
                require_buildable(todo, planned.cluster, self.watcher.say)
            for line in announced(todo):
                self.watcher.say(line)
            self.watcher.begin(self.folder.path, todo, len(runs) - len(todo), self.durations)
            if is_first and not self.collector.rows:
                text = power_text(planned.rule, *compared(planned.runs, planned.scenario.given))
                if text:
                    self.watcher.say(text)
            self.said.discard(_TIME)
            self.run_all(todo)
            made_ids |= {run.run_id for run in todo}
            is_first = False

    def run_all(self, todo: Sequence[RunSpec]) -> None:
        """Make runs until all are made or the user ends the study.

        Raises:
            OSError: A table cannot be written, or there is no room for the rows of a next run.
        """
        if not todo:
            return
        study = self.folder.path
        with TelemetryServer([host.address for host in self.cluster.hosts]) as server:
            for place, run in enumerate(todo, start=1):
                if self.stop.is_set():
                    return
                if (self.durations.expected_s(run) or 0.0) > self.spending.left_s(run):
                    self.is_spent = True
                    continue
                attempt = attempts.begin(study, run.run_id)
                self.watcher.start(run, attempt.number)
                outcome = self._run(run, attempt, server)
                attempts.discard_checkpoints(study, [run])
                self.spending.add(run, outcome.wall_time_s)
                self.durations.add(run.run_id, outcome.status, outcome.wall_time_s)
                row = self.collector.add(attempt, outcome)
                self.watcher.end(run, outcome, row)
                self._say_pointless(run, row)
                self._say_time(todo[place:])
                if outcome.status is Status.FAILED:
                    # Without room for more rows the runs to come would fail one after the other.
                    with tempfile.TemporaryFile(dir=study) as file:
                        os.posix_fallocate(file.fileno(), 0, _ROOM_BYTES)

    def _has_room(self, runs: Sequence[RunSpec]) -> bool:
        """Whether the budget will probably have room for runs."""
        return self.spending.has_room([(run, self.durations.expected_s(run) or 0.0) for run in runs])

    def _say_once(self, text: str) -> None:
        """Say what each round would say again of its data."""
        if text not in self.said:
            self.said.add(text)
            self.watcher.say(text)

    def _say_time(self, left: Sequence[RunSpec]) -> None:
        """Say once in a round, when each of its arms has run, how long those that are left will take."""
        if _TIME in self.said or not all(map(self.durations.is_known, left)):
            return
        self.said.add(_TIME)
        seconds = self.durations.total_s(left) or 0.0
        if seconds >= LEAST_TOLD_S:
            self.watcher.say(f"about {duration(seconds)} for the {counted(len(left), 'run')} left")

    def _say_pointless(self, run: RunSpec, row: Mapping[str, Any]) -> None:
        """Say once of each kind what makes runs like this one pointless, while there is time to stop."""
        for kind, text in pointless(row, declared(run.metrics)).items():
            # That some candidates learn nothing is what a search is for.
            if kind not in self.said and not (kind == "nothing" and run.phase is Phase.TUNE):
                self.said.add(kind)
                self.watcher.say(f"doubt: {run.label}: {text}")

    def _run(self, run: RunSpec, attempt: Attempt, server: TelemetryServer) -> Outcome:
        """Launch one attempt and wait for its end; a mistake of the user's becomes the reason of a failed run."""
        started_at, stop = datetime.now(UTC).isoformat(), self.spending.stop(run, self.stop)
        code = ""
        try:
            code = code_checksum(run)
            assignment = self._assignment(run, attempt, server.endpoint())
            launch = plan(assignment, os.environ, cluster=self.cluster)
            collect = partial(collect_remote, self.cluster, os.environ)
            outcome = execute(launch, assignment, attempt.folder, server, self.watcher.progress, stop, collect)
        except UserError as error:
            outcome = Outcome(status=Status.FAILED, reason=str(error), started_at=started_at)
        except OSError as error:  # too many open files, no memory for a process, ...
            if error.errno in files.FULL or not attempt.folder.is_dir():
                raise
            outcome = Outcome(status=Status.FAILED, reason=f"it could not be watched: {error}", started_at=started_at)
        if outcome.status is Status.INTERRUPTED and not self.stop.is_set():
            self.is_spent = True
            outcome = outcome.model_copy(update={"reason": "the budget was spent"})
        # What a run itself changes, such as a configuration that its command writes, is not edited by the user.
        if code == code_checksum(run):
            outcome = outcome.model_copy(update={"code_checksum": code})
        write_outcome(attempt.folder, outcome)
        return outcome

    def _assignment(self, run: RunSpec, attempt: Attempt, endpoint: Endpoint) -> Assignment:
        prepared, layout = self.data.get(recipe_of(run) or ""), plan_layout(run, self.cluster)
        checkpoints = files.checkpoint_folder(self.folder.path, run.run_id)
        return Assignment(
            run=run,
            attempt=attempt.number,
            attempt_id=f"{run.run_id}-{attempt.number}-{secrets.token_hex(8)}",
            layout=layout,
            endpoint=endpoint,
            data_folder=str(prepared.folder) if prepared else "",
            data_folders=dict(prepared.elsewhere) if prepared else {},
            data_checksum=prepared.checksum if prepared else "",
            data_doubt=prepared.doubt if prepared else "",
            addresses=_addresses(run, layout, self.cluster),
            log_folder=str(attempt.folder.absolute()),
            checkpoint_folder=str(checkpoints.absolute()) if run.settings.checkpoint_every is not None else "",
        )


def _addresses(run: RunSpec, layout: Layout, cluster: Cluster) -> tuple[str, ...]:
    """Return where the processes of a user's script, or of a communicator by addresses, find each other."""
    communicator = run.settings.communicator
    is_by_address = communicator is not None and plugins.load("communicators", communicator).get("NEEDS_ADDRESS", False)
    if run.settings.workers_inside or (run.settings.command is None and not is_by_address):
        return ()
    return addresses(layout, cluster, os.environ, needs_all=run.tf_config)


def _end_leftovers(cluster: Cluster, assignment: Assignment, folder: Path) -> None:
    """End what a killed dlbench has left of an attempt, here and on other hosts."""
    if pids := leftovers(assignment.attempt_id):
        end(pids, assignment.run.limits.grace_s)
    scratch.sweep()
    collect_remote(cluster, os.environ, assignment, folder, went_well=False)
