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
from dlbench.launch.submission import JobStatus, NotCollected, Stage, Submission
from dlbench.plugins import Options
from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.cluster import Cluster
from dlbench.study.attempts import close_interrupted, is_final, status_of
from dlbench.study.collect import Collector
from dlbench.study.folder import Folder, Record, create, discard_unused, open_study, write_record
from dlbench.study.follow import follow
from dlbench.study.lock import locked
from dlbench.study.plan import Request, StudyPlan, require_launchable
from dlbench.study.resume import refuse_edited
from dlbench.study.runner import StudyResult, Watcher


@dataclass(frozen=True)
class _Queued:
    """What is to be made, and by which submitter."""

    plan: StudyPlan
    request: Request
    target: Any
    options: Options

    @property
    def is_one_for_each_run(self) -> bool:
        """Whether each run is a job of its own."""
        decide = getattr(self.target, "one_for_each_run", None)
        return bool(decide and decide(self.options))


def is_queued(cluster: Cluster) -> bool:
    """Return whether a cluster's hosts are still to be asked for in a queue."""
    return plugins.load("submitters", cluster.submitter).target.inside(cluster, os.environ) is None


def part_of(plan: StudyPlan, part: tuple[int, int] | None) -> StudyPlan:
    """Return the plan of one run: the first number of so many, from 1 on; None returns it as it is.

    Raises:
        UserError: There are not so many runs.
    """
    if part is None:
        return plan
    number, total = part
    if len(plan.runs) != total or not 1 <= number <= total:
        raise UserError(f"run {number} of {total} is asked for, and the scenario has {len(plan.runs)} runs here")
    return replace(plan, runs=(plan.runs[number - 1],))


def dry_run_text(plan: StudyPlan, request: Request, folder: Folder | None) -> str:
    """Return exactly what would be handed in; the first of several jobs where each run has its own.

    Raises:
        UserError: The queue cannot be asked for that.
    """
    queued = _in_queue(plan, request)
    study = folder.path if folder else request.output / f"{plan.scenario.name}-<UTC time>"
    record = folder.record if folder else _expected(plan)
    part = (1, len(plan.runs)) if queued.is_one_for_each_run else None
    text: str = queued.target.text(_submission(queued, study, record, part), queued.options)
    return text


def submit(
    plan: StudyPlan, folder: Folder | None, request: Request, watcher: Watcher, stop: threading.Event
) -> tuple[Folder, StudyResult]:
    """Hand in the runs that are pending, follow the jobs to their end, and return the study with how it stands.

    Args:
        plan: What is asked for, on the hosts that the queue is asked for.
        folder: The study to continue; None makes a new one.
        request: What the user asked for.
        watcher: Receives the progress, and what dlbench in the job prints.
        stop: Set to end the job in good order.

    Raises:
        UserError: The queue cannot be used or refuses the job, dlbench in the job refuses to begin, an earlier job is
            still there, or the scenario was edited.
    """
    queued = _in_queue(plan, request)
    _require_usable(queued)
    if folder is not None:
        refuse_edited(folder, plan)
        return _submit_jobs(queued, _as_asked(_after_last_job(queued, folder), plan), watcher, stop)
    made = create(request.output, plan)
    try:
        return _submit_jobs(queued, made, watcher, stop)
    except NotCollected:
        raise
    except UserError:
        discard_unused(made)
        raise


def _in_queue(plan: StudyPlan, request: Request) -> _Queued:
    plugin = plugins.load("submitters", plan.cluster.submitter)
    return _Queued(plan, request, plugin.target, plugin.options(**plan.cluster.options))


def _require_usable(queued: _Queued) -> None:
    if missing := queued.target.available():
        raise UserError(f"the submitter {queued.plan.cluster.submitter!r} cannot be used here: {missing}")
    if getattr(queued.target, "SHARES_FILES", True):
        require_launchable(queued.plan)


def _as_asked(folder: Folder, plan: StudyPlan) -> Folder:
    """Return a study in which nothing was launched yet, with what is asked for now."""
    if (folder.path / files.RUNS_FOLDER).exists():
        return folder
    record = folder.record.model_copy(update={"cluster": plan.cluster, "runs": plan.runs})
    write_record(folder.path, record)
    return replace(folder, record=record)


def _after_last_job(queued: _Queued, folder: Folder) -> Folder:
    """Return a study whose last job is over, with what that has made, fetched if it was not yet.

    Raises:
        UserError: The job still waits or runs.
    """
    last = replace(_submission(queued, folder.path, folder.record, None), number=_last_number(folder.path))
    try:
        name = (last.folder / files.JOB_NAME).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return folder
    job = queued.target.job(name, last, queued.options)
    status = job.look()
    if status.stage in (Stage.WAITING, Stage.RUNNING):
        raise UserError(
            f"a job of this study is there already: {status.text}",
            hint=f"wait for it or cancel it; it writes into {last.folder}",
        )
    if status.exit_code is not None:
        job.collect()
    return open_study(folder.path)


def _submit_jobs(
    queued: _Queued, folder: Folder, watcher: Watcher, stop: threading.Event
) -> tuple[Folder, StudyResult]:
    """Hand in one job after the other: two dlbench in one study, or two runs at once, would disturb each other."""
    statuses: list[JobStatus] = []
    pending = _pending(folder, queued.plan)
    watcher.say(f"study {folder.path}: {len(pending)} of {len(queued.plan.runs)} runs to make")
    for part in _parts(queued, pending):
        if stop.is_set():
            break
        submission = _submission(queued, folder.path, folder.record, part)
        submission.folder.mkdir(parents=True)
        name = queued.target.submit(submission, queued.options)
        files.write_text(submission.folder / files.JOB_NAME, f"{name}\n")
        statuses.append(follow(queued.target.job(name, submission, queued.options), watcher, stop))
    return _collect(queued, folder.path, statuses, stop)


def _parts(queued: _Queued, pending: tuple[int, ...]) -> Iterable[tuple[int, int] | None]:
    if queued.is_one_for_each_run:
        return [(number, len(queued.plan.runs)) for number in pending]
    return [None] if pending else []


def _pending(folder: Folder, plan: StudyPlan) -> tuple[int, ...]:
    """Return the numbers, from 1 on, of the runs that were not made yet.

    A run has other ids where it is made, for they hold its cores: its arm's label and its repeat tell which it is.
    """
    final = {(run.label, run.repeat) for run in folder.record.runs if is_final(folder.path, run)}
    return tuple(number for number, run in enumerate(plan.runs, 1) if (run.label, run.repeat) not in final)


def _submission(queued: _Queued, study: Path, record: Record, part: tuple[int, int] | None) -> Submission:
    """Return the next submission of a study."""
    which = "all runs" if part is None else f"run {part[0]} of {part[1]}: {queued.plan.runs[part[0] - 1].label}"
    return Submission(
        study=study.absolute(),
        number=_last_number(study) + 1,
        cluster=queued.plan.cluster,
        about=f"{study.name}, {which}",
        study_files=_study_files(queued.plan, record),
        only=queued.request.only,
        repeats=queued.request.repeats,
        part=part,
        working_folder=Path.cwd(),
        python=sys.executable,
    )


def _study_files(plan: StudyPlan, record: Record) -> dict[str, str]:
    """Return the files of a study that a job begins where it does not see its folder; it fills in runs and machine."""
    begun = record.model_copy(update={"cluster": plan.cluster, "runs": (), "machine_fingerprint": ""})
    found = {
        files.SCENARIO: plan.text,
        files.STUDY: begun.model_dump_json(indent=2) + "\n",
        files.MACHINE: "{}\n",
        files.REFERENCE: plan.reference,
    }
    return {name: text for name, text in found.items() if text}


def _expected(plan: StudyPlan) -> Record:
    """Return the record that a new study will have, as far as it is known before."""
    return Record(
        scenario=plan.scenario.name,
        scenario_hash="",
        created_at="<UTC time>",
        cluster=plan.cluster,
        machine_fingerprint="",
        runs=(),
    )


def _last_number(study: Path) -> int:
    parent = study / files.SUBMISSIONS_FOLDER
    return max((int(path.name) for path in parent.glob("*") if path.name.isdecimal()), default=0)


def _collect(
    queued: _Queued, study: Path, statuses: list[JobStatus], stop: threading.Event
) -> tuple[Folder, StudyResult]:
    """Return a study with the rows of all its attempts; those that a job left without an outcome were interrupted."""
    folder = open_study(study)
    lost = "; ".join(status.text for status in statuses if status.exit_code is None)

    def write(attempt: Path, outcome: Outcome) -> None:
        reason = f"{outcome.reason} ({lost})" if lost else outcome.reason
        write_outcome(attempt, outcome.model_copy(update={"reason": reason}))

    with locked(study):
        close_interrupted(study, folder.record.runs, _leave_alone, write)
        collector = Collector(folder)
        collector.rebuild()
    is_complete = all(status.exit_code == 0 for status in statuses) and _are_completed(folder, queued.plan)
    return folder, StudyResult(collector.rows, is_complete and not stop.is_set(), stop.is_set())


def _are_completed(folder: Folder, plan: StudyPlan) -> bool:
    asked = {(run.label, run.repeat) for run in plan.runs}
    made = [run for run in folder.record.runs if (run.label, run.repeat) in asked]
    return all(status_of(folder.path, run) is Status.COMPLETED for run in made)


def _leave_alone(assignment: Assignment, folder: Path) -> None:
    """Leave processes alone: they were on the hosts of the job, and have ended with it."""
