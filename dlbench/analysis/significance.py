"""Whether two groups of repeats differ by more than chance: rank tests, their effect sizes, and Holm over a family.

Ranks ask nothing of the shape of a distribution, which five repeats cannot tell. Mann and Whitney (1947) for groups
that were drawn apart, Wilcoxon (1945) where values belong together by their seed. Few values can never be significant,
whatever they are: that is said in its own words, never as "no difference".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import median

import numpy as np
import numpy.typing as npt

from dlbench.analysis.intervals import SIGNIFICANCE, can_differ

# The timed window opens once step times have settled within 2% (`warmup_detected`): what differs by less is within
# what the steps of one run still wander.
NOISE = 0.02
# Up to so many values of both groups together p is exact; above it the normal approximation is good to the digits said.
EXACT_UP_TO = 30
# Differences that are the same to so many digits of the largest value differ by rounding alone.
SAME_DIGITS = 12

Ranks = npt.NDArray[np.int64]
Ways = npt.NDArray[np.float64]


class Word(StrEnum):
    """What a comparison says of its first group."""

    BETTER = "better"
    WORSE = "worse"
    CANNOT_BE_TOLD = "cannot be told"
    TOO_FEW = "too few repeats"


@dataclass(frozen=True)
class Case:
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
class Verdict:
    """What came out of one comparison.

    Attributes:
        word: `better` and `worse` need significance after Holm and medians that differ by more than noise.
        a12: Probability that a value of the first group is above one of the second (Vargha and Delaney 2000).
        p: Two-sided p-value after Holm over the family; None where there are too few repeats to test.
        p_alone: The same without Holm.
        family: Number of comparisons that were tested together.
    """

    word: Word
    a12: float
    p: float | None
    p_alone: float | None
    family: int


def better(a: Sequence[float], b: Sequence[float], noise: float = NOISE, *, lower: bool = False) -> Verdict:
    """Say whether `a` is better than `b`, as the only comparison that is made.

    Args:
        a: Values of the first group, at least one.
        b: Values of the second, at least one.
        noise: Medians that differ by no more than this share of b's are not told apart.
        lower: Whether smaller values are better.

    Raises:
        ValueError: A group is empty, or a value is not a number.
    """
    return judge([Case(tuple(map(float, a)), tuple(map(float, b)), lower)], noise)[0]


def judge(cases: Sequence[Case], noise: float = NOISE) -> tuple[Verdict, ...]:
    """Judge a family of comparisons together: Holm over those with enough repeats to differ at all.

    Which they are follows from the number of repeats alone, never from values, so leaving them out is no choice.

    Raises:
        ValueError: A group is empty, or a value is not a number.
    """
    tested = [place for place, case in enumerate(cases) if can_differ(len(case.a), len(case.b))]
    alone = [_p_value(cases[place], len(tested)) for place in tested]
    found = dict(zip(tested, zip(alone, holm(alone), strict=True), strict=True))
    return tuple(_verdict(case, found.get(place), len(tested), noise) for place, case in enumerate(cases))


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p-value of Mann and Whitney's U: how rarely equal distributions lie so far apart.

    Up to EXACT_UP_TO values it is exact, equal values included: every choice of which values are the first group's
    counts, and the smaller tail is doubled (without equal values this is what `scipy.stats.mannwhitneyu` calls exact).
    Above, it is scipy's normal approximation, corrected for equal values and for continuity.

    Raises:
        ValueError: A group is empty, or a value is not a number.
    """
    joined = _joined(a, b)
    if joined.min() == joined.max():
        return 1.0
    if len(joined) > EXACT_UP_TO:
        from scipy.stats import mannwhitneyu

        return float(mannwhitneyu(a, b, alternative="two-sided", method="asymptotic").pvalue)
    ranks = doubled_ranks(joined)
    fewer = ranks[: len(a)] if len(a) <= len(b) else ranks[len(a) :]
    return _two_sided(_ways_to_choose(tuple(sorted(ranks.tolist())), len(fewer)), int(fewer.sum()))


def signed_rank(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the two-sided p-value of Wilcoxon's signed rank test, where a[i] and b[i] belong together.

    Pairs without a difference are left out. Exact up to EXACT_UP_TO pairs, equal differences included; above it is
    what scipy finds best. Five pairs give 0.0625 at least.

    Raises:
        ValueError: The groups are not equally long, are empty, or a value is not a finite number.
    """
    pairs = np.asarray([a, b], dtype=np.float64) if len(a) == len(b) > 0 else np.full((2, 1), np.nan)
    if not np.isfinite(pairs).all():
        raise ValueError("pairs need two groups of the same length, all of them finite numbers")
    apart = _differences(pairs)
    if not len(apart):
        return 1.0
    if len(apart) > EXACT_UP_TO:
        from scipy.stats import wilcoxon

        return float(wilcoxon(apart, correction=True).pvalue)
    ranks = doubled_ranks(np.abs(apart))
    return _two_sided(_ways_to_sign(tuple(sorted(ranks.tolist()))), int(ranks[apart > 0].sum()))


def a12(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the probability that a value of `a` is above one of `b`, equal ones by half (Vargha and Delaney 2000).

    Raises:
        ValueError: A group is empty, or a value is not a number.
    """
    joined = _joined(a, b)
    first, second = joined[: len(a), None], joined[None, len(a) :]
    return float((first > second).mean() + 0.5 * (first == second).mean())


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values after Holm's (1979) step-down correction, in the order given.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none becomes smaller than the one before it.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for done, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[place]))
        adjusted[place] = largest
    return tuple(adjusted)


def can_tell(n: int, m: int, family: int = 1) -> bool:
    """Whether n and m repeats can be significant at all among so many comparisons, if they lie wholly apart."""
    return 2 * max(family, 1) / math.comb(n + m, n) <= SIGNIFICANCE


def repeats_needed(family: int = 1) -> int:
    """Return how many repeats of each arm can be significant among so many comparisons: 4 for one, 5 for two to six."""
    return next(n for n in range(1, 100) if can_tell(n, n, family))


def doubled_ranks(values: npt.ArrayLike) -> Ranks:
    """Return twice the rank of each value, from 2 on: whole numbers also where equal values share a middle rank."""
    _, places, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    before = np.cumsum(counts) - counts
    ranks: Ranks = (2 * before + counts + 1)[places]
    return ranks


def _joined(a: Sequence[float], b: Sequence[float]) -> npt.NDArray[np.float64]:
    joined = np.asarray([*a, *b], dtype=np.float64)
    if not len(a) or not len(b) or np.isnan(joined).any():
        raise ValueError("a comparison needs values on both sides, all of them numbers")
    return joined


def _differences(pairs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the differences that are none of rounding, over the largest value: 0.9 - 0.8 is then 0.8 - 0.7."""
    largest = np.abs(pairs).max()
    apart = np.round((pairs[0] - pairs[1]) / (largest or 1.0), SAME_DIGITS)
    found: npt.NDArray[np.float64] = apart[apart != 0]
    return found


@lru_cache(maxsize=1024)
def _ways_to_choose(ranks: tuple[int, ...], size: int) -> Ways:
    """Return, for each sum, in how many ways `size` of the ranks give it."""
    ways = np.zeros((size + 1, sum(ranks) + 1))
    ways[0, 0] = 1
    for rank in ranks:
        # NumPy reads the whole right side before it writes, so that each rank is chosen once at most.
        ways[1:, rank:] += ways[:-1, :-rank]
    found: Ways = ways[size].copy()
    return found


@lru_cache(maxsize=1024)
def _ways_to_sign(ranks: tuple[int, ...]) -> Ways:
    """Return, for each sum, in how many ways some of the ranks give it: those whose difference is above zero."""
    ways = np.zeros(sum(ranks) + 1)
    ways[0] = 1
    for rank in ranks:
        ways[rank:] += ways[:-rank]
    return ways


def _two_sided(ways: Ways, found: int) -> float:
    tail = min(ways[: found + 1].sum(), ways[found:].sum())
    return min(1.0, float(2 * tail / ways.sum()))


def _p_value(case: Case, family: int) -> float:
    """Return a comparison's p-value; pairs count as pairs only where so many of them can be significant."""
    if case.paired and len(case.a) == len(case.b) and family * 2.0 ** (1 - len(case.a)) <= SIGNIFICANCE:
        return signed_rank(case.a, case.b)
    return mann_whitney(case.a, case.b)


def _verdict(case: Case, found: tuple[float, float] | None, family: int, noise: float) -> Verdict:
    alone, after = found or (None, None)
    effect = a12(case.a, case.b)
    if after is None or (after > SIGNIFICANCE and not can_tell(len(case.a), len(case.b), family)):
        word = Word.TOO_FEW
    else:
        word = _direction(case, effect, noise) if after <= SIGNIFICANCE else Word.CANNOT_BE_TOLD
    return Verdict(word, effect, after, alone, family)


def _direction(case: Case, effect: float, noise: float) -> Word:
    """Return which of two groups that differ by more than chance is ahead, where medians and ranks agree on it."""
    first, second = median(case.a), median(case.b)
    is_below = bool(first < second)
    # Both medians may be infinite; their difference is then not a number, and above nothing.
    if not abs(first - second) > noise * abs(second) or is_below != (effect < 0.5):
        return Word.CANNOT_BE_TOLD
    return Word.BETTER if is_below == case.lower else Word.WORSE
