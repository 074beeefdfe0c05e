"""The answers of studies on disk: goals, conditions and prices from their own files, or as they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from dlbench.analysis.answer.answer import Answers
from dlbench.analysis.answer.decide import Wanted
from dlbench.analysis.answer.recommend import StudyPlace, recommend, retargeted
from dlbench.analysis.arms import Arm, columns_of
from dlbench.errors import UserError
from dlbench.records import files
from dlbench.records.columns import names
from dlbench.records.machine import found_in
from dlbench.regular_file import read_json
from dlbench.report.data import ReportData, StudyData
from dlbench.scenario.cluster import Prices
from dlbench.scenario.goal import read_goal
from dlbench.scenario.metrics import Metric, declared


@dataclass(frozen=True)
class Question:
    """What is asked of studies in place of what their scenarios say.

    Attributes:
        goal: One of the forms of `dlbench.scenario.goal`; empty: the scenarios'.
        prices: Of the cluster; None: those of its file.
        deadline_s: Longest time that an arm may take.
        max_cost: Most that an arm may cost.
        given: Settings that are conditions, beside the scenarios'.
    """

    goal: str = ""
    prices: Prices | None = None
    deadline_s: float | None = None
    max_cost: float | None = None
    given: tuple[str, ...] = ()


def metrics_of(data: ReportData) -> dict[str, Metric]:
    """Return the metrics of all studies by column: the built-in ones and those that their scenarios declare."""
    found: dict[str, Metric] = {}
    for study in data.studies:
        found |= declared(study.scenario.metrics if study.scenario else {})
    return found


def answers_of(data: ReportData, question: Question | None = None) -> Answers:
    """Return the answers of the studies of a report.

    Raises:
        UserError: The goal or a condition is none, or the studies have different goals.
    """
    asked, metrics = question or Question(), metrics_of(data)
    scenarios = [study.scenario for study in data.studies if study.scenario is not None]
    goals = dict.fromkeys([asked.goal] if asked.goal else [scenario.goal for scenario in scenarios if scenario.goal])
    if len(goals) > 1:
        raise UserError("the studies have different goals", hint=f"--goal {next(iter(goals))!r}")
    goal = read_goal(next(iter(goals)), metrics) if goals else None
    arms: Sequence[Arm] = data.arms
    if goal is not None and goal.target is not None:
        targets = {(arm.get("target_metric"), arm.get("target_value")) for arm in arms}
        if targets != {goal.target}:
            if data.epochs.empty:
                raise UserError("a target after the fact needs the scores of the epochs, which no study here has")
            arms = retargeted(arms, data.epochs, goal.target, metrics)
    records = {study.name: _record(study) for study in data.studies}
    prices = asked.prices or next(filter(None, map(_prices, records.values())), None)
    if asked.max_cost is not None and prices is None:
        raise UserError("--max-cost needs a price", hint="--price 2.5/worker-hour, or `prices` in the cluster file")
    given = dict.fromkeys((*asked.given, *(key for scenario in scenarios for key in scenario.given)))
    known = {*names("runs"), *columns_of(arms), "learning_rate", "mode"}
    if unknown := [key for key in asked.given if key not in known]:
        raise UserError(f"--given {unknown[0]}: no column of the studies is called so")
    wanted = Wanted(goal, metrics, prices, asked.deadline_s, asked.max_cost)
    places = {study.name: _place(study, records[study.name]) for study in data.studies}
    return Answers(answers=recommend(arms, wanted, places, given=tuple(given)))


def _place(study: StudyData, record: dict[str, object]) -> StudyPlace:
    """Return where a study is; one without `study.json` was published, and cannot go on."""
    runs = found_in(record, "runs")
    asked = len(runs) if isinstance(runs, list) else 0
    return StudyPlace(study.path, bool(record), max(0, asked - len({row["run_id"] for row in study.attempts})))


def _prices(record: dict[str, object]) -> Prices | None:
    found = found_in(record, "cluster", "prices")
    try:
        return None if found is None else Prices.model_validate(found)
    except ValidationError:
        return None


def _record(study: StudyData) -> dict[str, object]:
    try:
        found = read_json(study.path / files.STUDY)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
