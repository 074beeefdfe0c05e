"""Which of the candidates of a search is the best one by the goal."""

import math
from collections.abc import Sequence

from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.answer.decide import Wanted, criteria, learned_nothing
from dlbench.analysis.answer.doubts import not_completed
from dlbench.analysis.arms import Arm
from dlbench.scenario.metrics import Metric


def best_first(arms: Sequence[Arm], wanted: Wanted, *, is_time_choice: bool) -> list[Arm]:
    """Return the candidates of one arm, the best first.

    Those that did not complete, learned nothing or missed the target come last. The others go by what the goal wants:
    the time to the target, else the score that no arm may lose, else the rate, each of their worst run: a learning
    rate at which one of two seeds comes to nothing is no good one. Of those that differ in it by no more than what
    matters the one with the best score is first, or where there is no target the fastest one.

    Args:
        arms: The runs of each candidate.
        wanted: Goal and metrics.
        is_time_choice: Whether the time of a step depends on what is tried.
    """
    decided = criteria(ComparisonGroup("", "", tuple(arms)), wanted)
    score = decided.target[0] if decided.target else decided.quality
    first, second = (decided.value, score) if decided.target or score is None else (score, None)
    if decided.quality and is_time_choice:
        second = decided.value

    def rank(arm: Arm) -> tuple[bool, int, float, float]:
        is_bad = bool(not_completed(arm.rows) or (score and learned_nothing(arm, score, wanted.metrics)))
        missed = sum(map(math.isinf, arm.comparable(decided.time.column).values())) if decided.target else 0
        return is_bad, missed, _less(arm, first), _less(arm, score)

    ranked = sorted(arms, key=rank)
    best = rank(ranked[0])
    allowed = first.margin * (abs(best[2]) if first.is_share else 1.0)
    if second is None or not math.isfinite(best[2]):
        return ranked
    alike = [arm for arm in ranked if rank(arm)[:2] == best[:2] and rank(arm)[2] <= best[2] + allowed]
    chosen = min(alike, key=lambda arm: _less(arm, second))
    if second is decided.value and _less(chosen, second) > (1 - second.margin) * _less(ranked[0], second):
        return ranked
    return [chosen, *(arm for arm in ranked if arm is not chosen)]


def _less(arm: Arm, metric: Metric | None) -> float:
    """Return an arm's worst run, less being better; infinity where it has none."""
    values = arm.comparable(metric.column).values() if metric else ()
    sign = -1.0 if metric and metric.is_higher_better else 1.0
    return max((sign * value for value in values), default=math.inf)
