"""Medians and ratios of repeats with their intervals: runs are resampled, never steps.

The interval of a median lies between order statistics: exact for any distribution, at any number of values; what it
covers is stated, because few repeats cannot cover 95%. The interval of a ratio is the percentile bootstrap of both
medians (Efron 1979), computed without random draws: the distribution of a resample's median follows from the number
of values alone (Maritz and Jarrett 1978). So the same rows give the same answer, that of infinitely many resamples, in
a tenth of the time of `scipy.stats.bootstrap`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import numpy as np
import numpy.typing as npt

LEVEL = 0.95

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

# Medians less probable than this change no end of an interval.
_NEVER = 1e-12


@dataclass(frozen=True)
class Interval:
    """A middle value with an interval.

    Attributes:
        value: The median, or the ratio of medians.
        low: Lower end; None where one value says nothing about spread.
        high: Upper end.
        n: Number of values (of a ratio: the fewer of the two).
        coverage: Probability that such an interval holds the true median; below 0.95 for fewer than six values.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    coverage: float | None


def median_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the median of one or more values with an interval that covers at least `level`, or what n values can.

    Raises:
        ValueError: There is no value.
    """
    if not values:
        raise ValueError("a median needs at least one value")
    ordered, n = sorted(values), len(values)
    middle = float(median(ordered))
    if n == 1:
        return Interval(middle, None, None, 1, None)
    depth = order_statistic_depth(n, level)
    return Interval(middle, ordered[depth - 1], ordered[n - depth], n, order_statistic_coverage(n, depth))


def censored_median(reached: Sequence[float], ended: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return the median of right-censored values: some runs ended before they reached what is measured.

    Such a run would have reached it later, or never. It counts as later than all others, and a median or an end of its
    interval is known only where it is the same whether the run would have arrived at once or never.

    Args:
        reached: The value of each run that reached it.
        ended: What each other run had come to when it ended: its value would be at least that.
        level: Of the interval.

    Returns:
        None where there is no run, or the median depends on the values that are not known.
    """
    if not ended:
        return median_interval(reached, level) if reached else None
    places = _known_places(reached, ended)
    n = len(places)
    low, high = places[(n - 1) // 2], places[n // 2]
    if low is None or high is None:
        return None
    depth = order_statistic_depth(n, level)
    first, last = places[depth - 1], places[n - depth]
    if first is None or last is None:
        return Interval((low + high) / 2, None, None, n, None)
    return Interval((low + high) / 2, first, last, n, order_statistic_coverage(n, depth))


def _known_places(reached: Sequence[float], ended: Sequence[float]) -> list[float | None]:
    """Return the order statistics of all runs, None where one depends on what a run that ended would have come to."""
    earliest = sorted([*reached, *ended])
    latest = sorted([*reached, *[math.inf] * len(ended)])
    return [early if early == late else None for early, late in zip(earliest, latest, strict=True)]


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float], level: float = LEVEL) -> Interval:
    """Return median(numerator) / median(denominator) with its interval; both are resampled (percentile bootstrap).

    Its ends lie between the extreme ratios, which hold the true one unless all values lie apart: two and two values
    give 67% at most, three and three 90% (for spreads of the same shape), and this is the coverage then.

    Raises:
        ValueError: Either has no value, or a denominator is not above zero.
    """
    if not numerator or not denominator or min(denominator) <= 0:
        raise ValueError("a ratio needs values on both sides, and denominators above zero")
    value = float(median(numerator) / median(denominator))
    n = min(len(numerator), len(denominator))
    if n == 1:
        return Interval(value, None, None, 1, None)
    low, high = _ratio_quantiles(numerator, denominator, ((1 - level) / 2, (1 + level) / 2))
    known = 1 - 2 / math.comb(len(numerator) + len(denominator), n)
    return Interval(value, low, high, n, min(level, known))


def order_statistic_coverage(n: int, depth: int) -> float:
    """Return the probability that the median lies between the `depth`-th smallest and largest of n values.

    1 - 2 x P(fewer than `depth` of n values are below the median), each below it with probability 1/2.
    """
    return 1.0 - sum(math.comb(n, below) for below in range(depth)) / (1 << (n - 1))


@lru_cache(maxsize=1024)
def order_statistic_depth(n: int, level: float = LEVEL) -> int:
    """Return the depth of the narrowest pair of n order statistics that covers `level`; 1 where none does."""
    ways, outside = 1, 0
    for depth in range(n // 2 + 1):
        outside += ways
        if outside / (1 << (n - 1)) > 1 - level:
            return max(depth, 1)
        ways = ways * (n - depth) // (depth + 1)
    return 1


def resampled_medians(values: Sequence[float]) -> tuple[Floats, Floats]:
    """Return what the median of a resample of one or more values can be, and how probable each is.

    It is one of the values or, for an even number of them, the middle of two.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    low, high, probability = _places(len(ordered))
    return (ordered[low] + ordered[high]) / 2, probability


def _ratio_quantiles(numerator: Sequence[float], denominator: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return for each share the smallest ratio of two resampled medians that at least this share does not exceed."""
    (top, p_top), (bottom, p_bottom) = resampled_medians(numerator), resampled_medians(denominator)
    ratios = np.divide.outer(top, bottom).ravel()
    order = np.argsort(ratios)
    cumulative = np.cumsum(np.multiply.outer(p_top, p_bottom).ravel()[order])
    # Sums of many probabilities are no more exact than this.
    places = np.searchsorted(cumulative, np.asarray(shares) * cumulative[-1] - 1e-12)
    return [float(ratios[order[place]]) for place in places]


@lru_cache(maxsize=256)
def _places(n: int) -> tuple[Places, Places, Floats]:
    """Return between which two of n ordered values medians of resamples lie, and how probable each pair is."""
    from scipy.special import betainc

    shares, half = np.arange(n + 1) / n, n // 2
    if n % 2:
        # The median is at most the k-th value where more than half of n draws, each with k / n, are.
        places = np.arange(n)
        return _probable(places, places, np.diff(betainc(half + 1, half + 1, shares)))
    lower = np.diff(betainc(half, half + 1, shares))
    low, high = np.triu_indices(n, 1)
    between = np.exp(_log_choices(half) + _log_half(low + 1, n) + _log_half(n - high, n))
    # The two middle draws are one value where they are not two.
    same = np.maximum(lower - np.bincount(low, between, minlength=n), 0.0)
    places = np.arange(n)
    return _probable(np.append(places, low), np.append(places, high), np.append(same, between))


def _log_choices(half: int) -> float:
    """Return the logarithm of the ways to choose which half of the draws is the lower one."""
    return math.lgamma(2 * half + 1) - 2 * math.lgamma(half + 1)


def _log_half(place: Places, n: int) -> Floats:
    """Return the logarithm of the probability that half of n draws are among the outer `place` values, the last too."""
    half = n // 2
    found: Floats = half * np.log(place / n) + np.log1p(-(((place - 1) / place) ** half))
    return found


def _probable(low: Places, high: Places, probability: Floats) -> tuple[Places, Places, Floats]:
    kept = probability > _NEVER
    return low[kept], high[kept], probability[kept] / probability[kept].sum()
