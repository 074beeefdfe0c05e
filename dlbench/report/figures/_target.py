"""Arms that had a target: what their runs reached, and what those that did not had come to when they ended."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import counted
from dlbench.analysis.groups import values_of
from dlbench.report.chart import MissingRowsError
from dlbench.report.figures._shown import synthetic_note
from dlbench.report.lines import ended

if TYPE_CHECKING:
    from dlbench.report.data import ReportData

# Settings that say what a run was to reach.
TARGET = ("target_metric", "target_value")
TIME, EPOCHS = "time_to_target_s", "epochs_to_target"


def with_ends(arms: Iterable[Arm]) -> list[Arm]:
    """Return the arms that had a target and could reach it, with the columns `ended(TIME)` and `ended(EPOCHS)`.

    They hold what a run that did not reach the target had come to, and None for all others.

    Raises:
        MissingRowsError: No run had a target, or none of them completed.
    """
    aimed = [arm for arm in arms if arm.get("target_value") is not None and arm.scores_mean_something]
    if not aimed:
        raise MissingRowsError(
            "needs a target: set `target: {metric: validation_accuracy, value: 0.9}` in the scenario"
        )
    if not any(arm.completed for arm in aimed):
        raise MissingRowsError("needs completed runs that had a target")
    ends = {
        ended(TIME): lambda row: row.get("train_time_s") if row.get(TIME) is None else None,
        ended(EPOCHS): lambda row: row.get("epochs_completed") if row.get(TIME) is None else None,
    }
    return [arm.having(**ends) for arm in aimed]


def target_name(values: Mapping[str, Any]) -> str:
    """Return what a target asks for, such as `validation accuracy of at least 0.95`."""
    metric = str(values["target_metric"])
    bound = "at most" if metric.endswith("loss") else "at least"
    return f"{metric.replace('_', ' ')} of {bound} {values['target_value']:g}"


def end_notes(arms: Sequence[Arm]) -> tuple[str, ...]:
    """Say how many runs of `with_ends` did not reach the target, how they count, and how finely the moment is known."""
    completed = [row for arm in arms for row in arm.completed]
    late, reached = (sum(row.get(name) is not None for row in completed) for name in (ended(TIME), TIME))
    notes = []
    if late:
        notes.append(
            f"{counted(late, 'run')} of {late + reached} that completed ended before the target: shown as at least "
            "what they had come to, and later than all others in medians. An arm has no median where half of its runs "
            "or more did."
        )
    intervals = values_of(arms, "evaluate_every")
    if intervals and max(intervals) > 1:
        notes.append(f"The target is looked for at evaluations alone: every {max(intervals)} epochs.")
    return tuple(notes)


def target_notes(data: "ReportData", arms: Sequence[Arm]) -> Iterator[str]:
    """Say how the runs that were late count, and which of all are left out because they cannot have reached it."""
    yield from end_notes(arms)
    yield from synthetic_note(arm for arm in data.arms if arm.get("target_value") is not None)
