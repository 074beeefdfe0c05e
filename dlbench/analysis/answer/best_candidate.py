"""Which of the candidates of a search is the best one by the goal."""

import math
from collections.abc import Sequence
from dataclasses import replace

from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.answer.decide import Wanted, criteria, learned_nothing
from dlbench.analysis.answer.doubts import not_completed
from dlbench.analysis.arms import Arm
from dlbench.records.result import BEST
from dlbench.scenario.metrics import RATE, TIME_TO_TARGET, TRAIN_TIME, Metric

EPOCHS, LOSS = "epochs_to_target", "validation_loss"
# The score whose best value at any evaluation is the column `BEST`.
OF_BEST = "validation_accuracy"


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
    score = decided.target[0] if decided.target else decided.quality
    first, second = (decided.value, score) if decided.target or score is None else (score, wanted.metrics[LOSS])
    if decided.target and not is_time_choice:
        first = replace(TIME_TO_TARGET, column=EPOCHS, margin=0.0)
    if decided.target and score is not None and all(map(math.isinf, (_less(arm, first) for arm in arms))):
        first, second = score, wanted.metrics[LOSS]  # as near as they came to it
    if decided.quality and is_time_choice:
        second = decided.value
    if first is RATE and not all(arm.comparable(RATE.column) for arm in arms):
        first = TRAIN_TIME  # of as many samples

    def rank(arm: Arm) -> tuple[bool, int, float, float, float]:
        is_bad = bool(not_completed(arm.rows) or (score and learned_nothing(arm, score, wanted.metrics)))
        missed = sum(map(math.isinf, arm.comparable(decided.time.column).values())) if decided.target else 0
        if is_bad and score is not None and score.column == OF_BEST:
            return is_bad, missed, _less(arm, replace(score, column=BEST)), _less(arm, score), math.inf
        return is_bad, missed, _less(arm, first), _less(arm, score), _less(arm, wanted.metrics[LOSS])

    ranked = sorted(arms, key=rank)
    best = rank(ranked[0])
    num_sound = 1 if best[0] else sum(rank(arm)[:2] == best[:2] for arm in ranked)
    allowed = max(first.margin * (abs(best[2]) if first.is_share else 1.0), _sampling_error(ranked[0], first))
    if second is None or not math.isfinite(best[2]):
        return ranked, num_sound
    alike = [arm for arm in ranked[:num_sound] if rank(arm)[2] <= best[2] + allowed]
    chosen = min(alike, key=lambda arm: _less(arm, second))
    if second is decided.value and _less(chosen, second) > (1 - second.margin) * _less(ranked[0], second):
        return ranked, num_sound
    alike = [chosen] if second is decided.value else sorted(alike, key=lambda arm: _less(arm, second))
    return [*alike, *(arm for arm in ranked if arm not in alike)], num_sound


def _sampling_error(arm: Arm, metric: Metric) -> float:
    """Return two standard errors of an arm's accuracy, the samples of its validation set being drawn; 0 of others."""
    samples, share = arm.get("validation_samples"), abs(_less(arm, metric))
    return 2 * math.sqrt(share * (1 - share) / samples) if metric.score == "accuracy" and samples and share < 1 else 0.0


def _less(arm: Arm, metric: Metric | None) -> float:
    """Return an arm's worst run, less being better; infinity where it has none."""
    values = arm.comparable(metric.column).values() if metric else ()
    sign = -1.0 if metric and metric.is_higher_better else 1.0
    return max((sign * value for value in values), default=math.inf)
