"""Medians and ratios of repeats with their intervals.

The interval of a median lies between order statistics: exact for any distribution, at any number of values; what it
covers is stated, because few repeats cannot cover 95%. The interval of a ratio is Welch's, of logarithms: it covers
95% at two repeats and more, at any ratio of spreads (`python -m tests.bench inference`), and is wide where repeats are
few. Neither is corrected for other arms: what differs, `dlbench.analysis.judge` says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import numpy as np

from dlbench.analysis.statistics.differences import welch

LEVEL = 0.95


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


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median of one or more values with an interval that covers at least 95%, or what n values can.

    Values may be infinite, where a target was never reached: the interval is known where its ends are finite.
    """
    return _of_order(sorted(values))


def censored_median(reached: Sequence[float], ended: Sequence[float]) -> Interval | None:
    """Return the median of right-censored values: some runs ended before they reached what is measured.

    Such a run would have reached it later, or never. It counts as later than all others, and a median or an end of its
    interval is known only where it is the same whether the run would have arrived at once or never.

    Args:
        reached: The value of each run that reached it.
        ended: Where each other run was when it ended: its value would be at least that.

    Returns:
        None where there is no run, or the median depends on the values that are not known.
    """
    if not reached and not ended:
        return None
    # Of all runs in order, not a number where it depends on what a run that ended would have reached.
    earliest, latest = sorted([*reached, *ended]), sorted([*reached, *[math.inf] * len(ended)])
    interval = _of_order([early if early == late else math.nan for early, late in zip(earliest, latest, strict=True)])
    return interval if math.isfinite(interval.value) else None


def _of_order(ordered: Sequence[float]) -> Interval:
    """Return the median of rising values with its interval, which is unknown where an end of it is not finite."""
    n = len(ordered)
    middle, (depth, coverage) = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2, depth_and_coverage(n)
    low, high = ordered[depth - 1], ordered[n - depth]
    if n == 1 or not math.isfinite(low + high):
        return Interval(middle, None, None, n, None)
    return Interval(middle, low, high, n, coverage)


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float]) -> Interval:
    """Return median(numerator) / median(denominator) with an interval that covers 95%.

    It is that of the ratio of geometric means, and reaches to the ratio of medians where that lies beyond: few values
    say more of their mean than of their median. Both are the same where logarithms scatter evenly to both sides.

    Raises:
        ValueError: Either has no value, or a denominator is not above zero.
    """
    from scipy.special import stdtrit

    if not numerator or not denominator or min(denominator) <= 0:
        raise ValueError("a ratio needs values on both sides, and denominators above zero")
    value = float(median(numerator) / median(denominator))
    n = min(len(numerator), len(denominator))
    if n == 1 or min(numerator) <= 0:
        return Interval(value, None, None, n, None)
    logs = [np.log(values) for values in (numerator, denominator)]
    of_means = [np.asarray(sample.var(ddof=1) / len(sample)) for sample in logs]
    error, freedom = welch(*of_means, *(np.asarray(len(sample) - 1.0) for sample in logs))
    half = float(stdtrit(freedom, (1 + LEVEL) / 2) * error)
    with np.errstate(over="ignore"):
        low, high = np.exp(logs[0].mean() - logs[1].mean() + half * np.array([-1, 1])).tolist()
    return Interval(value, min(low, value), max(high, value), n, LEVEL)


@lru_cache(maxsize=1024)
def depth_and_coverage(n: int) -> tuple[int, float]:
    """Return the depth of the narrowest pair of n order statistics that covers 95%, or 1, and what this pair covers.

    A pair covers 1 - 2 x P(fewer than `depth` of n values are below the median), each below it with probability 1/2.
    """
    # In 2^n: the ways in which fewer than `depth` values are below the median, and in which that many are.
    depth, fewer, ways = 1, 1, n
    while (fewer + ways) / 2**n <= (1 - LEVEL) / 2:
        depth, fewer, ways = depth + 1, fewer + ways, ways * (n - depth) // (depth + 1)
    return depth, 1.0 - fewer / (1 << (n - 1))
