"""Attempts of runs: how each ended, which runs are still to be made, and the checkpoints that attempts hand on."""

import contextlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dlbench.errors import UserError, shorten
from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.records.outcome import Outcome, Status, write_outcome
from dlbench.regular_file import read_regular
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.source import first_fault
from dlbench.study.folder import Folder

Content = TypeVar("Content", bound=BaseModel)

KILLED = "dlbench itself was ended while this attempt ran"


@dataclass(frozen=True)
class Attempt:
    """One launch of one run, by its folder: attempts of a run are counted 1, 2, ..."""

    run_id: str
    number: int
    folder: Path

    def outcome(self) -> Outcome | None:
        """Return how it ended, `failed` where the file is damaged; None where it runs or its dlbench was killed."""
        try:
            return _read(self.folder / files.OUTCOME, Outcome)
        except UserError as error:
            return Outcome(status=Status.FAILED, reason=damage(error))

    def assignment(self) -> Assignment | None:
        """Return what its processes received; None where it was killed before that was written.

        Raises:
            UserError: The file is damaged.
        """
        return _read(self.folder / files.ASSIGNMENT, Assignment)


def damage(error: Exception) -> str:
    """Return the reason of an attempt that has failed because a file of it cannot be read, or makes no row."""
    if not isinstance(error, UserError):
        return f"no row can be made of what its workers reported ({type(error).__name__}: {shorten(str(error))})"
    return f"{Path(error.where).name}: {error.message}" if error.where else error.message


def attempts_of(study: Path, run_id: str) -> tuple[Attempt, ...]:
    """Return the attempts of one run in order."""
    parent = study / files.RUNS_FOLDER / run_id
    if not parent.is_dir():
        return ()
    numbers = sorted(int(path.name) for path in parent.iterdir() if path.name.isdecimal() and path.is_dir())
    return tuple(Attempt(run_id, number, parent / str(number)) for number in numbers)


def begin(study: Path, run_id: str) -> Attempt:
    """Make the folder of a run's next attempt.

    Raises:
        OSError: It cannot be made; the study's own folder is never made anew.
    """
    (study / files.RUNS_FOLDER).mkdir(exist_ok=True)
    number = max((attempt.number for attempt in attempts_of(study, run_id)), default=0) + 1
    folder = files.attempt_folder(study, run_id, number)
    folder.mkdir(parents=True)
    return Attempt(run_id, number, folder)


def status_of(study: Path, run: RunSpec) -> Status | None:
    """Return the status of a run: that of its last attempt; None where it has none or that has not ended."""
    outcome = next((attempt.outcome() for attempt in reversed(attempts_of(study, run.run_id))), None)
    return None if outcome is None else outcome.status


def statuses(folder: Folder, rows: Iterable[Mapping[str, Any]]) -> dict[str, str | None]:
    """Return the status of each run of a study by its id; None where it has none yet.

    Args:
        folder: The study.
        rows: Of its `runs.csv`: a published study has these alone, and no attempts.
    """
    of_rows = {row["run_id"]: row["status"] for row in rows}
    return {
        run.run_id: status_of(folder.path, run) if attempts_of(folder.path, run.run_id) else of_rows.get(run.run_id)
        for run in folder.record.runs
    }


def pending(study: Path, runs: Iterable[RunSpec]) -> tuple[RunSpec, ...]:
    """Return the runs, in order, whose last attempt did not end as `completed` or `diverged`."""
    return tuple(run for run in runs if not is_final(study, run))


def is_final(study: Path, run: RunSpec) -> bool:
    """Whether a run is not to be repeated: its last attempt ended as `completed` or `diverged`."""
    status = status_of(study, run)
    return status is not None and status.is_final


def close_interrupted(
    study: Path, runs: Iterable[RunSpec], end_leftovers: Callable[[Assignment, Path], object] | None, note: str = ""
) -> tuple[Attempt, ...]:
    """End what is left of attempts whose dlbench was killed, and write that they were interrupted.

    Call it with the study's lock held: an attempt without an outcome then has no dlbench that waits for it.

    Args:
        study: The study's folder.
        runs: Its runs.
        end_leftovers: Ends all processes of an attempt, on all hosts: gets its assignment and its folder. None where
            they have ended with their hosts' job.
        note: What else is known of the reason.
    """
    unfinished = [attempt for run in runs for attempt in attempts_of(study, run.run_id) if attempt.outcome() is None]
    reason = f"{KILLED} ({note})" if note else KILLED
    for attempt in unfinished:
        assignment = None
        with contextlib.suppress(UserError):  # what is left of one whose assignment is damaged ends by itself
            assignment = attempt.assignment()
        if assignment is not None and end_leftovers is not None:
            end_leftovers(assignment, attempt.folder)
        # Its assignment is written just before it is launched.
        path = attempt.folder / files.ASSIGNMENT
        moment = datetime.fromtimestamp((path if path.exists() else attempt.folder).stat().st_mtime, UTC)
        outcome = Outcome(status=Status.INTERRUPTED, reason=reason, started_at=moment.isoformat())
        write_outcome(attempt.folder, outcome)
    return tuple(unfinished)


def discard_checkpoints(study: Path, runs: Iterable[RunSpec]) -> None:
    """Remove the checkpoints of runs that will not be repeated, unless they are to be kept."""
    for run in runs:
        folder = files.checkpoint_folder(study, run.run_id)
        if not run.limits.keep_checkpoints and folder.exists() and is_final(study, run):
            shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # it is not there, or holds those of other runs
        (study / files.CHECKPOINTS_FOLDER).rmdir()


def _read(path: Path, model: type[Content]) -> Content | None:
    """Return what a file of an attempt holds; None where it was never written."""
    try:
        return model.model_validate_json(read_regular(path))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        why = first_fault(error) if isinstance(error, ValidationError) else error.strerror or str(error)
        raise UserError(f"this file is damaged: {why}", where=str(path)) from error
