"""Tests of differences between few repeats: Welch's, ranks, the studentised range, moderated variances, Holm, Hochberg.

Few repeats of unequal spreads make Welch's t a little liberal: at 5% it errs in up to 5.9% of pairs of three repeats.
One degree of freedom less brings this to 5.0% at any ratio of spreads; with those of the shorter group alone, which it
never goes below, the test holds always (Mickey and Brown 1966, Annals of Mathematical Statistics 37).

All pairs of k means are tested together by taking each pair's t to the distribution of the studentised range (Games and
Howell 1976, Journal of Educational Statistics 1).

Ranks (Mann and Whitney 1947) ask nothing of the shape of a distribution, and infinite values have them too.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Where values are equal, up to this number of arrangements are counted one by one: 8 and 8 values. Above, the normal
# approximation, corrected for equal values, serves. scipy's exact method takes all values for distinct.
EXACT_UP_TO = 20_000
# Values that are equal to this many digits after the point, on a scale of about 1, differ by rounding alone.
SAME_DIGITS = 12
# Degrees of freedom that a group takes over from others, as a multiple of those that it has.
MOST_BORROWED = 2.0
# A variance so large has a group by chance in this share of families.
WILD = 0.1
# Where more than this share are, spreads differ, and no group lends.
MANY_WILD = 0.25
# A standard normal range above this has a probability below 1e-16 for up to 1e4 values.
_WIDEST, _WIDTHS = 17.0, 3_400


class Difference(NamedTuple):
    """Differences of means, one for each pair of groups.

    Attributes:
        estimate: First mean - second mean.
        error: Its standard error.
        freedom: Degrees of freedom of the error.
    """

    estimate: Floats
    error: Floats
    freedom: Floats

    def of(self, first: int, others: Sequence[int]) -> "Difference":
        """Return those of one group with some others, where there is a row and a column for each group."""
        return Difference(*(part[first, others] for part in self))

    def t(self, bound: float = 0.0) -> Floats:
        """Return (estimate - bound) / error; 0 where they are equal, infinite where they differ without an error."""
        above = self.estimate - bound
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(above != 0, above / self.error, 0.0))

    def p_above(self, bound: float) -> Floats:
        """Return how rarely a difference at the bound comes out so far above it: the p-value of being above."""
        from scipy.special import stdtr

        return np.asarray(stdtr(self.freedom, -self.t(bound)))

    @property
    def p(self) -> Floats:
        """Two-sided p-value of each pair by itself."""
        from scipy.special import stdtr

        return np.asarray(2 * stdtr(self.freedom, -np.abs(self.t())))


def welch(a: Floats, b: Floats, a_freedom: Floats, b_freedom: Floats) -> tuple[Floats, Floats]:
    """Return the standard error of a difference of two means (Welch 1947, Biometrika 34) and its degrees of freedom.

    These are one less than Welch's. A longer group counts as one of the shorter's length: its own spread says nothing
    of the other's.

    Args:
        a: Variance / number of values of the first group, [...].
        b: The same of the second group.
        a_freedom: Degrees of freedom of the first variance.
        b_freedom: Those of the second.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = (a + b) ** 2 / (a**2 / a_freedom + b**2 / b_freedom) - 1
    fewest = np.minimum(a_freedom, b_freedom)
    # np.fmax ignores what is not known, where neither group varies.
    return np.sqrt(a + b), np.minimum(np.fmax(freedom, fewest), 2 * fewest)


def smallest_step(values: Floats) -> float:
    """Return the smallest step between values where some are equal; 0 where all differ, or none.

    Equal values show that what was measured comes in steps, as the share of 360 images does. A spread below a step is
    not known, so the variance of a group is at least step^2 / 4: the most that two neighbouring values can have.

    Args:
        values: All finite values of a family.
    """
    ordered = np.sort(np.round(values, SAME_DIGITS))
    between = ordered[1:] - ordered[:-1]
    steps = between[between > 0]
    return float(steps.min()) if 0 < len(steps) < len(between) else 0.0


def studentized_range_p(q: npt.ArrayLike, k: int, freedom: npt.ArrayLike) -> Floats:
    """Return how probable a studentised range of k equal means above q is: `scipy.stats.studentized_range.sf`.

    That takes 10 ms for a value, this 10 us: an integral over the logarithm of the standard deviation.

    Args:
        q: Difference of two means / standard error of one, [...].
        k: Number of means, 2 or more.
        freedom: Degrees of freedom of the standard error, [...].
    """
    from scipy.special import gammaln

    # Standard deviations are about 1 +- 1 / sqrt(2 freedom); few degrees of freedom have long tails towards 0.
    nodes, step = np.linspace(-13.0, 4.0, 103, retstep=True)
    width, half = np.asarray(q, dtype=np.float64)[..., None], np.asarray(freedom, dtype=np.float64)[..., None] / 2
    log_s = nodes / np.sqrt(2 * half)
    log_density = half * np.log(half) + np.log(2.0) - gammaln(half) + 2 * half * log_s - half * np.exp(2 * log_s)
    widths, above = _normal_range(k)
    tail = np.interp(np.minimum(width, 1e300) * np.exp(log_s), widths, above, right=0.0)
    return np.asarray(np.clip((np.exp(log_density) * tail).sum(-1) * step / np.sqrt(2 * half[..., 0]), 0.0, 1.0))


@lru_cache(maxsize=256)
def _normal_range(k: int) -> tuple[Floats, Floats]:
    """Return widths, and how probable it is that k standard normal values lie further apart than each.

    1 - k times the integral of density(z) (P(z + width) - P(z))^(k - 1) over the smallest value z.
    """
    from scipy.special import ndtr

    widths = np.linspace(0.0, _WIDEST, _WIDTHS)
    z, step = np.linspace(-9.0, 9.0, 361, retstep=True)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    inside = k * step * ((ndtr(z + widths[:, None]) - ndtr(z)) ** (k - 1) @ density)
    return widths, np.clip(1 - inside, 0.0, 1.0)


def moderated(variance: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Return variances of alike groups, each drawn towards the others', and their degrees of freedom.

    The empirical Bayes estimate of Smyth (2004, Stat. Appl. Genet. Mol. Biol. 3, equations 4 to 6): where the groups'
    variances differ by no more than few repeats make them, they lend each other degrees of freedom; where they truly
    differ, hardly any. A group borrows at most `MOST_BORROWED` times its own. One whose variance is larger than chance
    makes the largest of that many keeps its own and lends nothing, as in the robust form of the estimate (Phipson and
    others 2016, Ann. Appl. Stat. 10). `python -m tests.bench inference` has what is left of the error.

    Args:
        variance: Of three groups or more, above 0, [groups].
        freedom: Their degrees of freedom, [groups].
    """
    from scipy.special import digamma, zeta

    is_tame = ~are_wild(variance, freedom)
    if not is_tame.all():
        drawn, total = variance.copy(), freedom.copy()
        if is_tame.sum() > 2:
            drawn[is_tame], total[is_tame] = moderated(variance[is_tame], freedom[is_tame])
        return drawn, total
    half = freedom / 2
    # Trigamma(x) is zeta(2, x).
    logs = np.log(variance) - digamma(half) + np.log(half)
    excess = float(logs.var(ddof=1) - zeta(2, half).mean())
    prior = 2 * _inverse_trigamma(excess) if excess > 0 else np.inf
    correction = float(digamma(prior / 2) - np.log(prior / 2)) if excess > 0 else 0.0
    middle = float(np.exp(logs.mean() + correction))
    borrowed = min(prior, MOST_BORROWED * float(freedom.mean()))
    drawn = (borrowed * middle + freedom * variance) / (borrowed + freedom)
    return drawn, np.minimum(borrowed + freedom, freedom.sum())


def are_wild(variance: Floats, freedom: Floats) -> npt.NDArray[np.bool_]:
    """Return which groups' variances are larger than chance makes the largest of that many; all where many are.

    Args:
        variance: Of each group, [groups].
        freedom: Their degrees of freedom, [groups].
    """
    from scipy.special import chdtri

    # The middle of chi-square's distribution is about its mean x (1 - 2 / (9 n))^3 (Wilson and Hilferty 1931).
    typical = median((variance / (1 - 2 / (9 * freedom)) ** 3).tolist())
    is_wild = variance > typical * chdtri(freedom, WILD / len(variance)) / freedom
    return np.asarray(is_wild | (is_wild.mean() > MANY_WILD))


def _inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = value, by Newton's steps on its reciprocal (Smyth 2004, appendix)."""
    from scipy.special import zeta

    x = 0.5 + 1 / value
    for _ in range(10):
        trigamma = float(zeta(2, x))
        x -= trigamma * (1 - trigamma / value) / (2 * float(zeta(3, x)))
    return x


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return the two-sided p-value of Mann and Whitney's U, and the share of pairs in which the value of `a` is larger.

    Pairs of equal values count by half (A12 of Vargha and Delaney 2000).

    Args:
        a: Two numbers or more; infinite where something was never reached.
        b: The other group.
    """
    from scipy.stats import PermutationMethod, mannwhitneyu

    distinct = len({*a, *b})
    if distinct == 1:
        return 1.0, 0.5
    method = "exact"
    if distinct < len(a) + len(b):
        can_count = math.comb(len(a) + len(b), len(a)) <= EXACT_UP_TO
        method = PermutationMethod(n_resamples=EXACT_UP_TO) if can_count else "asymptotic"
    test = mannwhitneyu(a, b, method=method)
    return min(1.0, float(test.pvalue)), float(test.statistic) / (len(a) * len(b))


def holm(p_values: npt.ArrayLike, most: float = np.inf) -> tuple[float, ...]:
    """Return p-values after Holm's (1979) step-down correction, in the order given.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none becomes smaller than the one before it.

    Args:
        p_values: The p-values.
        most: No factor is larger: as many of the hypotheses as can be true together.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = values.argsort(kind="stable")
    factors = np.minimum(np.arange(len(values), 0, -1), most)
    adjusted = np.empty(len(values))
    adjusted[order] = np.maximum.accumulate(np.minimum(factors * values[order], 1.0))
    return tuple(adjusted.tolist())


def hochberg(p_values: npt.ArrayLike) -> tuple[float, ...]:
    """Return p-values after Hochberg's (1988) step-up correction, in the order given.

    Unlike Holm's it finds what many tests show alike, each hardly; it needs tests that do not depend negatively.
    The largest is multiplied by 1, the next by 2, and so on; none becomes larger than the one after it.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = values.argsort(kind="stable")[::-1]
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum.accumulate(np.minimum(np.arange(1, len(values) + 1) * values[order], 1.0))
    return tuple(adjusted.tolist())
