"""The bootstrap of a median without a single random draw: what infinitely many resamples would give.

A resample's median is one of the values (or, for an even number of them, the middle of two), each with a probability
that follows from their number alone: Maritz and Jarrett (1978), Efron (1979). So there is nothing to draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

# Medians that come out less often than this change no end of an interval.
NEVER = 1e-15
# Sums of many probabilities, and products of floats, are no more exact than this.
ROUNDING = 1e-12


class _Weights(NamedTuple):
    """Medians of resamples of n ordered values: the places of the two values they lie between, and how probable."""

    low: Places
    high: Places
    probability: Floats


@dataclass(frozen=True)
class Resampled:
    """How the medians of resamples are distributed.

    Attributes:
        values: What they can be, ascending.
        cumulative: Probability of a value or a smaller one; the last is 1.
    """

    values: Floats
    cumulative: Floats

    def quantile(self, share: float) -> float:
        """Return the smallest value that at least this share of resamples does not exceed."""
        place = int(np.searchsorted(self.cumulative, share - ROUNDING))
        return float(self.values[min(place, len(self.values) - 1)])

    def below(self, value: float) -> float:
        """Return the probability of less than a value, and half of that of the value itself."""
        known = np.concatenate([[0.0], self.cumulative])
        before = known[np.searchsorted(self.values, value, side="left")]
        return float(before + known[np.searchsorted(self.values, value, side="right")]) / 2


def resampled(values: Sequence[float]) -> Resampled:
    """Return the distribution of the median of resamples of one or more values."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    weights = _weights(len(ordered))
    medians = (ordered[weights.low] + ordered[weights.high]) / 2
    return _distribution(medians, weights.probability)


def ratio_quantile(numerator: Resampled, denominator: Resampled, share: float) -> float:
    """Return the smallest ratio of two medians, resampled apart, that at least this share of ratios does not exceed.

    Found by bisection, to the last digits of a float; denominators are above zero.
    """
    weights = np.diff(denominator.cumulative, prepend=0.0)
    known = np.concatenate([[0.0], numerator.cumulative])

    def reached(found: float) -> bool:
        upto = np.searchsorted(numerator.values, found * denominator.values * (1 + ROUNDING), side="right")
        return float(weights @ known[upto]) >= share - ROUNDING

    corners = np.divide.outer(numerator.values[[0, -1]], denominator.values[[0, -1]])
    low, high = float(corners.min()), float(corners.max())
    if reached(low):
        return low
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def bca(values: Sequence[float], level: float) -> tuple[float, float]:
    """Return the bias-corrected and accelerated interval of the median of three or more values (Efron 1987).

    Where so many values are equal, or infinite, that no correction is defined, the percentile interval.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    found, tails = resampled(values), ((1 - level) / 2, (1 + level) / 2)
    acceleration, share = _acceleration(ordered), found.below(float(np.median(ordered)))
    if acceleration is None or not 0 < share < 1:
        return found.quantile(tails[0]), found.quantile(tails[1])
    bias = NormalDist().inv_cdf(share)
    shifted = [bias + NormalDist().inv_cdf(tail) for tail in tails]
    low, high = (NormalDist().cdf(bias + shift / (1 - acceleration * shift)) for shift in shifted)
    return found.quantile(low), found.quantile(high)


@lru_cache(maxsize=256)
def _weights(n: int) -> _Weights:
    from scipy.special import betainc

    shares, middle = np.arange(n + 1) / n, n // 2
    if n % 2:
        # The median is at most the k-th value where more than half of n draws, each with k / n, are.
        places = np.arange(n)
        return _likely(places, places, np.diff(betainc(middle + 1, middle + 1, shares)))
    lower = np.diff(betainc(middle, middle + 1, shares))
    upper = lower[::-1]
    lows, highs = np.nonzero(lower > NEVER)[0], np.nonzero(upper > NEVER)[0]
    low, high = (places.ravel() for places in np.meshgrid(lows, highs, indexing="ij"))
    apart = low < high
    low, high = low[apart], high[apart]
    between = np.exp(_log_ways(middle) + _log_half(low + 1, n) + _log_half(n - high, n))
    # The two middle draws are one value where they are not two.
    one = lower[lows] - np.bincount(low, between, minlength=n)[lows]
    return _likely(
        np.concatenate([lows, low]), np.concatenate([lows, high]), np.concatenate([np.maximum(one, 0.0), between])
    )


def _log_ways(middle: int) -> float:
    """Return the logarithm of the ways to choose which half of the draws is the lower one."""
    from scipy.special import gammaln

    return float(gammaln(2 * middle + 1) - 2 * gammaln(middle + 1))


def _log_half(place: Places, n: int) -> Floats:
    """Return the logarithm of the probability that half of n draws are among the outer `place` values, the last too."""
    half = n // 2
    found: Floats = half * np.log(place / n) + np.log1p(-(((place - 1) / place) ** half))
    return found


def _likely(low: Places, high: Places, probability: Floats) -> _Weights:
    kept = probability > NEVER
    return _Weights(low[kept], high[kept], probability[kept] / probability[kept].sum())


def _distribution(values: Floats, probability: Floats) -> Resampled:
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(probability[order])
    return Resampled(values[order], cumulative / cumulative[-1])


def _acceleration(ordered: Floats) -> float | None:
    """Return the skewness of the medians without one value each, over six; None where all are equal or one infinite."""
    n, middle = len(ordered), len(ordered) // 2
    left_out = np.arange(n)
    if n % 2:
        below, above = ordered[middle - 1], ordered[middle + 1]
        medians = np.where(left_out < middle, ordered[middle] + above, below + ordered[middle]) / 2
        medians[middle] = (below + above) / 2
    else:
        medians = np.where(left_out < middle, ordered[middle], ordered[middle - 1])
    if not np.isfinite(medians).all():
        return None
    apart = medians.mean() - medians
    spread = float((apart**2).sum())
    return float((apart**3).sum() / (6 * spread**1.5)) if spread > 0 else None
