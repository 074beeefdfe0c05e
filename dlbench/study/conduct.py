"""Make the runs of a study, one at a time; every attempt becomes a row, whatever becomes of it."""

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dlbench.errors import UserError
from dlbench.launch.afterwards import Afterwards
from dlbench.launch.execute import Progress, execute, write_outcome
from dlbench.launch.inbox import Inbox
from dlbench.launch.layout import arrange
from dlbench.launch.plan import LaunchPlan, plan
from dlbench.launch.processes import end, leftovers
from dlbench.records.assignment import Assignment, Home
from dlbench.records.noise import noise
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.run_spec import RunSpec
from dlbench.study import checkpoints, queue
from dlbench.study.attempts import Attempt, begin, settle
from dlbench.study.collect import Collector
from dlbench.study.continuation import continued
from dlbench.study.disk import must_have_room, telling_a_full_disk
from dlbench.study.folder import Folder, Question, write_machine
from dlbench.study.lock import locked
from dlbench.study.prepare import Prepared, Stopped, prepare, recipe_of

# Long enough to see whether something else computes, short enough not to be noticed.
NOISE_S = 0.05


class Watcher(Protocol):
    """Who is told how a study goes on."""

    def say(self, line: str) -> None:
        """Take a line about what happens before the first run."""

    def begin(self, folder: Path, todo: Sequence[RunSpec], done: int) -> None:
        """The runs `todo` will be made now; `done` of the study's runs are complete already."""

    def start(self, run: RunSpec, attempt: int) -> None:
        """An attempt is launched."""

    def progress(self, progress: Progress) -> None:
        """The workers got on."""

    def end(self, run: RunSpec, outcome: Outcome, row: Mapping[str, Any]) -> None:
        """An attempt has ended."""


@dataclass(frozen=True)
class Account:
    """How a study stands when dlbench leaves it.

    Attributes:
        rows: The row of each attempt, in order.
        is_complete: Whether every run that was asked for is completed.
        was_interrupted: Whether the user ended it.
    """

    rows: list[dict[str, Any]]
    is_complete: bool
    was_interrupted: bool


def conduct(folder: Folder, question: Question, watcher: Watcher, stop: threading.Event) -> Account:
    """Make every run that is asked for and pending, one at a time, and keep the tables up to date.

    Args:
        folder: The study, new or continued.
        question: What is asked for.
        watcher: Is told how it goes on.
        stop: Set to end the current run as interrupted and leave.

    Raises:
        UserError: Another dlbench is in the study, it is not the same study, a data set cannot be prepared, or the
            disk is full.
    """
    with telling_a_full_disk(folder.path), locked(folder.path):
        folder = continued(folder, question)
        end_leftovers = partial(_end_leftovers, cluster=question.cluster)
        settle(folder.path, (run.run_id for run in folder.record.runs), end_leftovers, write_outcome)
        checkpoints.discard(folder.path, folder.record.runs)
        collector = Collector(folder)
        collector.rebuild()
        todo = queue.pending(folder.path, question.runs)
        with _noise_noted(folder), contextlib.suppress(Stopped):
            data = prepare(todo, watcher.say, stop, question.cluster)
            watcher.begin(folder.path, todo, len(question.runs) - len(todo))
            _make_all(folder, todo, question.cluster, data, collector, watcher, stop)
        collector.flush()
        statuses = queue.statuses(folder.path, question.runs)
    complete = all(status is Status.COMPLETED for status in statuses.values())
    return Account(collector.rows, complete, stop.is_set())


@contextlib.contextmanager
def _noise_noted(folder: Folder) -> Iterator[None]:
    """Add to `machine.json` how quiet the machine was before and after this part of the study."""
    before = noise(NOISE_S)
    yield
    parts = [*folder.machine.get("noise", ()), {"before": before, "after": noise(NOISE_S)}]
    write_machine(folder.path, {**folder.machine, "noise": parts})


def rehearse(run: RunSpec, cluster: Cluster, environment: Mapping[str, str]) -> LaunchPlan:
    """Return exactly what a run would execute; tokens, ports and folders are known at the launch only."""
    assignment = Assignment(run=run, attempt=1, attempt_id="<attempt>", layout=arrange(run, cluster))
    return plan(assignment, environment, cluster=cluster)


def _make_all(
    folder: Folder,
    todo: Sequence[RunSpec],
    cluster: Cluster,
    data: Mapping[str, Prepared],
    collector: Collector,
    watcher: Watcher,
    stop: threading.Event,
) -> None:
    if not todo:
        return
    with Inbox([host.address for host in cluster.hosts]) as inbox:
        for run in todo:
            if stop.is_set():
                return
            attempt = begin(folder.path, run.run_id)
            watcher.start(run, attempt.number)
            prepared = data.get(recipe_of(run) or "")
            outcome = _make(run, folder.path, attempt, cluster, prepared, inbox, watcher, stop)
            checkpoints.discard(folder.path, [run])
            watcher.end(run, outcome, collector.add(attempt, outcome))
            if outcome.status is Status.FAILED:
                must_have_room(folder.path)


def _make(
    run: RunSpec,
    study: Path,
    attempt: Attempt,
    cluster: Cluster,
    prepared: Prepared | None,
    inbox: Inbox,
    watcher: Watcher,
    stop: threading.Event,
) -> Outcome:
    """Launch one attempt and wait for its end; what a user can mend about it is the reason of a failed run."""
    started_at = datetime.now(UTC).isoformat()
    try:
        assignment = _assignment(run, attempt, cluster, prepared, inbox.home())
        assignment = assignment.model_copy(update={"checkpoint_folder": checkpoints.folder_of(study, run)})
        made = plan(assignment, os.environ, cluster=cluster)
        bring = Afterwards(cluster, os.environ).bring
        outcome = execute(made, assignment, attempt.folder, inbox, watcher.progress, stop, bring)
    except UserError as error:
        outcome = Outcome(status=Status.FAILED, reason=str(error), started_at=started_at)
    write_outcome(attempt.folder, outcome)
    return outcome


def _assignment(run: RunSpec, attempt: Attempt, cluster: Cluster, prepared: Prepared | None, home: Home) -> Assignment:
    return Assignment(
        run=run,
        attempt=attempt.number,
        attempt_id=f"{run.run_id}-{attempt.number}-{secrets.token_hex(8)}",
        layout=arrange(run, cluster),
        home=home,
        data_folder=str(prepared.folder) if prepared else "",
        data_folders=dict(prepared.elsewhere) if prepared else {},
        data_checksum=prepared.checksum if prepared else "",
        log_folder=str(attempt.folder.absolute()),
    )


def _end_leftovers(assignment: Assignment, folder: Path, cluster: Cluster) -> None:
    """End what a killed dlbench has left of an attempt, here and on other hosts."""
    pids = leftovers(assignment.attempt_id)
    if pids:
        end(pids, assignment.run.limits.grace_s)
    Afterwards(cluster, os.environ).bring(assignment, folder, went_well=False)
