"""Hand a study to a queue and read what its jobs have made; dlbench itself runs within them."""

import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.launch.execute import write_outcome
from dlbench.launch.submission import NotCollected, Sight, Stage, Submission
from dlbench.plugins import Options
from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.cluster import Cluster
from dlbench.study import queue
from dlbench.study.attempts import settle
from dlbench.study.collect import Collector
from dlbench.study.conduct import Account, Watcher
from dlbench.study.continuation import must_be_the_same
from dlbench.study.folder import Folder, Question, Record, create, discard_unused, open_study, write_record
from dlbench.study.lock import locked
from dlbench.study.request import Request, must_be_launchable
from dlbench.study.submit_follow import follow


@dataclass(frozen=True)
class _Order:
    """What is to be made, and by which submitter."""

    question: Question
    request: Request
    target: Any
    options: Options

    @property
    def is_one_for_each_run(self) -> bool:
        """Whether each run is a job of its own."""
        decide = getattr(self.target, "one_for_each_run", None)
        return bool(decide and decide(self.options))


def waits_for(cluster: Cluster) -> bool:
    """Return whether a cluster's hosts are still to be asked for in a queue."""
    return plugins.load("submitters", cluster.submitter).target.inside(cluster, os.environ) is None


def part_of(question: Question, part: tuple[int, int] | None) -> Question:
    """Return the question of one run: the first number of so many, from 1 on; None returns it as it is.

    Raises:
        UserError: There are not so many runs.
    """
    if part is None:
        return question
    number, total = part
    if len(question.runs) != total or not 1 <= number <= total:
        raise UserError(f"run {number} of {total} is asked for, and the scenario has {len(question.runs)} runs here")
    return replace(question, runs=(question.runs[number - 1],))


def rehearsed(question: Question, request: Request, folder: Folder | None) -> str:
    """Return exactly what would be handed in; the first of several jobs where each run has its own.

    Raises:
        UserError: The queue cannot be asked for that.
    """
    order = _order(question, request)
    study = folder.path if folder else request.output / f"{question.scenario.name}-<UTC time>"
    record = folder.record if folder else _expected(question)
    part = (1, len(question.runs)) if order.is_one_for_each_run else None
    text: str = order.target.text(_submission(order, study, record, part), order.options)
    return text


def submit(
    question: Question, folder: Folder | None, request: Request, watcher: Watcher, stop: threading.Event
) -> tuple[Folder, Account]:
    """Hand in the runs that are pending, follow the jobs to their end, and return the study with how it stands.

    Args:
        question: What is asked for, on the hosts that the queue is asked for.
        folder: The study to continue; None makes a new one.
        request: What the user asked for.
        watcher: Is told how it goes on, and what dlbench in the job says.
        stop: Set to end the job in good order.

    Raises:
        UserError: The queue cannot be used or refuses the job, dlbench in the job refuses to begin, an earlier job is
            still there, or the scenario was edited.
    """
    order = _order(question, request)
    _must_be_usable(order)
    if folder is not None:
        must_be_the_same(folder, question)
        return _submitted(order, _as_asked(_after_the_last_job(order, folder), question), watcher, stop)
    made = create(request.output, question)
    try:
        return _submitted(order, made, watcher, stop)
    except NotCollected:
        raise
    except UserError:
        discard_unused(made)
        raise


def _order(question: Question, request: Request) -> _Order:
    plugin = plugins.load("submitters", question.cluster.submitter)
    return _Order(question, request, plugin.target, plugin.options(**question.cluster.options))


def _must_be_usable(order: _Order) -> None:
    if missing := order.target.available():
        raise UserError(f"the submitter {order.question.cluster.submitter!r} cannot be used here: {missing}")
    if getattr(order.target, "SHARES_FILES", True):
        must_be_launchable(order.question)


def _as_asked(folder: Folder, question: Question) -> Folder:
    """Return a study in which nothing was launched yet, with what is asked for now."""
    if (folder.path / files.RUNS_FOLDER).exists():
        return folder
    record = folder.record.model_copy(update={"cluster": question.cluster, "runs": question.runs})
    write_record(folder.path, record)
    return replace(folder, record=record)


def _after_the_last_job(order: _Order, folder: Folder) -> Folder:
    """Return a study whose last job is over, with what that has made, if nobody has taken it home yet.

    Raises:
        UserError: The job still waits or runs.
    """
    last = replace(_submission(order, folder.path, folder.record, None), number=_last_number(folder.path))
    try:
        name = (last.folder / files.JOB_NAME).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return folder
    job = order.target.job(name, last, order.options)
    sight = job.look()
    if sight.stage in (Stage.WAITING, Stage.RUNNING):
        raise UserError(
            f"a job of this study is there already: {sight.told}",
            hint=f"wait for it or cancel it; it writes into {last.folder}",
        )
    if sight.exit_code is not None:
        job.collect()
    return open_study(folder.path)


def _submitted(order: _Order, folder: Folder, watcher: Watcher, stop: threading.Event) -> tuple[Folder, Account]:
    """Hand in one job after the other: two dlbench in one study, or two runs at once, would disturb each other."""
    sights: list[Sight] = []
    pending = _pending(folder, order.question)
    watcher.say(f"study {folder.path}: {len(pending)} of {len(order.question.runs)} runs to make")
    for part in _parts(order, pending):
        if stop.is_set():
            break
        submission = _submission(order, folder.path, folder.record, part)
        submission.folder.mkdir(parents=True)
        name = order.target.submit(submission, order.options)
        files.write_text(submission.folder / files.JOB_NAME, f"{name}\n")
        sights.append(follow(order.target.job(name, submission, order.options), watcher, stop))
    return _read(order, folder.path, sights, stop)


def _parts(order: _Order, pending: tuple[int, ...]) -> Iterable[tuple[int, int] | None]:
    if order.is_one_for_each_run:
        return [(number, len(order.question.runs)) for number in pending]
    return [None] if pending else []


def _pending(folder: Folder, question: Question) -> tuple[int, ...]:
    """Return the numbers, from 1 on, of the runs that were not made yet.

    A run has other ids where it is made, for they hold its cores: its arm's label and its repeat tell which it is.
    """
    runs = folder.record.runs
    statuses = queue.statuses(folder.path, runs)
    final = {(run.label, run.repeat) for run in runs if (status := statuses[run.run_id]) and status.is_final}
    return tuple(number for number, run in enumerate(question.runs, 1) if (run.label, run.repeat) not in final)


def _submission(order: _Order, study: Path, record: Record, part: tuple[int, int] | None) -> Submission:
    """Return the next submission of a study."""
    which = "all runs" if part is None else f"run {part[0]} of {part[1]}: {order.question.runs[part[0] - 1].label}"
    return Submission(
        study=study.absolute(),
        number=_last_number(study) + 1,
        cluster=order.question.cluster,
        about=f"{study.name}, {which}",
        study_files=_study_files(order.question, record),
        only=order.request.only,
        repeats=order.request.repeats,
        part=part,
        working_folder=Path.cwd(),
        python=sys.executable,
    )


def _study_files(question: Question, record: Record) -> dict[str, str]:
    """Return the files of a study that a job begins where it does not see its folder; it fills in runs and machine."""
    begun = record.model_copy(update={"cluster": question.cluster, "runs": (), "machine_fingerprint": ""})
    found = {
        files.SCENARIO: question.text,
        files.STUDY: begun.model_dump_json(indent=2) + "\n",
        files.MACHINE: "{}\n",
        files.REFERENCE: question.reference,
    }
    return {name: text for name, text in found.items() if text}


def _expected(question: Question) -> Record:
    """Return the record that a new study will have, as far as it is known before."""
    return Record(
        scenario=question.scenario.name,
        scenario_hash="",
        created_at="<UTC time>",
        cluster=question.cluster,
        machine_fingerprint="",
        runs=(),
    )


def _last_number(study: Path) -> int:
    parent = study / files.SUBMISSIONS_FOLDER
    return max((int(path.name) for path in parent.glob("*") if path.name.isdecimal()), default=0)


def _read(order: _Order, study: Path, sights: list[Sight], stop: threading.Event) -> tuple[Folder, Account]:
    """Return a study with the rows of all its attempts; those that a job left without an outcome were interrupted."""
    folder = open_study(study)
    lost = "; ".join(sight.told for sight in sights if sight.exit_code is None)

    def write(attempt: Path, outcome: Outcome) -> None:
        reason = f"{outcome.reason} ({lost})" if lost else outcome.reason
        write_outcome(attempt, outcome.model_copy(update={"reason": reason}))

    with locked(study):
        settle(study, (run.run_id for run in folder.record.runs), _nothing_to_end, write)
        collector = Collector(folder)
        collector.rebuild()
    is_complete = all(sight.exit_code == 0 for sight in sights) and _are_completed(folder, order.question)
    return folder, Account(collector.rows, is_complete and not stop.is_set(), stop.is_set())


def _are_completed(folder: Folder, question: Question) -> bool:
    asked = {(run.label, run.repeat) for run in question.runs}
    statuses = queue.statuses(folder.path, folder.record.runs)
    found = [statuses[run.run_id] for run in folder.record.runs if (run.label, run.repeat) in asked]
    return all(status is Status.COMPLETED for status in found)


def _nothing_to_end(assignment: Assignment, folder: Path) -> None:
    """Leave processes alone: they were on the hosts of the job, and have ended with it."""
