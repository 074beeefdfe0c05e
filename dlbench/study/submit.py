"""Submit a study to a queue and collect what its jobs have made; dlbench itself runs within them."""

import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.launch.submission import JobStatus, Stage, Submission
from dlbench.records import files
from dlbench.records.outcome import Status
from dlbench.study.attempts import close_interrupted, is_final, status_of
from dlbench.study.collect import Collector
from dlbench.study.folder import Folder, Record, StudyPlan, new_record, open_study, record_text, write_record
from dlbench.study.follow import follow
from dlbench.study.lock import locked
from dlbench.study.plan import Request, require_launchable
from dlbench.study.resume import refuse_edited
from dlbench.study.runner import StudyResult, Watcher

# Exit codes of dlbench where every run completed, as the scenario expects and otherwise.
_AS_EXPECTED, _NOT_AS_EXPECTED = 0, 3


class Queue:
    """Submits the runs of a plan by the submitter of its cluster.

    Args:
        plan: What is asked for, on the hosts that the queue is asked for.
        request: What the user asked for.
    """

    def __init__(self, plan: StudyPlan, request: Request) -> None:
        plugin = plugins.load("submitters", plan.cluster.submitter)
        self._plan, self._request, self._target = plan, request, plugin.target
        self._options = plugin.options(**plan.cluster.options)
        decide = getattr(plugin.target, "one_for_each_run", None)
        self._one_for_each_run = bool(decide and decide(self._options))

    def require_usable(self) -> None:
        """Refuse a submitter, or a launcher, that cannot be used here.

        Raises:
            UserError: Says what is missing.
        """
        self._require_one_job()
        if missing := self._target.available():
            raise UserError(f"the submitter {self._plan.cluster.submitter!r} cannot be used here: {missing}")
        if getattr(self._target, "SHARES_FILES", True):
            require_launchable(self._plan.runs, self._plan.cluster)

    def _require_one_job(self) -> None:
        """Refuse a job for each run where these depend on each other, or share a budget."""
        if self._one_for_each_run and (self._plan.is_open or self._request.budget.is_limited):
            raise UserError(
                "jobs of one run each cannot search, repeat until decided, confirm or keep a budget",
                hint="let one job make all runs",
            )

    def dry_run_text(self, folder: Folder | None) -> str:
        """Return exactly what would be submitted; the first of several jobs where each run has its own.

        Raises:
            UserError: The queue cannot be asked for that.
        """
        self._require_one_job()
        now = "<UTC time>"
        path = folder.path if folder else self._request.output / f"{self._plan.scenario.name}-{now}"
        record = folder.record if folder else new_record(self._plan, now)
        part = (1, len(self._plan.runs)) if self._one_for_each_run else None
        text: str = self._target.text(self._submission(path, record, part), self._options)
        return text

    def submit(self, folder: Folder, watcher: Watcher, stop: threading.Event) -> StudyResult:
        """Submit the runs that are pending, follow the jobs to their end, and return how the study stands.

        One job after the other: two dlbench in one study, or two runs at once, would disturb each other.

        Args:
            folder: The study, new or continued.
            watcher: Receives the progress, and what dlbench in the job prints.
            stop: Set to end the job cleanly.

        Raises:
            UserError: The queue refuses the job, dlbench in the job refuses to begin, an earlier job is still there,
                or the scenario was edited.
        """
        refuse_edited(folder, self._plan)
        folder = self._after_last_job(folder)
        if not (folder.path / files.RUNS_FOLDER).exists():  # nothing was launched in it: it is as asked for now
            where = self._plan.where or folder.record.where
            update = {"cluster": self._plan.cluster, "runs": self._plan.runs, "where": where}
            folder = replace(folder, record=folder.record.model_copy(update=update))
            write_record(folder.path, folder.record)
        total = len(self._plan.runs)
        pending = self._pending(folder)
        parts: Iterable[tuple[int, int] | None] = [(number, total) for number in pending]
        if not self._one_for_each_run:
            parts = [None] if pending else []
        watcher.say(f"study {folder.path}: {len(pending)} of {total} runs to make")
        statuses: list[JobStatus] = []
        for part in parts:
            if stop.is_set():
                break
            submission = self._submission(folder.path, folder.record, part)
            submission.folder.mkdir(parents=True)
            name = self._target.submit(submission, self._options)
            files.write_text(submission.folder / files.JOB_NAME, f"{name}\n")
            statuses.append(follow(self._target.job(name, submission, self._options), watcher, stop))
        return self._result(folder.path, statuses, stop)

    def _after_last_job(self, folder: Folder) -> Folder:
        """Return a study whose last job is over, with what that has made.

        Raises:
            UserError: The job still waits or runs.
        """
        last = replace(self._submission(folder.path, folder.record, None), number=_last_number(folder.path))
        try:
            name = (last.folder / files.JOB_NAME).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return folder
        job = self._target.job(name, last, self._options)
        status = job.status()
        if status.stage in (Stage.WAITING, Stage.RUNNING):
            raise UserError(
                f"a job of this study is there already: {status.text}",
                hint=f"wait for it or cancel it; it writes into {last.folder}",
            )
        if status.exit_code is not None:
            job.clean_up()
        return open_study(folder.path)

    def _pending(self, folder: Folder) -> tuple[int, ...]:
        """Return the numbers, from 1 on, of the runs that were not made yet.

        A run has other ids where it is made, for they hold its cores: its arm's label and its repeat identify it.
        """
        if self._plan.is_open:
            return tuple(range(1, len(self._plan.runs) + 1))  # only dlbench in the job can tell
        final = {(run.label, run.repeat) for run in folder.record.runs if is_final(folder.path, run)}
        return tuple(number for number, run in enumerate(self._plan.runs, 1) if (run.label, run.repeat) not in final)

    def _submission(self, study: Path, record: Record, part: tuple[int, int] | None) -> Submission:
        """Return the next submission of a study."""
        which = "all runs" if part is None else f"run {part[0]} of {part[1]}: {self._plan.runs[part[0] - 1].label}"
        return Submission(
            study=study.absolute(),
            number=_last_number(study) + 1,
            cluster=self._plan.cluster,
            about=f"{study.name}, {which}",
            study_files=self._study_files(record),
            only=self._request.only,
            repeats=str(self._request.repeats or ""),
            options=self._request.words,
            part=part,
            working_folder=Path.cwd(),
            python=sys.executable,
        )

    def _study_files(self, record: Record) -> dict[str, str]:
        """Return the files of a study for a job that does not see its folder; the job fills in runs and machine."""
        begun = record.model_copy(update={"cluster": self._plan.cluster, "runs": (), "machine_fingerprint": ""})
        texts = {
            files.SCENARIO: self._plan.text,
            files.STUDY: record_text(begun),
            files.MACHINE: "{}\n",
            files.REFERENCE: self._plan.reference,
        }
        return {name: text for name, text in texts.items() if text}

    def _result(self, study: Path, statuses: list[JobStatus], stop: threading.Event) -> StudyResult:
        """Return how a study stands; attempts that a job left without an outcome were interrupted.

        Of a study that was made on a volume which is not seen here, only the exit codes of its jobs are known.
        """
        folder, codes = open_study(study), {status.exit_code for status in statuses}
        went_well = codes <= {_AS_EXPECTED, _NOT_AS_EXPECTED}
        if not getattr(self._target, "SHARES_FILES", True) and not (study / files.RUNS_FOLDER).exists():
            is_complete = went_well and not stop.is_set()
            return StudyResult(folder, [], is_complete, stop.is_set(), is_unmet=_NOT_AS_EXPECTED in codes)
        lost = "; ".join(status.text for status in statuses if status.exit_code is None)
        with locked(study):
            close_interrupted(study, folder.record.runs, None, lost)
            collector = Collector(folder, self._plan.scenario.step_table)
            collector.rebuild()
            collector.finish()
        asked = {(run.label, run.repeat) for run in self._plan.runs}
        asked_runs = [run for run in folder.record.runs if (run.label, run.repeat) in asked]
        are_made = self._plan.is_open or all(status_of(study, run) is Status.COMPLETED for run in asked_runs)
        is_complete = went_well and are_made and not stop.is_set()
        return StudyResult(folder, collector.rows, is_complete, stop.is_set(), collector.problem)


def _last_number(study: Path) -> int:
    parent = study / files.SUBMISSIONS_FOLDER
    return max((int(path.name) for path in parent.glob("*") if path.name.isdecimal()), default=0)
