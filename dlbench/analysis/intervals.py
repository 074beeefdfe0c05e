"""Medians and ratios of repeats with their intervals: runs are resampled, never steps.

Below ten values the interval of a median lies between order statistics (exact for any distribution; what it covers
is said, because few repeats cannot cover 95%). From ten on it is the bias-corrected and accelerated bootstrap (Efron
1987), computed without random draws: the same rows give the same answer, that of infinitely many resamples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dlbench.analysis import resampled_median

LEVEL = 0.95
# Two groups differ where equal ones would differ so only this rarely.
SIGNIFICANCE = 0.05
BOOTSTRAP_FROM = 10


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

    def can_be_told_from(self, other: "Interval") -> bool:
        """Whether the two intervals do not overlap, and so many values would not lie apart by chance alone."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return False
        return can_differ(self.n, other.n) and (self.high < other.low or other.high < self.low)


def can_differ(n: int, m: int) -> bool:
    """Whether n and m values can differ at all: 4 and 4 or more, 3 and 5, never 2 and 7 or 3 and 3.

    If all lie apart, the two-sided p-value of Mann and Whitney is as small as it gets: 2 / (n + m choose n).
    """
    return 2 / math.comb(n + m, n) <= SIGNIFICANCE


def median_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the median of one or more values with an interval of about `level`.

    Raises:
        ValueError: There is no value.
    """
    if not values:
        raise ValueError("a median needs at least one value")
    ordered = sorted(values)
    middle = float(median(ordered))
    if len(ordered) == 1:
        return Interval(middle, None, None, 1, None)
    if len(ordered) < BOOTSTRAP_FROM:
        return _between_order_statistics(ordered, middle, level)
    low, high = resampled_median.bca(ordered, level)
    return Interval(middle, low, high, len(ordered), level)


def ratio_interval(numerator: Sequence[float], denominator: Sequence[float], level: float = LEVEL) -> Interval:
    """Return median(numerator) / median(denominator); both are resampled (percentile bootstrap).

    Its ends lie between the extreme ratios, which hold the true one unless all values lie apart: two and two values
    give 67% at most, three and three 90% (for spreads of the same shape), and so it is said.

    Raises:
        ValueError: Either has no value, or a denominator is not above zero.
    """
    if not numerator or not denominator or min(denominator) <= 0:
        raise ValueError("a ratio needs values on both sides, and denominators above zero")
    value = float(median(numerator) / median(denominator))
    n = min(len(numerator), len(denominator))
    if n == 1:
        return Interval(value, None, None, 1, None)
    top, bottom = resampled_median.resampled(numerator), resampled_median.resampled(denominator)
    low, high = (resampled_median.ratio_quantile(top, bottom, share) for share in ((1 - level) / 2, (1 + level) / 2))
    known = 1 - 2 / math.comb(len(numerator) + len(denominator), n)
    return Interval(value, low, high, n, min(level, known))


def order_statistic_coverage(n: int, depth: int) -> float:
    """Return the probability that the median lies between the `depth`-th smallest and largest of n values.

    1 - 2 x P(fewer than `depth` of n values are below the median), each below it with probability 1/2.
    """
    return 1.0 - 2.0 * sum(math.comb(n, below) for below in range(depth)) / 2.0**n


def _between_order_statistics(ordered: list[float], middle: float, level: float) -> Interval:
    """Take the narrowest pair of order statistics that covers `level`, or the extremes where none does."""
    n = len(ordered)
    depth = max((d for d in range(1, n // 2 + 1) if order_statistic_coverage(n, d) >= level), default=1)
    return Interval(middle, ordered[depth - 1], ordered[n - depth], n, order_statistic_coverage(n, depth))
