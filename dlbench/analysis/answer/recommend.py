"""Answers from rows: one for each comparison group, each with the command that would tell most next."""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.answer.answer import Answer, Next
from dlbench.analysis.answer.comparison_group import ComparisonGroup, comparison_groups
from dlbench.analysis.answer.decide import Wanted, decide, of_nothing
from dlbench.analysis.answer.lines import open_arms
from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import counted
from dlbench.records import files
from dlbench.records.outcome import Status
from dlbench.scenario.metrics import BUILT_IN, Metric

if TYPE_CHECKING:
    import pandas as pd

# A rate at which nothing is learned is tried again at this share of it.
LOWER_RATE = 0.1
# A loss by so much above that of a model that knows nothing is one that training has driven there.
TOO_FAST = 0.1


@dataclass(frozen=True)
class StudyPlace:
    """Where a study is, for commands that go on with it.

    Attributes:
        path: Its folder.
        can_continue: Whether runs can be added: a published study holds its tables alone.
        missing: Runs of it that have no row.
    """

    path: Path
    can_continue: bool = True
    missing: int = 0


def recommend(
    runs: "pd.DataFrame",
    wanted: Wanted,
    places: Mapping[str, StudyPlace] | None = None,
    given: Collection[str] = (),
) -> tuple[Answer, ...]:
    """Return the answers of some studies.

    Args:
        runs: The last attempt of each run, completed or not: columns of `runs.csv` and `placement`.
        wanted: Goal, metrics and prices.
        places: Where each study is, by its name; commands are named for those alone.
        given: Settings that are conditions beside those that always are.
    """
    found = []
    for group in comparison_groups(runs, given):
        places_here = [place for arm in group.arms if (place := (places or {}).get(arm.study or ""))]
        missing = sum(place.missing for place in dict.fromkeys(places_here))
        answer = decide(group, wanted)
        if missing:
            # What is still to be run may be better than all that was.
            answer = answer.model_copy(
                update={"missing": missing, "use": None, "either": (), "cheaper": None, "faster": None}
            )
        following = _next(answer, group, places_here[0]) if len(set(places_here)) == 1 else None
        found.append(answer.model_copy(update={"next": following}))
    return tuple(found)


def retargeted(
    runs: "pd.DataFrame", epochs: "pd.DataFrame", target: tuple[str, float], metrics: Mapping[str, Metric]
) -> "pd.DataFrame":
    """Return runs with the time to another target than their scenario's, from the scores of their epochs.

    A run that a target of its own ended before it came to this one has not reached it.

    Args:
        runs: The last attempt of each run.
        epochs: Their epochs: columns of `epochs.csv` and `study`.
        target: Column and value.
        metrics: All metrics by column.
    """
    name, aim = target
    keys = ["study", "run_id"]
    metric = metrics[name]
    known = epochs[epochs[name].notna()] if name in epochs else epochs[:0]
    is_reached = known[name] >= aim if metric.is_higher_better else known[name] <= aim
    first = known[is_reached].groupby(keys)["train_time_s"].min().rename("time_to_target_s")
    found = runs.drop(columns="time_to_target_s").merge(first, on=keys, how="left")
    return found.assign(target_metric=name, target_value=aim)


def _next(answer: Answer, group: ComparisonGroup, place: StudyPlace) -> Next:
    """Return the command that would tell most about a group."""
    study, scenario = shlex.quote(str(place.path)), shlex.quote(str(place.path / files.SCENARIO))
    rows = [row for arm in group.arms for row in arm.rows]
    seconds = [float(row["wall_time_s"]) for row in rows if row.get("wall_time_s")]
    each = median(seconds) if seconds else 0.0
    if answer.missing and place.can_continue:
        return Next(
            command=f"dlbench run --study {study}",
            why=f"{counted(answer.missing, 'run')} to be made",
            seconds=each * answer.missing,
        )
    again = [row for row in rows if row["status"] not in (Status.COMPLETED, Status.DIVERGED)]
    if again and place.can_continue:
        return Next(
            command=f"dlbench run --study {study}",
            why=f"repeats {counted(len(again), 'run')} that failed",
            seconds=each * len(again),
        )
    further = [
        judged.difference.further for _, judged in open_arms(answer) if judged.difference and judged.difference.further
    ]
    repeats = max((arm.completed for arm in answer.arms), default=0)
    if further:
        total = repeats + further[0]
        command = (
            f"dlbench run --study {study} --repeats {total}"
            if place.can_continue
            else f"dlbench run {scenario} --repeats {total}"
        )
        runs = further[0] * len(group.arms) if place.can_continue else total * len(group.arms)
        return Next(command=command, why="settles what is open", seconds=each * runs)
    if answer.use is None and all(arm.word == "out" for arm in answer.arms):
        rates = {row["learning_rate_base"] for row in rows if row.get("learning_rate_base")}
        if any(_is_too_fast(arm) for arm in group.completed) and len(rates) == 1:
            rate = f"{LOWER_RATE * rates.pop():g}"
            return Next(
                command=f"dlbench run {scenario} --set learning_rate={rate}", why="a rate that may learn", seconds=None
            )
        epochs = {int(row["epochs"]) for row in rows if row.get("epochs")}
        if any("reached" in arm.reason or "knowing nothing" in arm.reason for arm in answer.arms) and len(epochs) == 1:
            return Next(
                command=f"dlbench run {scenario} --set epochs={2 * epochs.pop()}",
                why="longer training may learn more",
                seconds=None,
            )
    return Next(command=f"dlbench report {study}", why="charts, evidence, all doubts", seconds=None)


def _is_too_fast(arm: Arm) -> bool:
    """Whether an arm's loss is above that of a model that knows nothing: it was driven there, not left there."""
    metric = BUILT_IN["validation_loss"]
    found, nothing = list(arm.comparable(metric.column).values()), of_nothing(arm, metric)
    return bool(found) and nothing is not None and median(found) > (1 + TOO_FAST) * nothing
