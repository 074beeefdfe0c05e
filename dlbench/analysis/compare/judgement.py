"""The one judgement of dlbench: whether two groups of repeats differ by more than chance and noise.

Terminal, page and `dlbench compare` all ask `judge`, so that they never contradict each other. Few values can never be
significant, whatever they are: that is a verdict of its own, never "no difference".
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from dlbench.analysis.statistics.rank_tests import a12, holm, mann_whitney, signed_rank

# Two groups differ where equal ones would differ so much only this rarely.
SIGNIFICANCE = 0.05
# The timed window opens once step times have settled within 2% (`warmup_detected`): what differs by less is within
# what the steps of one run still vary by.
NOISE = 0.02


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
        paired: Whether a[i] and b[i] belong together, as repeats with one seed do.
    """

    a: tuple[float, ...]
    b: tuple[float, ...]
    lower: bool = False
    paired: bool = False


@dataclass(frozen=True)
class Judgement:
    """What came out of one comparison.

    Attributes:
        verdict: `better` and `worse` need significance after Holm and medians that differ by more than noise.
        a12: Probability that a value of the first group is above one of the second (Vargha and Delaney 2000).
        p: Two-sided p-value after Holm over the family; None where there are too few repeats to test.
        p_alone: The same without Holm.
        family: Number of comparisons that were tested together.
    """

    verdict: Verdict
    a12: float
    p: float | None
    p_alone: float | None
    family: int


def better(a: Sequence[float], b: Sequence[float], noise: float = NOISE, *, lower: bool = False) -> Judgement:
    """Judge whether `a` is better than `b`, as the only comparison that is made.

    Args:
        a: Values of the first group, at least one.
        b: Values of the second, at least one.
        noise: Medians that differ by no more than this share of b's are neither better nor worse.
        lower: Whether smaller values are better.

    Raises:
        ValueError: A group is empty, or a value is not a number.
    """
    return judge([JudgementCase(tuple(map(float, a)), tuple(map(float, b)), lower)], noise)[0]


def judge(cases: Sequence[JudgementCase], noise: float = NOISE) -> tuple[Judgement, ...]:
    """Judge a family of comparisons together: Holm over those with enough repeats to differ at all.

    Which they are follows from the number of repeats alone, never from values, so leaving them out is no choice.

    Raises:
        ValueError: A group is empty, or a value is not a number.
    """
    tested = [place for place, case in enumerate(cases) if can_differ(len(case.a), len(case.b))]
    alone = _p_values([cases[place] for place in tested])
    found = dict(zip(tested, zip(alone, holm(alone), strict=True), strict=True))
    return tuple(_judgement(case, found.get(place), len(tested), noise) for place, case in enumerate(cases))


def can_differ(n: int, m: int, family: int = 1) -> bool:
    """Whether n and m repeats that lie wholly apart are significant among so many comparisons.

    Alone: 4 and 4 or more, 3 and 5, never 2 and 7 or 3 and 3: the smallest two-sided p-value of Mann and Whitney is
    2 / (n + m choose n).
    """
    return 2 * max(family, 1) / math.comb(n + m, n) <= SIGNIFICANCE


def repeats_needed(family: int = 1) -> int:
    """Return how many repeats of each arm can be significant among so many comparisons: 4 for one, 5 for two to six."""
    return next(n for n in range(1, 100) if can_differ(n, n, family))


def _p_values(cases: Sequence[JudgementCase]) -> list[float]:
    """Return the p-value of each case, cases of one size at once.

    Pairs count as pairs only where so many of them can be significant.
    """
    shapes: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for place, case in enumerate(cases):
        is_paired = case.paired and len(case.a) == len(case.b)
        is_paired = is_paired and len(cases) * 2.0 ** (1 - len(case.a)) <= SIGNIFICANCE
        shapes[len(case.a), len(case.b), is_paired].append(place)
    found = [1.0] * len(cases)
    for (_, _, is_paired), places in shapes.items():
        test = signed_rank if is_paired else mann_whitney
        for place, p in zip(places, test([cases[i].a for i in places], [cases[i].b for i in places]), strict=True):
            found[place] = float(p)
    return found


def _judgement(case: JudgementCase, found: tuple[float, float] | None, family: int, noise: float) -> Judgement:
    alone, after = found or (None, None)
    effect = a12(case.a, case.b)
    if after is None or (after > SIGNIFICANCE and not can_differ(len(case.a), len(case.b), family)):
        verdict = Verdict.TOO_FEW
    else:
        verdict = _direction(case, effect, noise) if after <= SIGNIFICANCE else Verdict.CANNOT_BE_TOLD
    return Judgement(verdict, effect, after, alone, family)


def _direction(case: JudgementCase, effect: float, noise: float) -> Verdict:
    """Return which of two groups that differ by more than chance is ahead, where medians and ranks agree on it."""
    first, second = median(case.a), median(case.b)
    is_below = bool(first < second)
    # Both medians may be infinite; their difference is then not a number, and above nothing.
    if not abs(first - second) > noise * abs(second) or is_below != (effect < 0.5):
        return Verdict.CANNOT_BE_TOLD
    return Verdict.BETTER if is_below == case.lower else Verdict.WORSE
