"""The decision: which arms are out, which keep, lose or are open, which one to use, and what would settle the rest."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median

from dlbench import plugins
from dlbench.analysis.answer.answer import Answer, ArmAnswer, Difference, Judged, Spread, Word
from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.answer.doubts import MUCH_LOAD, doubts, not_completed, unlike_batch
from dlbench.analysis.arms import Arm, Repeat, Row
from dlbench.analysis.formatting import counted, difference, number, quantity
from dlbench.analysis.groups import written_name
from dlbench.analysis.judge import Family, Verdict, judge
from dlbench.analysis.metrics.pareto import front, knee
from dlbench.analysis.statistics.intervals import median_interval
from dlbench.errors import UserError
from dlbench.records.outcome import Status
from dlbench.scenario.cluster import Prices
from dlbench.scenario.goal import Goal
from dlbench.scenario.metrics import BUILT_IN, QUALITY, RATE, TIME_TO_TARGET, TRAIN_TIME, Metric
from dlbench.scenario.run_spec import arm_name

# A validation loss so many times that of a model that knows nothing is no loss of a model that learns.
EXPLODED = 10.0
# Why one worker of a strategy that communicates is no choice beside the base line.
OVERHEAD = "one worker alone does the same without messages"
# Arms that save less than this share of the worker-hours are not called cheaper.
LEAST_SAVING = 0.1


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Attributes:
        goal: What decides; None: what each arm's scenario says.
        metrics: All metrics by column.
        prices: What a worker and a host cost an hour; None where that is not known.
        deadline_s: Longest time that an arm may take.
        max_cost: Most that an arm may cost.
    """

    goal: Goal | None = None
    metrics: Mapping[str, Metric] = field(default_factory=lambda: BUILT_IN)
    prices: Prices | None = None
    deadline_s: float | None = None
    max_cost: float | None = None


@dataclass(frozen=True)
class _Decided:
    """What decides between the arms of a group.

    Attributes:
        value: What the goal wants least of, or most.
        column: The column that it is made from.
        target: What runs are to reach.
        quality: The score that no arm may lose.
        words: The goal in words.
    """

    value: Metric
    column: str
    target: tuple[str, float] | None
    quality: Metric | None
    words: str


@dataclass(frozen=True, eq=False)
class _Families:
    """Arms of a group with what is judged of them.

    Attributes:
        out: Why an arm is not compared.
        left: The arms that are.
        amounts: What the goal wants least of, or most, of each of these.
        quality: The family of their scores; None where no score decides.
        keepers: The arms that keep quality.
        value: The family of these by what the goal wants.
    """

    out: Mapping[Arm, str]
    left: list[Arm]
    amounts: Mapping[Arm, Mapping[Repeat, float]]
    quality: Family | None
    keepers: list[Arm]
    value: Family | None


def families(group: ComparisonGroup, wanted: Wanted) -> dict[str, tuple[list[Arm], Family]]:
    """Return the families that the answer of a group judges, by column, each with its arms in order."""
    decided = _decided(group, wanted)
    judged = _families(group, decided, wanted)
    found = {}
    if decided.quality and judged.quality:
        found[decided.quality.column] = (judged.left, judged.quality)
    if judged.value:
        found[decided.value.column] = (judged.keepers, judged.value)
    return found


def _families(group: ComparisonGroup, decided: _Decided, wanted: Wanted) -> _Families:
    out = {arm: reason for arm in group.arms if (reason := _out(arm, decided, wanted, group))}
    left = keepers = [arm for arm in group.arms if arm not in out]
    amounts = {arm: _amounts(arm, decided, wanted) for arm in left}
    quality = None
    if decided.quality and left:
        quality = judge([arm.comparable(decided.quality.column) for arm in left], decided.quality)
        keepers = [arm for arm, one in zip(left, quality.judgements, strict=True) if one.verdict is Verdict.KEEPS]
    value = judge([amounts[arm] for arm in keepers], decided.value) if keepers else None
    return _Families(out, left, amounts, quality, keepers, value)


def decide(group: ComparisonGroup, wanted: Wanted) -> Answer:
    """Return the answer for a group of arms that can be compared."""
    decided = _decided(group, wanted)
    judged = _families(group, decided, wanted)
    out, left, amounts = judged.out, judged.left, judged.amounts
    quality: dict[Arm, Judged] = {}
    if decided.quality and judged.quality:
        scores = [arm.comparable(decided.quality.column) for arm in left]
        quality = _shown(left, decided.quality, scores, judged.quality)
    values = _shown(judged.keepers, decided.value, [amounts[arm] for arm in judged.keepers], judged.value)
    sign = -1 if decided.value.is_higher_better else 1
    ranked = sorted(left, key=lambda arm: sign * median(amounts[arm].values()))
    first = next((arm for arm in ranked if arm in values), None)
    use = first if first is not None and values[first].verdict is Verdict.KEEPS else None
    either = (
        [arm for arm in ranked if arm in values and values[arm].verdict is not Verdict.LOSES] if use is None else []
    )
    arms = {
        arm: _arm_answer(
            arm,
            group,
            decided,
            wanted,
            out.get(arm, ""),
            values.get(arm) or _measured(decided.value, amounts.get(arm)),
            quality.get(arm),
        )
        for arm in group.arms
    }
    if use is not None:
        is_open = [
            arm for arm in ranked[: ranked.index(use)] if arm in quality and quality[arm].verdict is Verdict.OPEN
        ]
    elif values:
        is_open = [arm for arm in either if values[arm].verdict is Verdict.OPEN]
    else:
        best = -1 if decided.quality and decided.quality.is_higher_better else 1
        is_open = [arm for arm in quality if quality[arm].verdict is Verdict.OPEN]
        is_open.sort(key=lambda arm: best * quality[arm].spread.median)
    costs = {arm: cost for arm in ranked if arm in values and (cost := arms[arm].cost or arms[arm].worker_hours)}
    loses = [arm for arm in ranked if arm not in values and quality[arm].verdict is Verdict.LOSES]
    faster = next((arm for arm in loses if use and ranked.index(arm) < ranked.index(use)), None)
    cheapest = min(costs, key=costs.__getitem__, default=None)
    is_cheaper = use in costs and cheapest is not None and costs[cheapest] <= (1 - LEAST_SAVING) * costs[use]
    return Answer(
        task=group.title,
        given=dict(group.given),
        condition=group.condition,
        emulated=group.emulated,
        goal=decided.words,
        currency=wanted.prices.currency if wanted.prices else "",
        use=arms[use] if use else None,
        either=tuple(arm.title for arm in either),
        open=tuple(arm.title for arm in is_open),
        cheaper=cheapest.title if cheapest is not None and is_cheaper else None,
        knee=_knee(decided.value, {arm: (median(amounts[arm].values()), cost) for arm, cost in costs.items()}),
        faster=faster.title if faster else None,
        arms=tuple(arms.values()),
        doubts=doubts(group, is_rate=decided.value is RATE, is_learned=bool(decided.quality or decided.target)),
    )


def _decided(group: ComparisonGroup, wanted: Wanted) -> _Decided:
    """Return what decides between the arms of a group: the goal that is asked for, else what their scores allow."""
    rows = [row for arm in group.completed for row in arm.completed]
    learned = [arm for arm in group.completed if arm.scores_mean_something]
    known = [name for name in _scores(wanted.metrics) if any(arm.comparable(name) for arm in learned)]
    targets = {
        (row["target_metric"], float(row["target_value"]))
        for row in rows
        if row.get("target_value") is not None and row["target_metric"] in wanted.metrics
    }
    goal = wanted.goal
    if goal is None:
        is_target = len(targets) == 1 and learned
        goal = (
            Goal(target=next(iter(targets)) if is_target else None) if known or is_target else Goal(least="throughput")
        )
    if goal.least == "throughput" or (not goal.target and not known):
        is_timed = any(arm.comparable(RATE.column) for arm in group.completed) or goal.least == "throughput"
        value = RATE if is_timed else TRAIN_TIME
        return _Decided(value, value.column, None, None, "highest throughput" if is_timed else "least training time")
    column = TIME_TO_TARGET if goal.target else TRAIN_TIME
    value, what = column, column.title
    if goal.least == "cost":
        unit = wanted.prices.currency if wanted.prices else "worker-hours"
        value, what = (
            replace(column, column="cost", title="cost", unit=unit),
            "cost" if wanted.prices else "worker-hours",
        )
    if goal.target:
        metric, aim = wanted.metrics[goal.target[0]], goal.target[1]
        least = "cost" if goal.least == "cost" else "time"
        return _Decided(value, column.column, goal.target, None, f"least {least} to {metric.title} {aim:g}")
    quality = wanted.metrics[goal.quality or known[0]]
    within = difference(quality, quality.margin).lstrip("+")
    return _Decided(
        value, column.column, None, quality, f"least {what} with {quality.title} within {within} of the best"
    )


def _out(arm: Arm, decided: _Decided, wanted: Wanted, group: ComparisonGroup) -> str:
    """Return why an arm is not compared; empty where it is."""
    if failed := not_completed(arm.rows):
        return failed
    if any(other.workers > 1 for other in group.arms) and arm.workers == 1 and not arm.is_alone and arm.base_line.rows:
        return OVERHEAD
    judged = wanted.metrics[decided.target[0]] if decided.target else decided.quality
    if judged and (reason := learned_nothing(arm, judged, wanted.metrics)):
        return reason
    if decided.target:
        reached = [math.isfinite(time) for time in arm.comparable(decided.column).values()]
        if not all(reached) or not reached:
            aim = f"{wanted.metrics[decided.target[0]].title} {decided.target[1]:g}"
            return f"{sum(reached)} of {counted(arm.n, 'run')} reached {aim}"
    if decided.quality and len(arm.comparable(decided.quality.column)) < arm.n:
        return f"no {decided.quality.title}"
    amounts = _amounts(arm, decided, wanted)
    if len(amounts) < arm.n:
        return f"no {decided.value.title}" + (": the timed window is too short" if decided.value is RATE else "")
    seconds = [float(row[decided.column]) for row in arm.completed if row.get(decided.column) is not None]
    if wanted.deadline_s is not None and seconds and median(seconds) > wanted.deadline_s:
        return f"over the deadline: {quantity(TRAIN_TIME, median(seconds))}"
    cost = _cost(arm, seconds, wanted)
    if wanted.max_cost is not None and cost is not None and cost > wanted.max_cost:
        return f"over the most that it may cost: {number(cost)}"
    return ""


def learned_nothing(arm: Arm, judged: Metric, metrics: Mapping[str, Metric]) -> str:
    """Say that runs of an arm are no better than a model that knows nothing, or that their loss exploded."""
    if not arm.scores_mean_something:
        return "it trained on random numbers"
    for metric in dict.fromkeys((judged, metrics["validation_loss"])):
        found, nothing = list(arm.comparable(metric.column).values()), of_nothing(arm, metric)
        if not found or nothing is None:
            continue
        shown = quantity(metric, median(found))
        if metric.score == "loss" and (bad := sum(value > EXPLODED * nothing for value in found)):
            return f"{metric.title} {shown}: exploded in {bad} of {counted(len(found), 'run')}"
        if metric is judged and (bad := sum(not _knows_more(metric, value, nothing, arm) for value in found)):
            which = "" if bad == len(found) else f" in {bad} of {counted(len(found), 'run')}"
            return f"{metric.title} {shown}: no better than knowing nothing ({quantity(metric, nothing)}){which}"
    return ""


def pointless(row: Row, metrics: Mapping[str, Metric]) -> dict[str, str]:
    """Return what makes runs like this one pointless, by kind; empty where nothing does, or it did not complete."""
    if row["status"] != Status.COMPLETED:
        return {}
    arm = Arm(arm_name(row["run_id"]), (row,))
    judged = next((metrics[name] for name in _scores(metrics) if arm.comparable(name)), None)
    size, load = unlike_batch(row), row.get("other_cpu_cores")
    found = {
        "batch": f"its steps have {size:.4g} samples of a worker, not {row['batch_size_per_worker']:.4g}: does the "
        "script read `batch_size`?"
        if size is not None
        else "",
        "nothing": learned_nothing(arm, judged, metrics) if judged else "",
        "load": f"other programs keep {load:.1f} cores busy" if load is not None and load >= MUCH_LOAD else "",
    }
    return {kind: text for kind, text in found.items() if text}


def _scores(metrics: Mapping[str, Metric]) -> tuple[str, ...]:
    """Return the columns of scores by which arms may be judged, those that are declared first."""
    return (*(name for name in metrics if name not in BUILT_IN), *QUALITY)


def _knows_more(metric: Metric, value: float, nothing: float, arm: Arm) -> bool:
    """Whether a score is better than that of a model that knows nothing by more than the margin and chance."""
    margin = metric.margin * (abs(nothing) if metric.is_share else 1.0)
    samples = arm.first.get("validation_samples")
    if metric.score == "accuracy" and samples and 0 <= nothing <= 1:
        margin = max(margin, 2 * math.sqrt(nothing * (1 - nothing) / samples))
    return value > nothing + margin if metric.is_higher_better else value < nothing - margin


def of_nothing(arm: Arm, metric: Metric) -> float | None:
    """Return what a model that knows nothing scores on the data of an arm; None where that is not known."""
    recorded = arm.known(f"knows_nothing_{metric.score}")
    if recorded is not None:
        return float(recorded)
    classes = _num_classes(str(arm.first.get("dataset") or "")) if arm.first.get("command") is None else None
    return metric.of_classes(classes) if classes else metric.knows_nothing


@cache
def _num_classes(dataset: str) -> int | None:
    """Return the number of classes of one of dlbench's own data sets, for rows of versions that did not record it."""
    if not dataset or dataset not in plugins.built_in("datasets"):
        return None
    try:
        plugin = plugins.load("datasets", dataset)
        described = plugin.get("describe")(plugin.options())
    except (UserError, ValueError, OSError, TypeError):
        return None
    return described.num_classes if described else None


def _amounts(arm: Arm, decided: _Decided, wanted: Wanted) -> dict[Repeat, float]:
    """Return what the goal wants least of, or most, of each repeat."""
    found = arm.comparable(decided.column)
    if decided.value.column != "cost":
        return found
    return {
        repeat: cost
        for repeat, seconds in found.items()
        if (cost := _cost(arm, [seconds], wanted) or _worker_hours(arm, [seconds])) is not None
    }


def _worker_hours(arm: Arm, seconds: Sequence[float]) -> float | None:
    return median(seconds) * arm.workers / 3600 if seconds else None


def _cost(arm: Arm, seconds: Sequence[float], wanted: Wanted) -> float | None:
    """Return the price of a training time on all hosts and workers' slots of an arm; None without prices."""
    if wanted.prices is None or not seconds:
        return None
    servers = int(arm.first.get("servers") or 0) if arm.first.get("server_placement") == "own" else 0
    return wanted.prices.cost(median(seconds), int(arm.first.get("hosts") or 1), arm.workers + servers)


def _shown(
    arms: Sequence[Arm], metric: Metric, values: Sequence[Mapping[Repeat, float]], family: Family | None
) -> dict[Arm, Judged]:
    """Return what is shown of each arm of a family."""
    if family is None:
        return {}
    found = {}
    for arm, own, one in zip(arms, values, family.judgements, strict=True):
        against = Difference(
            against=arms[one.against].title,
            is_share=metric.is_share,
            gain=one.gain,
            worst=one.worst,
            best=one.best,
            detectable=one.detectable,
            further=one.further,
        )
        found[arm] = Judged(
            metric=metric.column,
            spread=_spread(own),
            verdict=one.verdict,
            difference=against if len(arms) > 1 else None,
        )
    return found


def _measured(metric: Metric, values: Mapping[Repeat, float] | None) -> Judged | None:
    """Return a quantity of an arm that is not judged by it."""
    if not values:
        return None
    return Judged(metric=metric.column, spread=_spread(values), verdict=Verdict.OPEN, difference=None)


def _spread(values: Mapping[Repeat, float]) -> Spread:
    found = median_interval(list(values.values()))
    return Spread(median=found.value, low=found.low, high=found.high, n=found.n)


def _arm_answer(
    arm: Arm,
    group: ComparisonGroup,
    decided: _Decided,
    wanted: Wanted,
    reason: str,
    value: Judged | None,
    quality: Judged | None,
) -> ArmAnswer:
    judged = quality or value
    word: Word = "out" if reason or judged is None else judged.verdict.value
    seconds = arm.values(decided.column if decided.value is not RATE else TRAIN_TIME.column)
    energy = arm.values("energy_j")
    return ArmAnswer(
        study=arm.study or "",
        name=arm.name,
        title=arm.title,
        settings={written_name(key): arm.first.get(key) for key in group.keys},
        workers=arm.workers,
        word=word,
        reason=reason,
        completed=arm.n,
        runs=len(arm.rows),
        value=value,
        quality=quality,
        worker_hours=_worker_hours(arm, seconds),
        cost=_cost(arm, seconds, wanted),
        energy_j=median(energy) if energy else None,
    )


def _knee(value: Metric, points: Mapping[Arm, tuple[float, float]]) -> str | None:
    """Return the title of the arm at the knee of time and cost."""
    if value.is_higher_better or any(min(point) <= 0 for point in points.values()):
        return None
    bend = knee(front(points.values()))
    return next((arm.title for arm, point in points.items() if point == bend), None)
