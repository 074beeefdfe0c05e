"""The one judgement of dlbench: whether two groups of repeats differ by more than chance and noise.

Terminal, page, `dlbench compare` and the API all ask it, so that they never contradict each other. Every comparison is
Welch's t of two arms, of logarithms where values are times or rates, of values as they are where they are scores.
Families differ in how they come about: `judge` takes comparisons that were planned before any value was known (Holm),
`judge_best` those with an arm that was chosen by its values (Games and Howell). Few values can never be significant,
whatever they are: that is a verdict of its own, never "no difference".
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

import numpy as np

from dlbench.analysis.statistics.intervals import Interval
from dlbench.analysis.statistics.rank_tests import Floats, a12, holm, mann_whitney
from dlbench.analysis.statistics.welch import (
    FromBest,
    from_best,
    paired,
    smallest_step,
    studentized_range_quantile,
    welch,
)

# Two groups differ where equal ones would differ so much only this rarely.
SIGNIFICANCE = 0.05
# Smaller differences are within the variation between the steps of one run.
NOISE = 0.02
# Fewer repeats do not show how values scatter.
LEAST_REPEATS = 3

Values = tuple[float, ...]


class Verdict(StrEnum):
    """What a comparison says of its first group."""

    BETTER = "better"
    WORSE = "worse"
    CANNOT_BE_TOLD = "cannot be told"
    TOO_FEW = "too few repeats"


@dataclass(frozen=True)
class JudgementCase:
    """One comparison of a family: is `a` better than `b`?

    Attributes:
        a: Values of the first group, one for each repeat; infinite where something was never reached.
        b: Values of the second.
        lower: Whether smaller values are better.
        is_score: Whether values are compared as they are; times and rates are compared by their logarithms.
        paired: Whether a[i] and b[i] belong together, as repeats with one seed do.
    """

    a: Values
    b: Values
    lower: bool = False
    is_score: bool = False
    paired: bool = False


@dataclass(frozen=True)
class Judgement:
    """What came out of one comparison.

    Attributes:
        verdict: `better` and `worse` need significance in the family and medians that differ by more than noise.
        a12: Probability that a value of the first group is above one of the second (Vargha and Delaney 2000).
        p: Two-sided p-value in the family; None where there are too few repeats to test.
        p_alone: The same of this comparison by itself.
        family: Number of comparisons that were tested together.
        ratio: Of times or rates in `judge_best`: geometric mean of b / that of a; the intervals of a
            family hold together (`dlbench.analysis.statistics.welch` says where in less than 95% of studies).
    """

    verdict: Verdict
    a12: float
    p: float | None
    p_alone: float | None
    family: int
    ratio: Interval | None = None


def judge(cases: Sequence[JudgementCase], noise: float = NOISE) -> tuple[Judgement, ...]:
    """Judge a family of comparisons that was planned: Holm over those with enough repeats to differ at all.

    Which they are follows from the number of repeats alone, never from values, so leaving them out is no choice.

    Raises:
        ValueError: A group is empty, or a value is not a number.
    """
    for case in cases:
        _check(case.a, case.b)
    found = {place: _tested(case) for place, case in enumerate(cases) if can_differ(len(case.a), len(case.b))}
    adjusted = iter(holm([p for p, _ in found.values()]))
    judged = []
    for place, case in enumerate(cases):
        alone, estimate = found.get(place, (None, 0.0))
        after = None if alone is None else next(adjusted)
        verdict = _verdict(case, after, estimate, len(found), noise)
        judged.append(Judgement(verdict, a12(case.a, case.b), after, alone, len(found)))
    return tuple(judged)


def judge_best(
    groups: Sequence[Sequence[Values]], noise: float = NOISE, *, lower: bool = False, is_score: bool = False
) -> list[tuple[Judgement, ...]]:
    """Judge in each group of arms the first one against each other; it may be first because its values are the best.

    Arms with too few repeats are left out of a group's family, and p-values of several groups are multiplied by their
    number (Bonferroni).

    Args:
        groups: One or more groups of one or more arms each, values of each arm.
        noise: Medians that differ by no more than this share of the other's are neither better nor worse.
        lower: Whether smaller values are better.
        is_score: Whether values are compared as they are; times and rates are compared by their logarithms.

    Raises:
        ValueError: An arm has no value, or a value is not a number.
    """
    num = sum(len(arms) > 1 for arms in groups)
    families = [_family(arms, is_score=is_score) for arms in groups]
    margins = _margins(families, SIGNIFICANCE / max(1, num))
    return [
        tuple(_against_best(arms, family, margin, num, noise, lower=lower, is_score=is_score))
        for arms, family, margin in zip(groups, families, margins, strict=True)
    ]


def can_differ(n: int, m: int) -> bool:
    """Whether n and m repeats can be compared at all."""
    return min(n, m) >= LEAST_REPEATS


@dataclass(frozen=True, eq=False)
class _Family:
    """The comparisons of one group: its arms with enough repeats, the best one first.

    Attributes:
        found: What comes out; None where there is nothing to compare.
        num_arms: The number of those arms.
        is_ratio: Whether differences are those of logarithms, all of them finite.
    """

    found: FromBest | None
    num_arms: int
    is_ratio: bool = False


def _family(arms: Sequence[Values], *, is_score: bool) -> _Family:
    _check(*arms)
    best, *others = arms
    tested = [other for other in others if can_differ(len(best), len(other))]
    if not tested:
        return _Family(None, 1)
    scaled, is_log = _scaled([best, *tested], is_score=is_score)
    is_ratio = is_log and all(np.isfinite(arm).all() for arm in scaled)
    return _Family(from_best(scaled[0], scaled[1:]), len(scaled), is_ratio)


def _margins(families: Sequence[_Family], significance: float) -> list[Floats]:
    """Return of each comparison of each family half the length of its interval.

    Quantiles of families with equally many arms are looked for together: one by one they would take most of the time.
    """
    found = [np.zeros(0)] * len(families)
    for num_arms in {family.num_arms for family in families if family.found}:
        own = [place for place, family in enumerate(families) if family.found and family.num_arms == num_arms]
        differences = [one.found.difference for one in (families[place] for place in own) if one.found]
        freedom = np.concatenate([one.freedom for one in differences])
        q = studentized_range_quantile(significance, num_arms, freedom).reshape(len(own), -1)
        for place, one, quantiles in zip(own, differences, q, strict=True):
            found[place] = quantiles / math.sqrt(2) * one.error
    return found


def _against_best(
    arms: Sequence[Values], family: _Family, margins: Floats, num_groups: int, noise: float, *, lower: bool,
    is_score: bool,
) -> Iterator[Judgement]:  # fmt: skip
    best, *others = arms
    num_tested, num_tests = family.num_arms - 1, num_groups * math.comb(family.num_arms, 2)
    place = 0
    for other in others:
        if family.found is None or not can_differ(len(best), len(other)):
            yield Judgement(Verdict.TOO_FEW, a12(best, other), None, None, num_tested)
            continue
        p, estimate = (
            min(1.0, num_groups * float(family.found.p[place])),
            float(family.found.difference.estimate[place]),
        )
        verdict = _verdict(JudgementCase(best, other, lower, is_score), p, -estimate, num_tests, noise)
        value, low, high = np.exp(estimate + margins[place] * np.array([0, -1, 1])).tolist()
        n = min(len(best), len(other))
        ratio = Interval(value, low, high, n, 1 - SIGNIFICANCE) if family.is_ratio else None
        yield Judgement(verdict, a12(best, other), p, float(family.found.p_alone[place]), num_tested, ratio)
        place += 1


def _tested(case: JudgementCase) -> tuple[float, float]:
    """Return the p-value of a comparison by itself, and mean(a) - mean(b) on its scale."""
    if not all(map(math.isfinite, (*case.a, *case.b))):
        return float(mann_whitney(case.a, case.b)[0]), math.nan
    (a, b), _ = _scaled([case.a, case.b], is_score=case.is_score)
    test = paired if case.paired else welch
    found = test(a, b, smallest_step(np.concatenate([a, b])))
    return float(found.p), float(found.estimate)


def _scaled(groups: Sequence[Values], *, is_score: bool) -> tuple[list[Floats], bool]:
    """Return the values of a family on the scale they are compared on, and whether these are logarithms.

    Differences of logarithms are ratios, and spreads of times grow with them. Other values are shares of the largest.
    """
    arrays = [np.asarray(values, dtype=np.float64) for values in groups]
    if not is_score and min(map(min, groups)) > 0:
        return [np.log(array) for array in arrays], True
    largest = max((abs(value) for values in groups for value in values if math.isfinite(value)), default=0.0)
    return [array / (largest or 1.0) for array in arrays], False


def _check(*groups: Values) -> None:
    if not all(groups) or any(map(math.isnan, (value for values in groups for value in values))):
        raise ValueError("a comparison needs values on both sides, all of them numbers")


def _verdict(case: JudgementCase, p: float | None, estimate: float, num_tests: int, noise: float) -> Verdict:
    """Return the verdict of a p-value in its family; infinite values have no p-value below that of their ranks."""
    if p is not None and p <= SIGNIFICANCE:
        return _direction(case, estimate, noise)
    by_ranks = not all(map(math.isfinite, (*case.a, *case.b)))
    least = 2 * num_tests / math.comb(len(case.a) + len(case.b), len(case.a))
    return Verdict.TOO_FEW if p is None or (by_ranks and least > SIGNIFICANCE) else Verdict.CANNOT_BE_TOLD


def _direction(case: JudgementCase, estimate: float, noise: float) -> Verdict:
    """Return which of two groups that differ by more than chance is ahead, where medians, means and ranks agree."""
    first, second = median(case.a), median(case.b)
    is_below = bool(first < second)
    # One median may be infinite, or both; their difference is then not a number, and above nothing.
    is_apart = abs(first - second) > noise * abs(first if math.isinf(second) else second)
    if not is_apart or is_below != (a12(case.a, case.b) < 0.5) or (estimate > 0 if is_below else estimate < 0):
        return Verdict.CANNOT_BE_TOLD
    return Verdict.BETTER if is_below == case.lower else Verdict.WORSE
