"""Runs that had a target: what they reached, and what those that did not had come to when they ended."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dlbench.analysis.formatting import counted
from dlbench.report.chart import MissingRowsError
from dlbench.report.figures._rows import is_completed, learned, numbers, synthetic_note

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

# Settings that say what a run was to reach.
TARGET = ("target_metric", "target_value")
# By column of what is reached: the column of what a run that did not reach it had come to when it ended.
ENDS = {"time_to_target_s": "train_time_s", "epochs_to_target": "epochs_completed"}


def ended(reached: str) -> str:
    """Return the name of the column that `with_ends` adds for one of ENDS."""
    return f"{reached}.ended"


def with_target(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs that had a target, those on synthetic input too."""
    return runs[runs["target_value"].notna()]


def with_ends(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs that had a target and could reach it, with a column `ended(NAME)` beside each of ENDS.

    It holds what a completed run that did not reach the target had come to; the cells of all others are empty, and so
    are those of NAME where a run did not complete.

    Raises:
        MissingRowsError: No run had a target, or none of them completed.
    """
    found = learned(with_target(runs))
    if found.empty:
        raise MissingRowsError(
            "needs a target: set `target: {metric: validation_accuracy, value: 0.9}` in the scenario"
        )
    completed = is_completed(found)
    if not completed.any():
        raise MissingRowsError("needs completed runs that had a target")
    late = completed & found["time_to_target_s"].isna()
    reached = {name: numbers(found, name).where(completed) for name in ENDS}
    return found.assign(**reached, **{ended(name): numbers(found, end).where(late) for name, end in ENDS.items()})


def target_name(values: Mapping[str, Any]) -> str:
    """Return what a target asks for, such as `validation accuracy of at least 0.95`."""
    metric = str(values["target_metric"])
    bound = "at most" if metric.endswith("loss") else "at least"
    return f"{metric.replace('_', ' ')} of {bound} {values['target_value']:g}"


def end_notes(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Say how many runs of `with_ends` did not reach the target, how they count, and how finely the moment is known."""
    late = int(runs[ended("time_to_target_s")].notna().sum())
    everyone = late + int(runs["time_to_target_s"].notna().sum())
    notes = []
    if late:
        notes.append(
            f"{counted(late, 'run')} of {everyone} that completed ended before the target: shown as at least what they "
            "had come to, and later than all others in medians. An arm has no median where half of its runs or more "
            "did."
        )
    intervals = runs["evaluate_every"].dropna().unique().tolist()
    if intervals and max(intervals) > 1:
        notes.append(f"The target is looked for at evaluations alone: every {max(intervals)} epochs.")
    return tuple(notes)


def target_notes(data: "ReportData", runs: "pd.DataFrame") -> Iterator[str]:
    """Say how the runs that were late count, and which of all are left out because they cannot have reached it."""
    yield from end_notes(runs)
    yield from synthetic_note(with_target(data.runs))
