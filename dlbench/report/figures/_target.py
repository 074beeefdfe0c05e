"""Arms that had a target: what their runs reached, and where those that did not were when they ended."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dlbench.analysis.arms import Arm, Row, quotient
from dlbench.analysis.formatting import counted
from dlbench.analysis.groups import groups, values_of, ways
from dlbench.report.chart import MissingRowsError
from dlbench.report.figures._shown import synthetic_note
from dlbench.report.lines import ended
from dlbench.scenario.metrics import BUILT_IN, TIME_TO_TARGET

# Settings that say what a run was to reach.
TARGET = ("target_metric", "target_value")
TIME, EPOCHS = TIME_TO_TARGET.column, "epochs_to_target"
PER_SAMPLE = "bytes_per_sample"


def late(row: Row) -> float | None:
    """Return how long a run took that ended before its target, infinite where it is unknown; None for all others."""
    is_late = row.get("target_value") is not None and row.get(TIME) is None
    return (row.get("train_time_s") or math.inf) if is_late else None


def with_ends(arms: Iterable[Arm]) -> list[Arm]:
    """Return the arms that had a target and could reach it, with the columns `ended(TIME)` and `ended(EPOCHS)`.

    Raises:
        MissingRowsError: No run had a target.
    """
    aimed = [arm for arm in arms if arm.get("target_value") is not None and arm.scores_mean_something]
    if not aimed:
        raise MissingRowsError(
            "needs a target: set `target: {metric: validation_accuracy, value: 0.9}` in the scenario"
        )
    ends = {ended(TIME): late, ended(EPOCHS): lambda row: row.get("epochs_completed")}
    return [arm.having(**ends) for arm in aimed]


def with_messages(arms: Iterable[Arm]) -> list[Arm]:
    """Return the arms of several workers with the column PER_SAMPLE, and how long runs took that missed a target.

    Raises:
        MissingRowsError: None sends messages between nodes.
    """
    parallel = ways(arms)
    if not values_of(parallel, "messages"):
        raise MissingRowsError("needs completed runs of two or more strategies, one of which sends messages")
    columns = {PER_SAMPLE: lambda row: quotient(row.get("bytes_sent"), row.get("samples_seen")), ended(TIME): late}
    return [arm.having(**columns) for arm in parallel]


def target_name(values: Mapping[str, Any]) -> str:
    """Return what a target asks for, such as `validation accuracy of at least 0.95`."""
    metric = BUILT_IN.get(str(values["target_metric"]))
    bound = "" if metric is None else "at least " if metric.is_higher_better else "at most "
    return f"{str(values['target_metric']).replace('_', ' ')} of {bound}{values['target_value']:g}"


def end_notes(arms: Sequence[Arm]) -> Iterator[str]:
    """Say how many runs of `with_ends` did not reach the target, how they count, and how finely the moment is known."""
    aimed = [row for arm in arms for row in arm.completed if ended(TIME) in row]
    if num_late := sum(row.get(TIME) is None for row in aimed):
        where = ", where that is known," * any(row[ended(TIME)] == math.inf for row in aimed)
        yield (
            f"{counted(num_late, 'run')} of {len(aimed)} that completed ended before the target: shown as at least "
            f"what they had come to{where} and later than all others in medians. An arm has no median where half of "
            "its runs or more did."
        )
    if (interval := max(values_of(arms, "evaluate_every"), default=1)) > 1:
        yield f"The target is looked for at evaluations alone: every {interval} epochs."


def target_notes(arms: Iterable[Arm], shown: Sequence[Arm]) -> Iterator[str]:
    """Say how the runs that were late count, and which of all are left out because they cannot have reached it."""
    yield from end_notes(shown)
    yield from synthetic_note(arm for arm in arms if arm.get("target_value") is not None)


def message_notes(_: Sequence[Arm], shown: Sequence[Arm]) -> Iterator[str]:
    """Say what the targets are, and how the runs count that did not reach them."""
    aimed = [arm for arm in shown if arm.get("target_value") is not None]
    yield from (f"The target is a {target_name(values)}." for values, _ in groups(aimed, TARGET))
    yield from end_notes(aimed)
