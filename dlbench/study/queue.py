"""Which runs of a study are still to be made."""

from collections.abc import Iterable
from pathlib import Path

from dlbench.records.outcome import Status
from dlbench.scenario.run_spec import RunSpec
from dlbench.study.attempts import attempts_of, status_of


def statuses(study: Path, runs: Iterable[RunSpec]) -> dict[str, Status | None]:
    """Return the status of each run by its id; None where it was never made, or has not ended."""
    return {run.run_id: status_of(attempts_of(study, run.run_id)) for run in runs}


def pending(study: Path, runs: Iterable[RunSpec]) -> tuple[RunSpec, ...]:
    """Return the runs, in order, whose last attempt did not end as `completed` or `diverged`."""
    found = []
    for run in runs:
        status = status_of(attempts_of(study, run.run_id))
        if status is None or not status.is_final:
            found.append(run)
    return tuple(found)
