"""Which arm to use for the least training time, the highest accuracy, the least time to a target; at what price."""

import math
from collections.abc import Iterator, Sequence

from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.answer.ranking import ACCURACY, SPEED, TIME, Goal, Ranking, rank
from dlbench.analysis.arms import TIME_TO_TARGET, Arm, Row
from dlbench.analysis.compare.judgement import NOISE, Judgement, Verdict
from dlbench.analysis.formatting import SECONDS, Statement, Unit, chance, counted, listed, number, one_line, percent

_OF_BEST = Unit(number, " times the best")


def best(group: ComparisonGroup) -> Iterator[Statement]:
    """Say which arm of a group to use for what, which arms do not differ from it, and what it costs in accuracy."""
    if len(group.completed) == 1:
        yield from _only(group.completed[0])
        return
    yield from targets(group)
    time, speed, accuracy = (ranked(group.completed, goal) for goal in (TIME, SPEED, ACCURACY))
    if time is not None:
        yield Statement(_use(time) + _without(time, group.arms) + _fewer_samples(time) + _price(time, accuracy), "use")
        yield from _why(time)
    # Of several arms one alone may have a rate for being slow: others made too few steps in the time.
    is_ranking = speed is not None and (len(speed.values) > 1 or len(group.completed) == 1)
    if speed is not None and is_ranking and (time is None or speed.best is not time.best):
        timed = "; steps after training were timed too" if speed.best.is_extended else ""
        yield Statement(f"{_use(speed)}{_without(speed, group.arms)}{timed}.", "why")
    if accuracy is not None:
        yield Statement(f"{_use(accuracy)}{_without(accuracy, group.arms)}.", "use")
        yield from _why(accuracy)


def ranked(arms: Sequence[Arm], goal: Goal) -> Ranking | None:
    """Return the arms that have values ranked by a goal; None where none has."""
    known = [arm for arm in arms if goal.values(arm)]
    return rank([known], goal)[0] if known else None


def targets(group: ComparisonGroup) -> Iterator[Statement]:
    """Say which arm reaches each target of a group first; a run that never did is ranked last."""
    asked = {_target(row): None for arm in group.arms for row in arm.rows}
    for target in asked:
        arms = [arm for arm in group.arms if _target(arm.first) == target and arm.scores_mean_something]
        if target is not None and arms:
            yield from _reached(f"{one_line(target[0]).replace('_', ' ')} of {target[1]:g}", arms)


def _target(row: Row) -> tuple[str, float] | None:
    metric, value = row.get("target_metric"), row.get("target_value")
    return None if metric is None or value is None else (metric, float(value))


def _reached(target: str, arms: Sequence[Arm]) -> Iterator[Statement]:
    goal = Goal(f"time to a {target}", TIME_TO_TARGET, NOISE, SECONDS)
    ranking = ranked(arms, goal)
    if ranking is None:
        return
    times = [time for values in ranking.values.values() for time in values]
    if all(map(math.isinf, times)):
        yield Statement(f"None of {counted(len(times), 'run')} came to a {target}.", "warning")
        return
    own = ranking.values[ranking.best]
    count = sum(map(math.isfinite, own))
    rest = "" if count == len(own) else "; the others are ranked last"
    reached = f"{count} of {counted(len(own), 'run')} reached it{rest}"
    yield Statement(f"{_use(ranking)}; {reached}{_without(ranking, arms)}.", "use")
    yield from _why(ranking)


def _only(arm: Arm) -> Iterator[Statement]:
    yield Statement(f"Only one arm has completed runs, {arm.title}: there is nothing to choose between.", "warning")
    known = [f"{goal.what} {goal.spread(arm)}" for goal in (TIME, SPEED, ACCURACY) if goal.values(arm)]
    if known:
        yield Statement(f"{arm.title}: {', '.join(known)}; {_runs(arm)}.", "why")


def _use(ranking: Ranking) -> str:
    """Return the arm to use with its number, and how sure that is; without a full stop."""
    goal, best, others = ranking.goal, ranking.best, len(ranking.judgements)
    if others == 0:
        return f"For {goal.words}: {best.title}, the only arm with a value: {goal.spread(best)}"
    if ranking.all_equal:
        return f"For {goal.words}: any, all {others + 1} arms have the median {goal.median(best)}"
    return f"For {goal.words}: {best.title}: {goal.spread(best)}, {_runs(best)}; {_sure(ranking)}"


def _sure(ranking: Ranking) -> str:
    """Say which arms the best is ahead of; that it cannot be told apart from others is no sign that they are equal."""
    few, same = ranking.of(Verdict.TOO_FEW), ranking.of(Verdict.CANNOT_BE_TOLD)
    others = len(ranking.judgements)
    if not few and not same:
        which = "the other one" if others == 1 else f"all {others} others"
        return f"ahead of {which} by more than {_chance(ranking.goal)}"
    parts = [f"cannot be told apart from {_which(same, others)}"] if same else []
    if few:
        best = len(ranking.values[ranking.best])
        repeats = max(min(best, len(ranking.values[arm])) for arm in few)
        if repeats == 1 and len(few) == others:
            return "one repeat says nothing about chance"
        said = f"{repeats} repeats are" if repeats > 1 else "one repeat is"
        parts.append(f"{said} too few to compare it with {_which(few, others)}")
    return "; ".join(parts)


def _without(ranking: Ranking, arms: Sequence[Arm]) -> str:
    """Name the arms that have no value, and so were not compared."""
    missing = [arm.title for arm in arms if arm not in ranking.values]
    return f"; not compared, without {ranking.goal.what}: {listed(missing, separator='; ')}" if missing else ""


def _which(arms: Sequence[Arm], others: int) -> str:
    if others == 1:
        return "the other one"
    return f"{len(arms)} of {others} others" if len(arms) < others else f"any of {others} others"


def _why(ranking: Ranking) -> Iterator[Statement]:
    """Name the arms that cannot be told apart from the best, and those that are behind it."""
    if ranking.all_equal:
        return
    goal, name = ranking.goal, ranking.best.title
    if same := ranking.of(Verdict.CANNOT_BE_TOLD):
        said = listed((f"{arm.title} ({goal.median(arm)})" for arm in same), separator="; ")
        yield Statement(f"In {goal.what} these cannot be told apart from {name}: {said}.", "why")
    if behind := ranking.of(Verdict.BETTER):
        parts = (
            f"{arm.title} ({goal.median(arm)}{_times(ranking.judgements[arm])}{_more_samples(ranking, arm)})"
            for arm in behind
        )
        said = listed(parts, separator="; ")
        yield Statement(f"In {goal.what} these are behind {name} by more than chance: {said}.", "why")


def _fewer_samples(ranking: Ranking) -> str:
    """Say so where the arm with the least training time saw fewer samples than one that it is ahead of."""
    most = max((arm for arm in ranking.values if arm.samples_seen), key=lambda arm: arm.samples_seen or 0, default=None)
    if most is None or not _more_samples(ranking, most):
        return ""
    return f"; but it trained on {ranking.best.samples_seen:,} samples, {most.title} on {most.samples_seen:,}"


def _more_samples(ranking: Ranking, arm: Arm) -> str:
    """Return on how many samples an arm trained in its training time, where these are more than the best arm's."""
    own, best = arm.samples_seen, ranking.best.samples_seen
    if ranking.goal is not TIME or own is None or best is None or own <= best:
        return ""
    return f", for {own:,} samples against {best:,}"


def _times(judgement: Judgement) -> str:
    """Return the ratio to the best arm with its interval, and the p-value."""
    ratio = f", {_OF_BEST.with_ends(judgement.ratio)}" if judgement.ratio else ""
    return f"{ratio}, {chance(judgement.p)}"


def _chance(goal: Goal) -> str:
    """Return what a difference must exceed to count."""
    return f"chance, medians by more than {percent(goal.noise)}" if goal.noise else "chance"


def _price(time: Ranking, accuracy: Ranking | None) -> str:
    """Say what the least training time costs in accuracy, and which arm has the least at no cost; with a full stop."""
    fastest = time.best
    if accuracy is None or fastest is accuracy.best or fastest not in accuracy.values:
        return "."
    numbers = f"{ACCURACY.spread(fastest)} against {ACCURACY.spread(accuracy.best)} of {accuracy.best.title}"
    word = accuracy.judgements[fastest].verdict
    if word is Verdict.BETTER:
        return f". But its validation accuracy is {numbers}: lower by more than chance. {_spared(time, accuracy)}"
    lost = accuracy.median(fastest) < (1 - NOISE) * accuracy.median(accuracy.best)
    if lost:
        why = "too few repeats to tell whether this is noise" if word is Verdict.TOO_FEW else "this may be chance"
        return f". Its validation accuracy is {numbers}: {why}."
    return "."


def _spared(time: Ranking, accuracy: Ranking) -> str:
    """Name the arm with the least training time of which no loss of accuracy is shown; few repeats show little."""
    lower = accuracy.of(Verdict.BETTER)
    arm = next((arm for arm in time.values if arm in accuracy.values and arm not in lower), None)
    if arm is None:
        return "Every arm with a training time shows such a loss."
    numbers = f"{TIME.spread(arm)}, validation accuracy {ACCURACY.spread(arm)}"
    return f"The arm with the least training time that shows no such loss is {arm.title}: {numbers}."


def _runs(arm: Arm) -> str:
    if arm.n < len(arm.rows):
        return f"{arm.n} of {counted(len(arm.rows), 'run')} completed"
    return counted(len(arm.rows), "run")
