"""The decision: which arms are out, which keep, lose or are open, which one to use, and what would settle the rest."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median
from typing import Any

from dlbench import plugins
from dlbench.analysis.answer.answer import Answer, ArmAnswer, Difference, Judged, Spread
from dlbench.analysis.answer.batches import batch_sizes
from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.answer.doubts import MUCH_LOAD, Weighed, doubts, not_completed, unlike_batch
from dlbench.analysis.arms import Arm, Repeat, Row, quotient
from dlbench.analysis.formatting import counted, difference, number, quantity
from dlbench.analysis.groups import written_name
from dlbench.analysis.judge import Family, Values, Verdict, judge
from dlbench.analysis.metrics.lost_time import lost_time
from dlbench.analysis.metrics.pareto import front, knee
from dlbench.analysis.statistics.intervals import median_interval
from dlbench.analysis.statistics.sequential import SIGNIFICANCE, significance_of
from dlbench.errors import UserError
from dlbench.records.outcome import Status
from dlbench.scenario.cluster import Prices
from dlbench.scenario.goal import Goal
from dlbench.scenario.metrics import BUILT_IN, QUALITY, RATE, TIME_TO_TARGET, TRAIN_TIME, Metric, Metrics
from dlbench.scenario.run_spec import arm_name

# A validation loss this many times that of a model that knows nothing is no loss of a model that learns.
EXPLODED = 10.0
# Why one worker of a strategy that communicates is no choice beside the base line.
OVERHEAD = "one worker alone does the same without messages"
# Of one worker alone nothing is divided: it is one arm, however the others divide.
OF_DIVIDING, TWIN = ("batch_scope", "divide"), "another arm of one worker alone is the same training"
# Why no throughput is known.
TOO_SHORT = "the timed window is too short"
# This many margins behind in a score that does not decide is said.
FAR = 50.0
# Arms that save less than this share of the worker-hours are not called cheaper.
LEAST_SAVING = 0.1
# Column of the price or worker-hours of training, computed here; a row's own cost is of the whole run.
COST = "cost"


# What is shown of each arm of each family, by what it is judged by.
_ByMetric = dict[Metric | None, dict[Arm, Judged]]


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Attributes:
        goal: What decides; None: what each arm's scenario says.
        metrics: All metrics by column.
        prices: What a worker and a host cost an hour; None where that is not known.
        deadline_s: Longest training time, or time to the target, that any run of an arm may take.
        max_cost: Most that any run may cost.
    """

    goal: Goal | None = None
    metrics: Metrics = field(default_factory=lambda: BUILT_IN)
    prices: Prices | None = None
    deadline_s: float | None = None
    max_cost: float | None = None

    def cost(self, arm: Arm, seconds: float | None) -> float | None:
        """Return the price of a training time on all hosts and workers' slots of an arm; None without prices."""
        if self.prices is None or seconds is None:
            return None
        return self.prices.cost(seconds, int(arm.first.get("hosts") or 1), _slots(arm))


@dataclass(frozen=True)
class _Decided:
    """What decides between the arms of a group.

    Attributes:
        wanted: What is asked for.
        words: The goal in words.
        value: What it wants least of, or most.
        time: The time that costs and the deadline are of.
        quality: The score that no arm may lose.
        target: The score that runs are to reach, and the value.
    """

    wanted: Wanted
    words: str
    value: Metric
    time: Metric = TRAIN_TIME
    quality: Metric | None = None
    target: tuple[Metric, float] | None = None

    @property
    def judged(self) -> list[Metric]:
        """By what arms are judged, one after the other: those that keep the first go on to the next."""
        return [metric for metric in (self.quality, self.value) if metric is not None]

    def values(self, arm: Arm, metric: Metric) -> dict[Repeat, float]:
        """Return what the arm's repeats are judged by."""
        if metric.column != COST:
            return arm.comparable(metric.column)
        return {repeat: self.spent(arm, time) for repeat, time in arm.comparable(self.time.column).items()}

    def medians(self, arms: Iterable[Arm], metric: Metric) -> dict[Arm, float]:
        """Return the median of each arm that has any."""
        return {arm: median(numbers) for arm in arms if (numbers := self.values(arm, metric).values())}

    def spent(self, arm: Arm, seconds: float) -> float:
        """Return the price of a training time, or worker-hours where no price is known."""
        cost = self.wanted.cost(arm, seconds)
        return _hours(arm, seconds) if cost is None else cost


def _slots(arm: Arm) -> int:
    """Return how many workers' places an arm takes: of servers and an evaluator with cores of their own, too."""
    servers = int(arm.first.get("servers") or 0) if arm.first.get("server_placement") == "own" else 0
    return arm.workers + servers + (arm.first.get("evaluator") == "own")


def _hours(arm: Arm, seconds: float) -> float:
    return seconds * _slots(arm) / 3600


def families(group: ComparisonGroup, wanted: Wanted) -> Iterator[tuple[Metric, dict[Arm, Values], Family]]:
    """Yield the families that the answer of a group judges: by which metric, the values of each arm, what is shown."""
    decided = criteria(group, wanted)
    out = _out(group, decided)
    arms = [arm for arm in group.arms if arm not in out]
    for metric in decided.judged:
        if arms:
            values: dict[Arm, Values] = {arm: decided.values(arm, metric) for arm in arms}
            rules = (str(arm.get("repeats_rule") or "") for arm in group.arms)
            family = judge(list(values.values()), metric, significance_of(rules, SIGNIFICANCE))
            yield metric, values, family
            arms = [arm for arm, each in zip(arms, family.judgements, strict=True) if each.verdict is Verdict.KEEPS]


def undecided(group: ComparisonGroup, wanted: Wanted) -> list[Arm]:
    """Return the arms of a group that further repeats may decide, and those that they are compared with."""
    unsettled: dict[Arm, None] = {}
    for _, values, family in families(group, wanted):
        arms = list(values)
        unsettled |= dict.fromkeys(arms[place] for place in family.unsettled)
    return list(unsettled)


def decide(group: ComparisonGroup, wanted: Wanted) -> Answer:
    """Return the answer for a group of arms that can be compared."""
    decided = criteria(group, wanted)
    out = _out(group, decided)
    amounts = decided.medians((arm for arm in group.arms if arm not in out), decided.value)
    shown: _ByMetric = {family[0]: _shown(*family) for family in families(group, wanted)}
    values, quality = (shown.get(metric, {}) for metric in (decided.value, decided.quality))
    arms = {arm: _arm_answer(arm, group, decided, out.get(arm, ""), shown) for arm in group.arms}
    ranked = sorted(amounts, key=amounts.__getitem__, reverse=decided.value.is_higher_better)
    keepers = [arm for arm in ranked if arm in values]
    verdicts = {arm: judged.verdict for arm, judged in (quality | values).items()}
    times = {arm: arm.values(decided.time.column) for arm in keepers}
    costs = {arm: decided.spent(arm, median(numbers)) for arm, numbers in times.items() if numbers}
    # Of arms that differ by no more than what matters the cheapest is used: more workers must buy something.
    use = keepers[0] if keepers and verdicts[keepers[0]] is Verdict.KEEPS else None
    if use in costs:
        use = min((arm for arm in costs if verdicts[arm] is Verdict.KEEPS), key=costs.__getitem__)
    # What may be the better choice: what is ahead, else one of those that keep quality, else what has the best score.
    rivals = ranked[: ranked.index(use)] if use else keepers
    if not keepers and decided.quality:
        scores = {arm: decided.quality.gain(measured.spread.median, 0.0) for arm, measured in quality.items()}
        best = max(scores.values(), default=0.0)
        within = decided.quality.margin_at(best)
        # Of those with about the best score the one that the goal likes most, then by score.
        rivals = sorted(scores, key=lambda arm: (max(best - scores[arm] - within, 0.0), ranked.index(arm)))
    cheapest = min(costs, key=costs.__getitem__, default=None)
    is_cheaper = use in costs and cheapest is not None and costs[cheapest] < (1 - LEAST_SAVING) * costs[use]
    points = {arm: (amounts[arm], cost) for arm, cost in costs.items()}
    has_knee = not decided.value.is_higher_better and all(min(point) > 0 for point in points.values())
    bend = knee(front(points.values())) if has_knee else None
    is_learned = bool(decided.quality or decided.target)
    others = _doubts_of_use(use, ranked, out, decided) if use else ()
    return Answer(
        task=group.title,
        given=dict(group.given),
        condition=group.condition,
        emulated=group.emulated,
        goal=decided.words,
        currency=wanted.prices.currency if wanted.prices else "",
        use=arms[use] if use else None,
        either=() if use else tuple(arm.title for arm in keepers if verdicts[arm] is not Verdict.LOSES),
        open=tuple(arm.title for arm in rivals if verdicts[arm] is Verdict.OPEN),
        cheaper=cheapest.title if cheapest is not None and is_cheaper else None,
        knee=next((arm.title for arm, point in points.items() if point == bend), None),
        faster=next((a.title for a in rivals if use and a not in values and verdicts[a] is Verdict.LOSES), None),
        arms=tuple(arms.values()),
        batch_sizes=tuple(batch_sizes(group.completed, group.keys)) if decided.target else (),
        doubts=doubts(group, is_rate=decided.value is RATE, is_learned=is_learned, others=others),
    )


def _doubts_of_use(use: Arm, left: Iterable[Arm], out: Mapping[Arm, str], decided: _Decided) -> Iterator[Weighed]:
    """Yield what the arm to use is behind in, though the goal does not ask for it."""
    metrics, value, quality = decided.wanted.metrics, decided.value, decided.quality
    amounts, scores = (decided.medians((use, *out), metric) for metric in (value, quality or value))
    for arm in amounts:
        if arm is use or out[arm] != not_completed(arm.rows) or _fault(replace(arm, rows=arm.completed), decided):
            continue
        if quality and quality.gain(scores[use], scores[arm]) > quality.margin_at(scores[use]):
            continue
        theirs, mine = amounts[arm], amounts[use]
        ratio = quotient(theirs, mine) if value.is_higher_better else quotient(mine, theirs)
        if ratio is not None and ratio > 1 + value.margin:
            yield 78, f"{arm.title} came to {quantity(value, theirs)}, but {out[arm]}"
    for metric in (metrics[name] for name in _scores(metrics) if metrics[name] is not quality):
        scores = decided.medians(left, metric)
        if use in scores:
            best = max(scores, key=lambda arm: metric.gain(scores[arm], 0.0))
            # A built-in score that does not decide is beside the one that does: only far behind it says something.
            margin = metric.margin_at(scores[best]) * (FAR if metric.column in BUILT_IN else 1)
            if metric.gain(scores[best], scores[use]) > margin:
                ends = f"{quantity(metric, scores[use])}, of {best.title} {quantity(metric, scores[best])}"
                yield 77, f"its {metric.title} is {ends}"


def criteria(group: ComparisonGroup, wanted: Wanted) -> _Decided:
    """Return what decides between the arms of a group: the goal that is asked for, else what their scores allow."""
    learned = [arm for arm in group.completed if arm.scores_mean_something]
    scored = [name for name in _scores(wanted.metrics) if any(arm.comparable(name) for arm in learned)]
    goal = wanted.goal
    if goal is None:
        targets = {(arm.get("target_metric"), arm.get("target_value")) for arm in group.completed}
        targets = {(name, float(aim)) for name, aim in targets if aim is not None and name in wanted.metrics}
        goal = Goal() if scored else Goal(least="throughput")
        if len(targets) == 1 and learned:
            goal = Goal(target=targets.pop())
    if goal.least == "throughput" or not (goal.target or scored):
        if goal.least == "throughput" or any(arm.comparable(RATE.column) for arm in group.completed):
            return _Decided(wanted, "highest throughput", RATE)
        return _Decided(wanted, "least training time", TRAIN_TIME)
    value = time = TIME_TO_TARGET if goal.target else TRAIN_TIME
    if goal.least == "cost":
        unit = wanted.prices.currency if wanted.prices else "worker-hours"
        value = replace(time, column=COST, title="cost" if wanted.prices else unit, unit=unit)
    if goal.target:
        score, aim = wanted.metrics[goal.target[0]], goal.target[1]
        return _Decided(wanted, f"least {goal.least} to {score.title} {aim:g}", value, time, target=(score, aim))
    score = wanted.metrics[goal.quality or scored[0]]
    within = difference(score, score.margin, signed=False)
    return _Decided(wanted, f"least {value.title} with {score.title} within {within} of the best", value, time, score)


def _out(group: ComparisonGroup, decided: _Decided) -> dict[Arm, str]:
    """Return the arms that are not compared, each with the reason."""
    keys = [key for key in group.keys if key not in OF_DIVIDING]
    has_more, singles, out = any(arm.workers > 1 for arm in group.arms), set[tuple[Any, ...]](), dict[Arm, str]()
    for arm in group.arms:
        settings = tuple(map(arm.get, keys))
        if reason := _fault(arm, decided):
            out[arm] = reason
        elif has_more and arm.workers == 1 and not arm.is_alone and arm.base_line:
            out[arm] = OVERHEAD
        elif arm.is_alone and settings in singles:
            out[arm] = TWIN
        elif arm.is_alone:
            singles.add(settings)
    return out


def _fault(arm: Arm, decided: _Decided) -> str:
    """Return what makes an arm unusable; empty where nothing does."""
    wanted, time_s = decided.wanted, max(arm.values(decided.time.column), default=None)
    cost = wanted.cost(arm, time_s)
    if failed := not_completed(arm.rows):
        return failed
    score = decided.target[0] if decided.target else decided.quality
    if score and (reason := learned_nothing(arm, score, wanted.metrics)):
        return reason
    num_reached = sum(map(math.isfinite, arm.comparable(decided.time.column).values()))
    if decided.target and num_reached < arm.n:
        return f"{num_reached} of {counted(arm.n, 'run')} reached {decided.target[0].title} {decided.target[1]:g}"
    for metric in decided.judged:
        if len(decided.values(arm, metric)) < arm.n:
            return f"no {metric.title}" + (f": {TOO_SHORT}" if metric is RATE else "")
    if wanted.deadline_s is not None and time_s is not None and time_s > wanted.deadline_s:
        return f"over the deadline: {quantity(TRAIN_TIME, time_s)}"
    if wanted.max_cost is not None and cost is not None and cost > wanted.max_cost:
        return f"over the most that it may cost: {number(cost)}"
    return ""


def learned_nothing(arm: Arm, judged: Metric, metrics: Metrics) -> str:
    """Say that runs of an arm are no better than a model that knows nothing, or that their loss exploded."""
    if not arm.scores_mean_something:
        return "it trained on random numbers"
    for metric in dict.fromkeys((judged, metrics["validation_loss"])):
        values, nothing = list(arm.comparable(metric.column).values()), of_nothing(arm, metric)
        if not values or nothing is None:
            continue
        shown = quantity(metric, median(values))
        if metric.score == "loss" and (bad := sum(value > EXPLODED * nothing for value in values)):
            return f"exploded in {bad} of {counted(len(values), 'run')}: {metric.title} {shown}"
        if metric is judged and (bad := sum(not _knows_more(metric, value, nothing, arm) for value in values)):
            which = "" if bad == len(values) else f" in {bad} of {counted(len(values), 'run')}"
            return f"no better than knowing nothing ({quantity(metric, nothing)}){which}: {metric.title} {shown}"
    return ""


def pointless(row: Row, metrics: Metrics) -> dict[str, str]:
    """Return what makes runs like this one pointless, by kind; empty where nothing does, or it did not complete."""
    if row["status"] != Status.COMPLETED:
        return {}
    arm, reasons = Arm(arm_name(row["run_id"]), (row,)), {}
    if (size := unlike_batch(row)) is not None:
        steps = f"its steps have {size:.4g} samples of a worker, not {row['batch_size_per_worker']:.4g}"
        reasons["batch"] = f"{steps}: does the script read `batch_size`?"
    judged = next((metrics[name] for name in _scores(metrics) if arm.comparable(name)), None)
    if judged and (reason := learned_nothing(arm, judged, metrics)):
        reasons["nothing"] = reason
    if (load := row.get("other_cpu_cores") or 0.0) >= MUCH_LOAD:
        reasons["load"] = f"other programs keep {load:.1f} cores busy"
    return reasons


def _scores(metrics: Metrics) -> tuple[str, ...]:
    """Return the columns of scores by which arms may be judged, those that are declared first."""
    return (*(name for name in metrics if name not in BUILT_IN), *QUALITY)


def _knows_more(metric: Metric, value: float, nothing: float, arm: Arm) -> bool:
    """Whether a score is better than that of a model that knows nothing by more than the margin and chance."""
    margin = metric.margin_at(nothing)
    samples = arm.first.get("validation_samples")
    if metric.score == "accuracy" and samples and 0 <= nothing <= 1:
        margin = max(margin, 2 * math.sqrt(nothing * (1 - nothing) / samples))
    return metric.gain(value, nothing) > margin


def of_nothing(arm: Arm, metric: Metric) -> float | None:
    """Return what a model that knows nothing scores on the data of an arm; None where that is not known."""
    recorded = arm.get(f"knows_nothing_{metric.score}")
    if recorded is not None:
        return float(recorded)
    classes = _num_classes(str(arm.first.get("dataset") or "")) if arm.first.get("command") is None else None
    return metric.of_classes(classes) if classes else metric.knows_nothing


@cache
def _num_classes(dataset: str) -> int | None:
    """Return the number of classes of one of dlbench's own data sets, for rows of versions that did not record it."""
    with suppress(UserError, ValueError, OSError, TypeError):
        plugin = plugins.load("datasets", dataset) if dataset in plugins.built_in("datasets") else None
        described = plugin.get("describe")(plugin.options()) if plugin else None
        return described.num_classes if described else None
    return None


def _shown(metric: Metric, values: Mapping[Arm, Values], family: Family) -> dict[Arm, Judged]:
    """Return what is shown of each arm of a family."""
    arms, shown = list(values), {}
    for arm, judgement in zip(arms, family.judgements, strict=True):
        numbers = {name: getattr(judgement, name) for name in ("gain", "worst", "best", "detectable", "further")}
        against = Difference(against=arms[judgement.against].title, is_share=metric.is_share, **numbers)
        shown[arm] = _measured(metric, values[arm], judgement.verdict, against if len(arms) > 1 else None)
    return shown


def _measured(metric: Metric, values: Values, verdict: Verdict, difference: Difference | None = None) -> Judged:
    interval = median_interval(list(values.values()))
    spread = Spread(median=interval.value, low=interval.low, high=interval.high, n=interval.n)
    return Judged(metric=metric.column, spread=spread, verdict=verdict, difference=difference)


def _arm_answer(arm: Arm, group: ComparisonGroup, decided: _Decided, reason: str, shown: _ByMetric) -> ArmAnswer:
    value, quality = (shown.get(metric, {}).get(arm) for metric in (decided.value, decided.quality))
    if value is None and not reason:
        # It is not judged by what the goal wants, but has it.
        value = _measured(decided.value, decided.values(arm, decided.value), Verdict.OPEN, None)
    judged, seconds = quality or value, _median(arm.values(decided.time.column))
    return ArmAnswer(
        study=arm.study or "",
        name=arm.name,
        title=arm.title,
        settings={written_name(key): arm.first.get(key) for key in group.keys},
        workers=arm.workers,
        word="out" if reason or judged is None else judged.verdict.value,
        reason=reason,
        completed=arm.n,
        runs=len(arm.rows),
        value=value,
        quality=quality,
        worker_hours=None if seconds is None else _hours(arm, seconds),
        cost=decided.wanted.cost(arm, seconds),
        energy_j=_median(arm.values("energy_j")),
        lost_time=dict(lost.parts) if (lost := lost_time(arm)) else None,
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
