"""Arms ranked by what one may want least or most of, each compared with the best one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dlbench.analysis.arms import LOWER_IS_BETTER, SCORES, Arm
from dlbench.analysis.compare.judgement import NOISE, Judgement, Verdict, judge_best
from dlbench.analysis.formatting import RATE, SCORE, SECONDS, Unit


@dataclass(frozen=True)
class Goal:
    """What one may want least or most of.

    Attributes:
        what: Its name.
        metric: The column that says how far an arm is from it.
        noise: Share by which medians must differ besides being significant.
        unit: How values are written.
    """

    what: str
    metric: str
    noise: float
    unit: Unit

    @property
    def lower(self) -> bool:
        """Whether smaller values are better."""
        return LOWER_IS_BETTER[self.metric]

    @property
    def words(self) -> str:
        """What follows "for"."""
        return f"the {'least' if self.lower else 'highest'} {self.what}"

    def values(self, arm: Arm) -> tuple[float, ...]:
        """Return one number for each repeat of an arm that has one; infinite where the goal was not reached."""
        return tuple(arm.comparable(self.metric).values())

    def spread(self, arm: Arm) -> str:
        """Return an arm's median with its interval; where some runs never reached the goal, the median alone."""
        values = self.values(arm)
        return self.unit.spread(values) if all(map(math.isfinite, values)) else self.median(arm)

    def median(self, arm: Arm) -> str:
        """Return an arm's median with its unit."""
        value = median(self.values(arm))
        return "not reached by half of its runs" if math.isinf(value) else self.unit.shown(value)


TIME = Goal("training time", "train_time_s", NOISE, SECONDS)
SPEED = Goal("steady throughput", "samples_per_s", NOISE, RATE)
# Any difference of accuracy that is more than chance is reported: how much is too much is for the reader to decide.
ACCURACY = Goal("validation accuracy", "validation_accuracy", 0.0, SCORE)


@dataclass(frozen=True)
class Ranking:
    """Arms in the order of their medians.

    Every arm is compared with the one that came out best. Two of those that do not differ from it may well differ.

    Attributes:
        goal: By what they are ranked.
        values: Values by arm, the best median first.
        judgements: Of the best arm against each other one; `better` where they differ.
    """

    goal: Goal
    values: Mapping[Arm, tuple[float, ...]]
    judgements: Mapping[Arm, Judgement]

    @property
    def best(self) -> Arm:
        """The arm with the best median, the first of equals."""
        return next(iter(self.values))

    def of(self, verdict: Verdict) -> list[Arm]:
        """Return the arms with this verdict, in order."""
        return [arm for arm, judgement in self.judgements.items() if judgement.verdict is verdict]

    def median(self, arm: Arm) -> float:
        """Return an arm's median."""
        return median(self.values[arm])

    @property
    def all_equal(self) -> bool:
        """Whether all arms have one median."""
        return len({median(values) for values in self.values.values()}) == 1

    @property
    def repeats(self) -> int:
        """Most repeats of an arm."""
        return max(map(len, self.values.values()))


def rank(groups: Sequence[Sequence[Arm]], goal: Goal) -> list[Ranking]:
    """Return a ranking of each group; all comparisons of all groups hold together.

    Args:
        groups: One or more arms each, all of which have values of the goal.
        goal: By what to rank them.
    """
    ordered = []
    for arms in groups:
        values = {arm: goal.values(arm) for arm in arms}
        ordered.append(dict(sorted(values.items(), key=lambda item: median(item[1]), reverse=not goal.lower)))
    groups_values = [list(values.values()) for values in ordered]
    judged = judge_best(groups_values, goal.noise, lower=goal.lower, is_score=goal.metric in SCORES)
    return [
        Ranking(goal, values, dict(zip(list(values)[1:], judgements, strict=True)))
        for values, judgements in zip(ordered, judged, strict=True)
    ]
