"""The decision: which arms are out, which keep, lose or are open, which one to use, and which candidate is the best."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from dlbench.analysis.answer.answer import Answer, ArmAnswer, Difference, Judged, Spread
from dlbench.analysis.answer.batches import batch_sizes
from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.answer.doubts import (
    Weighed,
    doubts,
    learned_nothing,
    not_completed,
    sampling_error,
    scores_of,
    unequal_work,
)
from dlbench.analysis.arms import (
    IMPORTED,
    Arm,
    Repeat,
    columns_of,
    is_ended_by_target,
    is_imported,
    is_simulated,
    note_of,
    reports_no_steps,
)
from dlbench.analysis.formatting import counted, difference, joined, number, quantity
from dlbench.analysis.groups import values_of, written_name
from dlbench.analysis.judge import Family, Values, Verdict, judge
from dlbench.analysis.metrics.lost_time import lost_time
from dlbench.analysis.metrics.pareto import front, knee
from dlbench.analysis.statistics.intervals import median_interval
from dlbench.analysis.statistics.sequential import significance_of
from dlbench.records.result import BEST
from dlbench.scenario.cluster import Prices
from dlbench.scenario.goal import Goal
from dlbench.scenario.metrics import BUILT_IN, RATE, TIME_TO_TARGET, TRAIN_TIME, Metric, Metrics

# Why one worker of a strategy that communicates is no choice beside the base line.
OVERHEAD = "one worker alone does the same without messages"
# Of one worker alone nothing is divided: it is one arm, however the others divide.
OF_DIVIDING, TWIN = ("batch_scope", "divide"), "another arm of one worker alone is the same training"
# Why no price is known: one worker alone is on one host, several may be on any number.
NO_HOSTS = "host-hours need a column of hosts; --price .../worker-hour counts workers"
# Why no throughput is known.
TOO_SHORT, NO_STEPS = "the timed window is too short", "the script reports no steps"
# Why runs never reached a target that other arms have, or another than their scenario's.
NO_EPOCHS = "the script reports no epochs"
NO_TARGET = 'its scenario has no target (`--goal "time to ..."` looks one up in the epochs)'
AT_ITS_TARGET = "ended before it, at the scenario's own (`target.stop`)"
# How the reason of an arm begins that is over a limit.
OVER = "over "
DEADLINE, MAX_COST = f"{OVER}the deadline", f"{OVER}the most that it may cost"
# This many margins behind in a score that does not decide is said.
FAR = 50.0
# In a training score where there is no other: it says less than one of validation, and scatters more.
CLEAR = 5.0
_OF_TRAINING = ("train_accuracy", "train_mean_squared_error", "train_loss")
# Arms that save less than this share of the worker-hours are not called cheaper.
LEAST_SAVING = 0.1
LOSS = "validation_loss"
# The score whose best value at any evaluation is the column `BEST`.
OF_BEST = "validation_accuracy"
# Column of the price or worker-hours of training, computed here; a row's own cost is of the whole run.
COST = "cost"
# Columns of imported tables that name a kind of machine.
_KINDS = "cluster hardware instance instance_type machine machine_type node_type system"
_MACHINES = [f"{IMPORTED}.{name}" for name in _KINDS.split()]


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
        """Return the price of a training time on all hosts and workers' slots of an arm; None where it is unknown."""
        hosts = arm.first.get("hosts") or (1 if arm.workers == 1 else None)
        if self.prices is None or seconds is None or (hosts is None and self.prices.host_hour):
            return None
        # `hosts` of a simulation are those of its workers: each of the others has a host as well.
        others = arm.slots - arm.workers if is_simulated(arm.first) else 0
        return self.prices.cost(seconds, int(hosts or 0) + others, arm.slots)


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
    def score(self) -> Metric | None:
        """The score that runs are to keep or to reach."""
        return self.target[0] if self.target else self.quality

    @property
    def deciding(self) -> list[Metric]:
        """What counts of a run: the score, and the time or rate."""
        value = self.time if self.value.column == COST else self.value
        return [metric for metric in (self.score, value) if metric is not None]

    @property
    def judged(self) -> list[Metric]:
        """By what arms are judged, one after the other: those that keep the first go on to the next."""
        return [metric for metric in (self.quality, self.value) if metric is not None]

    def values(self, arm: Arm, metric: Metric) -> dict[Repeat, float]:
        """Return what the arm's repeats are judged by."""
        if metric.column != COST:
            return arm.comparable(metric.column)
        times = arm.comparable(self.time.column)
        return {repeat: cost for repeat, time in times.items() if (cost := self.spent(arm, time)) is not None}

    def medians(self, arms: Iterable[Arm], metric: Metric) -> dict[Arm, float]:
        """Return the median of each arm that has any."""
        return {arm: median(numbers) for arm in arms if (numbers := self.values(arm, metric).values())}

    def spent(self, arm: Arm, seconds: float) -> float | None:
        """Return the price of a training time, or worker-hours without prices; None where the price is unknown."""
        return self.wanted.cost(arm, seconds) if self.wanted.prices else _hours(arm, seconds)

    def lacks_price(self, arm: Arm) -> bool:
        """Whether there are prices that say nothing of an arm."""
        return self.wanted.prices is not None and self.wanted.cost(arm, 0.0) is None


def _hours(arm: Arm, seconds: float) -> float:
    return seconds * arm.slots / 3600


def families(group: ComparisonGroup, wanted: Wanted) -> Iterator[tuple[Metric, dict[Arm, Values], Family]]:
    """Yield the families that the answer of a group judges: by which metric, the values of each arm, what is shown."""
    decided = criteria(group, wanted)
    out = _out(group, decided)
    arms = [arm for arm in group.arms if arm not in out]
    for metric in decided.judged:
        if arms:
            values: dict[Arm, Values] = {arm: decided.values(arm, metric) for arm in arms}
            family = judge(list(values.values()), metric, _significance(group))
            yield metric, values, family
            arms = [arm for arm, each in zip(arms, family.judgements, strict=True) if each.verdict is Verdict.KEEPS]


def _significance(group: ComparisonGroup) -> float:
    return significance_of(str(row.get("repeats_rule") or "") for arm in group.arms for row in arm.rows)


def undecided(group: ComparisonGroup, wanted: Wanted) -> list[Arm]:
    """Return the arms of a group that further repeats may decide, and those that they are compared with."""
    arms = (list(values)[place] for _, values, family in families(group, wanted) for place in family.unsettled)
    return list(dict.fromkeys(arms))


def decide(group: ComparisonGroup, wanted: Wanted) -> Answer:
    """Return the answer for a group of arms that can be compared."""
    decided = criteria(group, wanted)
    out = _out(group, decided)
    amounts = decided.medians((arm for arm in group.arms if arm not in out), decided.value)
    shown: _ByMetric = {family[0]: _shown(*family) for family in families(group, wanted)}
    values, quality = (shown.get(metric, {}) for metric in (decided.value, decided.quality))
    arms = {arm: _arm_answer(arm, group, decided, out.get(arm, ""), shown) for arm in group.arms}
    # Of equal amounts fewer workers come first, then one worker alone.
    by_size = sorted(amounts, key=lambda arm: (arm.slots, not arm.is_alone, arm.title))
    ranked = sorted(by_size, key=amounts.__getitem__, reverse=decided.value.is_higher_better)
    keepers = [arm for arm in ranked if arm in values]
    verdicts = {arm: judged.verdict for arm, judged in (quality | values).items()}
    times = {arm: arm.values(decided.time.column) for arm in keepers}
    spent = {arm: decided.spent(arm, median(numbers)) for arm, numbers in times.items() if numbers}
    costs = {arm: cost for arm, cost in spent.items() if cost is not None}
    # Of arms that differ by no more than what matters the cheapest is used: more workers must buy something.
    use = keepers[0] if keepers and verdicts[keepers[0]] is Verdict.KEEPS else None
    if use:
        prices = costs if use in costs else {arm: arm.slots for arm in keepers}
        use = min((arm for arm in prices if verdicts[arm] is Verdict.KEEPS), key=prices.__getitem__)
    contenders = [arm for arm in keepers if verdicts[arm] is not Verdict.LOSES]
    if contenders and not use:
        # What is not behind them is one of them, unless it is shown to lose quality.
        ahead = ranked[: ranked.index(contenders[-1]) + 1]
        contenders = [arm for arm in ahead if verdicts.get(arm) is not Verdict.LOSES]
    unpriced = _may_cost_less(use or contenders[0], out, decided) if contenders else []
    use = None if unpriced else use
    # What may be the better choice: what is ahead, else one of those that may keep quality, else the best score.
    rivals = (
        [*ranked[: ranked.index(use)], *_close_behind(use, ranked, quality, decided, _significance(group))]
        if use
        else contenders
    )
    if not keepers and decided.quality:
        scores = {arm: decided.quality.gain(measured.spread.median, 0.0) for arm, measured in quality.items()}
        best = max(scores.values(), default=0.0)
        within = decided.quality.margin_at(best)
        # Of those with about the best score the one that the goal likes most, then by score.
        rivals = sorted(scores, key=lambda arm: (max(best - scores[arm] - within, 0.0), ranked.index(arm)))
    cheapest = None
    if use and use in costs:
        # Less of the training costs less, and hours of unlike workers have no common price.
        alike = (arm for arm in costs if decided.score or not unequal_work([use, arm]))
        alike = (arm for arm in alike if not _are_unlike_workers([use, arm], decided))
        cheapest = min(alike, key=costs.__getitem__)
        cheapest = cheapest if costs[cheapest] < (1 - LEAST_SAVING) * costs[use] else None
    # Of equal amounts, as where a price is 0, none is ahead.
    better = [arm for arm in rivals if use and arm not in values and amounts[arm] != amounts[use]]
    points = {arm: (amounts[arm], cost) for arm, cost in costs.items()}
    has_knee = not decided.value.is_higher_better and all(min(point) > 0 for point in points.values())
    bend = knee(front(points.values())) if has_knee else None
    others = [*_doubts_of_out(use, out, decided), *_doubts_of_use(use, ranked, decided)] if use else []
    others += [(99, NO_HOSTS)] if unpriced else []
    others += _doubts_of_price(ranked, decided)
    if twins := list(out.values()).count(TWIN):
        others.append((8, f"left out: {counted(twins, 'arm')} of the same training as another of one worker alone"))
    return Answer(
        task=group.title,
        given=dict(group.given),
        condition=group.condition,
        emulated=group.emulated,
        goal=decided.words,
        currency=wanted.prices.currency if wanted.prices else "",
        use=arms[use] if use else None,
        either=() if use else tuple(arm.title for arm in (*contenders, *unpriced)),
        open=tuple(arm.title for arm in rivals if verdicts[arm] is Verdict.OPEN),
        cheaper=cheapest.title if cheapest else None,
        knee=next((arm.title for arm, point in points.items() if point == bend), None),
        faster=next((arm.title for arm in better if verdicts[arm] is Verdict.LOSES), None),
        arms=tuple(arms.values()),
        batch_sizes=tuple(batch_sizes(group.completed, group.keys)) if decided.target else (),
        doubts=doubts(group, [arm for arm in group.arms if arm not in out], decided.deciding, others),
    )


def _close_behind(
    use: Arm, ranked: Sequence[Arm], quality: Mapping[Arm, Judged], decided: _Decided, level: float
) -> list[Arm]:
    """Return the arms behind the one to use that may keep quality, and that it is not shown to match."""
    behind = ranked[ranked.index(use) + 1 :]
    arms = [arm for arm in behind if arm in quality and quality[arm].verdict is Verdict.OPEN]
    family = judge([decided.values(arm, decided.value) for arm in (use, *arms)], decided.value, level)
    return [arm for place, arm in enumerate(arms, 1) if family.pair(0, place).verdict is not Verdict.KEEPS]


def _may_cost_less(best: Arm, out: Mapping[Arm, str], decided: _Decided) -> list[Arm]:
    """Return the arms of an unknown price that would cost less than the best one on one host, and score as much."""
    value, quality = decided.value, decided.quality
    on_one = [arm.having(hosts=lambda _: 1) for arm, reason in out.items() if reason == NO_HOSTS]
    arms = [arm for arm in on_one if value.column == COST and not _over(arm, decided)]
    if not arms:
        return []
    costs, scores = (decided.medians((best, *arms), metric) for metric in (value, quality or value))
    margin = quality.margin_at(scores[best]) if quality else 0.0
    return [
        arm
        for arm, cost in costs.items()
        if value.gain(cost, costs[best]) > value.margin_at(costs[best])
        and not (quality and quality.gain(scores.get(arm, scores[best]), scores[best]) < -margin)
    ]


def _doubts_of_out(use: Arm, out: Mapping[Arm, str], decided: _Decided) -> Iterator[Weighed]:
    """Yield what is ahead of the arm to use, or scores more, but for some of its runs or a limit.

    Of each kind the foremost.
    """
    value, quality = decided.value, decided.quality
    amounts, scores = (decided.medians((use, *out), metric) for metric in (value, quality or value))
    more = {arm: quality.gain(scores[arm], scores[use]) for arm in scores} if quality else {}
    margin = quality.margin_at(scores[use]) if quality else 0.0
    gains = {arm: value.gain(amounts[arm], amounts[use]) for arm in out if arm in amounts}
    sound = [arm for arm in out if out[arm] not in (OVERHEAD, TWIN) and _is_sound_but_for(arm, decided)]
    least = value.margin_at(amounts[use])
    ahead = [arm for arm in sound if gains.get(arm, 0.0) > least and more.get(arm, 0.0) >= -margin]
    foremost = max(ahead, key=gains.__getitem__, default=None)
    if foremost:
        yield 78, f"{foremost.title} came to {quantity(value, amounts[foremost])}, but {out[foremost]}"
    if lacking := [arm for arm in out if arm not in amounts and out[arm] == _gap(arm, decided)]:
        arms = lacking[0].title if len(lacking) == 1 else f"{len(lacking)} arms, such as {lacking[0].title}"
        yield 79, f"not compared: {arms}: {out[lacking[0]]}"
    over = [arm for arm in out if out[arm] == _over(arm, decided)]
    others = [arm for arm in sound if arm not in (foremost, *lacking, *over)]
    for verb, kind in (("is ", over), ("", others)):
        above = [arm for arm in kind if more.get(arm, 0.0) > margin]
        if quality and above:
            # Of those that score about as much the one that the goal likes most.
            most = max(map(more.__getitem__, above))
            best = max((arm for arm in above if most - more[arm] <= margin), key=lambda arm: gains.get(arm, -math.inf))
            yield 77, f"{best.title} has {quality.title} {quantity(quality, scores[best])}, but {verb}{out[best]}"


def _is_sound_but_for(arm: Arm, decided: _Decided) -> bool:
    """Whether an arm is fit without the runs that failed, learned nothing, missed the target or lack a number."""
    runs = [replace(arm, rows=(row,)) for row in arm.completed]
    rows = tuple(run.first for run in runs if not (_gap(run, decided) or _unlearned(run, decided)))
    whole = replace(arm, rows=rows or arm.completed)
    return bool(whole.rows) and not (_unlearned(whole, decided) or _over(whole, decided))


def _doubts_of_price(arms: Sequence[Arm], decided: _Decided) -> Iterator[Weighed]:
    """Yield what prices or worker-hours do not say of some arms."""
    has_prices = decided.wanted.prices is not None
    if any(map(decided.lacks_price, arms)):
        yield 78, NO_HOSTS
    if (has_prices or decided.value.column == COST) and _are_unlike_workers(arms, decided):
        yield 78, f"{'one price' if has_prices else 'worker-hours alone'} for unlike machines or cores"


def _are_unlike_workers(arms: Sequence[Arm], decided: _Decided) -> bool:
    """Whether arms are known to have run on more than one kind of machine, or to pay workers of unlike cores."""
    prices = decided.wanted.prices
    kinds = _MACHINES if prices and not prices.worker_hour else [*_MACHINES, "cores_per_worker"]
    return any(len(values_of(arms, name)) > 1 for name in columns_of(arms) if name.lower() in kinds)


def _doubts_of_use(use: Arm, left: Sequence[Arm], decided: _Decided) -> Iterator[Weighed]:
    """Yield what the arm to use is behind in, though the goal does not ask for it."""
    metrics, quality = decided.wanted.metrics, decided.quality
    asks_for_rate = decided.wanted.goal is not None and decided.wanted.goal.least == "throughput"
    # A training score is none of what was learned, but all that there is where nothing else judges a time or rate.
    training = () if decided.score or asks_for_rate else _OF_TRAINING
    for metric in (metrics[name] for name in (*scores_of(metrics), *training) if metrics[name] is not quality):
        is_of_training = metric.column in training
        # More work learns more, and is no slower as a rate.
        alike = (arm for arm in left if not (is_of_training and decided.value is RATE and unequal_work([use, arm])))
        scores = decided.medians(alike, metric)
        if use in scores:
            best = max(scores, key=lambda arm: metric.gain(scores[arm], 0.0))
            # A built-in score that does not decide is beside the one that does: only far behind it says something.
            far = CLEAR if is_of_training else FAR if metric.column in BUILT_IN else 1
            margin = metric.margin_at(scores[best]) * far
            if metric.gain(scores[best], scores[use]) > margin:
                ends = f"{quantity(metric, scores[use])}, of {best.title} {quantity(metric, scores[best])}"
                yield 83 if is_of_training else 77, f"its {metric.title} is {ends}"


def criteria(group: ComparisonGroup, wanted: Wanted) -> _Decided:
    """Return what decides between the arms of a group: the goal that is asked for, else what their scores allow."""
    learned = [arm for arm in group.completed if arm.scores_mean_something]
    scored = [name for name in scores_of(wanted.metrics) if any(arm.comparable(name) for arm in learned)]
    timed, rated = ([a for a in group.completed if a.comparable(metric.column)] for metric in (TRAIN_TIME, RATE))
    goal = wanted.goal
    if goal is None:
        targets = {(arm.get("target_metric"), arm.get("target_value")) for arm in group.completed}
        targets = {(name, float(aim)) for name, aim in targets if aim is not None and name in wanted.metrics}
        # Imported times to an accuracy that is not named: arms without one never reached it.
        is_to_target = any(arm.get("target_metric") and arm.get("target_value") is None for arm in timed)
        goal = Goal() if scored or is_to_target or (timed and not rated) else Goal(least="throughput")
        if len(targets) == 1 and learned:
            goal = Goal(target=targets.pop())
    value = time = TIME_TO_TARGET if goal.target else TRAIN_TIME
    if goal.least == "cost":
        unit = wanted.prices.currency if wanted.prices else "worker-hours"
        value = replace(time, column=COST, title="cost" if wanted.prices else unit, unit=unit)
    if goal.target:
        score, aim = wanted.metrics[goal.target[0]], goal.target[1]
        return _Decided(wanted, f"least {goal.least} to {score.title} {aim:g}", value, time, target=(score, aim))
    words = f"least {value.title}"
    if goal.least == "throughput" or (goal.least == "time" and rated and not timed):
        words, value = "highest throughput", RATE
    if goal.least == "throughput" or not (goal.quality or scored):
        return _Decided(wanted, words, value, time)
    score = wanted.metrics[goal.quality or scored[0]]
    within = difference(score, score.margin, signed=False)
    return _Decided(wanted, f"{words} with {score.title} within {within} of the best", value, time, score)


def _out(group: ComparisonGroup, decided: _Decided) -> dict[Arm, str]:
    """Return the arms that are not compared, each with the reason."""
    keys = [key for key in group.keys if key not in OF_DIVIDING]
    has_more, singles, out = any(arm.workers > 1 for arm in group.arms), set[tuple[Any, ...]](), dict[Arm, str]()
    for arm in group.arms:
        settings = tuple(map(arm.get, keys))
        if reason := not_completed(arm.rows) or _unlearned(arm, decided) or _gap(arm, decided):
            out[arm] = reason
        elif has_more and arm.workers == 1 and not arm.is_alone and arm.base_line:
            out[arm] = OVERHEAD
        elif arm.is_alone and settings in singles and not is_imported(arm.first):
            out[arm] = TWIN
        elif reason := _over(arm, decided):
            out[arm] = reason
        elif arm.is_alone:
            singles.add(settings)
    return out


def _unlearned(arm: Arm, decided: _Decided) -> str:
    return learned_nothing(arm, decided.score, decided.wanted.metrics) if decided.score else ""


def _gap(arm: Arm, decided: _Decided) -> str:
    """Say how many runs of an arm reached the target, or lack a number that decides; empty where all have all."""
    times = arm.comparable(decided.time.column)
    num_reached = sum(map(math.isfinite, times.values()))
    if decided.target and num_reached < arm.n:
        if arm.get("target_metric") is None:
            return NO_TARGET
        if len(times) < arm.n:
            return f"no time to {decided.target[0].title} {decided.target[1]:g}: {NO_EPOCHS}"
        ended = sum(row.get(TIME_TO_TARGET.column) is None and is_ended_by_target(row) for row in arm.completed)
        why = f": {ended} {AT_ITS_TARGET}" * bool(ended)
        return f"{num_reached} of {counted(arm.n, 'run')} reached {decided.target[0].title} {decided.target[1]:g}{why}"
    if decided.lacks_price(arm) and (decided.value.column == COST or decided.wanted.max_cost is not None):
        return NO_HOSTS
    has_limit = decided.wanted.deadline_s is not None or decided.wanted.max_cost is not None
    for metric in [*decided.judged, *[decided.time] * has_limit]:
        if lacking := arm.n - len(decided.values(arm, metric)):
            title = (decided.time if metric.column == COST else metric).title
            some = f"{lacking} of {counted(arm.n, 'run')} {'has' if lacking == 1 else 'have'} " * (lacking < arm.n)
            why = NO_STEPS if any(map(reports_no_steps, arm.completed)) else TOO_SHORT
            why = why if metric is RATE and not is_imported(arm.first) else ""
            why = note_of(arm.completed, metric.column) or why
            return f"{some}no {title}{why and f': {why}'}"
    return ""


def _over(arm: Arm, decided: _Decided) -> str:
    """Say which limit runs of an arm are over; empty where none is over one."""
    wanted, times = decided.wanted, arm.values(decided.time.column)
    costs = [cost for time_s in times if (cost := wanted.cost(arm, time_s)) is not None]
    currency = wanted.prices.currency if wanted.prices else ""
    for limit, over, amounts, worst, unit in (
        (wanted.deadline_s, DEADLINE, times, "slowest", TRAIN_TIME.unit),
        (wanted.max_cost, MAX_COST, costs, "dearest", currency),
    ):
        if limit is not None and (count := sum(amount > limit for amount in amounts)):
            most = joined(number(max(amounts)), unit, sep=" ")
            return f"{over}: {count} of {counted(len(amounts), 'run')}, the {worst} {most}"
    return ""


def _shown(metric: Metric, values: Mapping[Arm, Values], family: Family) -> dict[Arm, Judged]:
    """Return what is shown of each arm of a family."""
    arms, shown = list(values), {}
    for arm, judgement in zip(arms, family.judgements, strict=True):
        numbers = {name: getattr(judgement, name) for name in ("gain", "worst", "best", "detectable", "further")}
        against = Difference(against=arms[judgement.against].title, is_share=judgement.is_share, **numbers)
        has_rival = arms[judgement.against] is not arm
        shown[arm] = _measured(metric, values[arm], judgement.verdict, against if has_rival else None)
    return shown


def _measured(metric: Metric, values: Values, verdict: Verdict, difference: Difference | None = None) -> Judged:
    interval = median_interval(list(values.values()))
    spread = Spread(median=interval.value, low=interval.low, high=interval.high, n=interval.n)
    return Judged(metric=metric.column, spread=spread, verdict=verdict, difference=difference)


def _arm_answer(arm: Arm, group: ComparisonGroup, decided: _Decided, reason: str, shown: _ByMetric) -> ArmAnswer:
    value, quality = (shown.get(metric, {}).get(arm) for metric in (decided.value, decided.quality))
    if value is None and not reason:
        # It is not judged by what the goal wants, but has it.
        value = _measured(decided.value, decided.values(arm, decided.value), Verdict.OPEN)
    judged, times = quality or value, arm.values(decided.time.column)
    seconds, slowest_s = _median(times), max(times, default=None)
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
        time_s=seconds,
        slowest_s=slowest_s,
        worker_hours=None if seconds is None else _hours(arm, seconds),
        cost=decided.wanted.cost(arm, seconds),
        dearest=decided.wanted.cost(arm, slowest_s),
        energy_j=_median(arm.values("energy_j")),
        lost_time=lost_time(arm),
    )


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def best_first(arms: Sequence[Arm], wanted: Wanted, *, is_time_choice: bool) -> tuple[list[Arm], int]:
    """Return the candidates of one arm, the best first, and how many of them are as sound as that one.

    Those that did not complete, learned nothing or missed the target come last; of those that learned nothing by their
    end, the one that had learned most at any evaluation is first: the rates to try next are on its side. The others go
    by what the goal wants, each by its worst run: a learning rate at which one of two seeds learns nothing is no good
    one. Where what is tried does not change the time of a step, a target is reached soonest in the fewest epochs,
    whatever else the machine did at the time; and of candidates whose score differs by no more than what matters, or
    than two standard errors of an accuracy over the validation samples, the one with the least loss is first.

    Args:
        arms: The runs of each candidate.
        wanted: Goal and metrics.
        is_time_choice: Whether the time of a step depends on what is tried.
    """
    decided = criteria(ComparisonGroup("", "", tuple(arms)), wanted)
    # A price is that of the time: candidates of one arm have the same workers.
    score, value = decided.score, decided.deciding[-1]
    first, second = (value, score) if decided.target or score is None else (score, wanted.metrics[LOSS])
    if decided.target and not is_time_choice:
        first = replace(TIME_TO_TARGET, column="epochs_to_target", margin=0.0)
    if decided.target and score is not None and all(map(math.isinf, (_less(arm, first) for arm in arms))):
        first, second = score, wanted.metrics[LOSS]  # as near as they came to it
    if decided.quality and is_time_choice:
        second = value
    if first is RATE and not all(arm.comparable(RATE.column) for arm in arms):
        first = TRAIN_TIME  # of as many samples

    def rank(arm: Arm) -> tuple[bool, int, float, float, float]:
        is_bad = bool(not_completed(arm.rows) or (score and learned_nothing(arm, score, wanted.metrics)))
        missed = sum(map(math.isinf, arm.comparable(decided.time.column).values())) if decided.target else 0
        loss = _less(arm, wanted.metrics[LOSS])
        if is_bad and score is not None and score.column == OF_BEST:
            return is_bad, missed, _less(arm, replace(score, column=BEST)), _less(arm, score), loss
        return is_bad, missed, _less(arm, first), _less(arm, score), loss

    ranked = sorted(arms, key=rank)
    best = rank(ranked[0])
    num_sound = 1 if best[0] else sum(rank(arm)[:2] == best[:2] for arm in ranked)
    if second is None or not math.isfinite(best[2]):
        return ranked, num_sound
    drawn = sampling_error(first, abs(best[2]), ranked[0].get("validation_samples"))
    allowed = max(first.margin_at(best[2]), drawn)
    alike = [arm for arm in ranked[:num_sound] if rank(arm)[2] <= best[2] + allowed]
    chosen = min(alike, key=lambda arm: _less(arm, second))
    least = _less(ranked[0], second)
    if second is value and least - _less(chosen, second) < second.margin_at(least):
        return ranked, num_sound
    alike = [chosen] if second is value else sorted(alike, key=lambda arm: _less(arm, second))
    return [*alike, *(arm for arm in ranked if arm not in alike)], num_sound


def _less(arm: Arm, metric: Metric | None) -> float:
    """Return an arm's worst run, less being better; infinity where it has none."""
    values = arm.comparable(metric.column).values() if metric else ()
    sign = -1.0 if metric and metric.is_higher_better else 1.0
    return max((sign * value for value in values), default=math.inf)
