"""Differences of means where spreads are unknown and unequal: of one pair, of pairs by seed, and from the best arm.

The best of k arms is chosen by the values it is then tested with, so the k - 1 comparisons with it are no family that
was planned: corrected for k - 1 tests alone, 18 equal arms give a false alarm in up to 10% of studies. Whatever arm is
chosen, the comparisons are among all k (k - 1) / 2 pairs, and for these Games and Howell (1976, Journal of Educational
Statistics 1) take Welch's t of each pair to the distribution of the studentised range. That counts on errors which the
comparisons share. Where the best arm is far ahead and scatters far less than many others, each has an error of its own:
the intervals of 17 ratios then hold together in 92% of studies of three repeats and 93% of four, not 95% (8 times less
scatter; without any 88% and 93%). From five repeats on they do. This makes no false alarm, since that arm is ahead.
Sidak's (1967, JASA 62) correction of the comparisons with one arm repairs it, but halves the power of three repeats: of
differences by 10% between 18 arms with 2% of noise 9% are found, not 18%.

Few repeats of unequal spreads make both a little liberal: Welch's t at 5% errs in up to 5.9% of pairs of three repeats.
One degree of freedom less than Welch's brings this to 5.0% at any ratio of spreads; with those of the shorter group
alone, which it never goes below, the test holds always (Mickey and Brown 1966, Annals of Mathematical Statistics 37).
`python -m tests.bench inference` simulates all of this.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dlbench.analysis.statistics.rank_tests import Floats, mann_whitney

# Values that are equal to so many digits after the point, on a scale of about 1, differ by rounding alone.
_SAME_DIGITS = 12
# Degrees of freedom that a group takes over from others, as a multiple of its own.
MOST_BORROWED = 2.0
# A standard normal range above this has a probability below 1e-16 for up to 1e4 values.
_WIDEST, _WIDTHS = 17.0, 3_400


@dataclass(frozen=True)
class Difference:
    """Differences of means, one for each pair of groups.

    Attributes:
        estimate: First mean - second mean.
        error: Its standard error.
        freedom: Degrees of freedom of the error.
    """

    estimate: Floats
    error: Floats
    freedom: Floats

    @property
    def t(self) -> Floats:
        """Size of estimate / error; 0 where there is no difference, infinite where there is one without an error."""
        size = np.abs(self.estimate)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(size > 0, size / self.error, 0.0))

    @property
    def p(self) -> Floats:
        """Two-sided p-value of each pair by itself."""
        from scipy.special import stdtr

        return np.asarray(2 * stdtr(self.freedom, -self.t))

    def margin(self, level: float) -> Floats:
        """Return half the width of each pair's own interval."""
        from scipy.special import stdtrit

        return np.asarray(stdtrit(self.freedom, (1 + level) / 2) * self.error)


@dataclass(frozen=True)
class FromBest:
    """Every other arm against the best one, arms along the last axis.

    Attributes:
        difference: Mean of each other arm - mean of the best; not a number where one of them has an infinite value.
        p: p-values that hold for all pairs of the arms together.
        p_alone: Those of each pair by itself.
    """

    difference: Difference
    p: Floats
    p_alone: Floats


def welch(first: npt.ArrayLike, second: npt.ArrayLike, step: npt.ArrayLike = 0.0) -> Difference:
    """Return mean(first) - mean(second) with Welch's (1947, Biometrika 34) error and one degree of freedom less.

    Args:
        first: First groups, [..., n], n >= 2.
        second: Second groups, [..., m], m >= 2.
        step: What `smallest_step` says of their values, [...].
    """
    groups = [np.asarray(one, dtype=np.float64) for one in (first, second)]
    a, b = (_variance(one, step) / one.shape[-1] for one in groups)
    n, m = (one.shape[-1] - 1 for one in groups)
    with np.errstate(invalid="ignore"):
        freedom = np.where(a + b > 0, (a + b) ** 2 / (a**2 / n + b**2 / m), 0.0) - 1
    # A longer group counts as one of the shorter's length: its own spread says nothing of the other's.
    freedom = np.clip(freedom, min(n, m), 2 * min(n, m))
    return Difference(_rounded(groups[0].mean(-1) - groups[1].mean(-1)), np.sqrt(a + b), freedom)


def paired(first: npt.ArrayLike, second: npt.ArrayLike, step: npt.ArrayLike = 0.0) -> Difference:
    """Return the mean of first - second, where values belong together by their seed (Student 1908, Biometrika 6).

    Args:
        first: First groups, [..., n], n >= 2.
        second: Second groups, as long as the first.
        step: What `smallest_step` says of their values, [...].
    """
    differences = _rounded(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))
    # Both values of a pair are known to a step.
    error = np.sqrt(_variance(differences, np.sqrt(2) * np.asarray(step)) / differences.shape[-1])
    return Difference(differences.mean(-1), error, np.full_like(error, differences.shape[-1] - 1.0))


def from_best(best: npt.ArrayLike, others: Sequence[npt.ArrayLike]) -> FromBest:
    """Compare the best arm with each other one; this holds although the best is chosen by these values.

    Where a value is infinite there is no mean. All pairs of such a study are then tested by themselves, by Mann and
    Whitney's U where one of the two has such a value, and every p-value is multiplied by the number of pairs among all
    arms (Bonferroni).

    Args:
        best: Values of the best arm, [n] or [studies, n], n >= 2.
        others: Values of one or more other arms, each [m] or [studies, m].
    """
    groups = [np.asarray(one, dtype=np.float64) for one in (best, *others)]
    step = smallest_step(np.concatenate(groups, axis=-1))
    first, *rest = (np.where(np.isfinite(one), one, 0.0) for one in groups)
    pairs = [welch(one, first, step) for one in rest]
    found = Difference(*(np.stack([getattr(pair, name) for pair in pairs], -1) for name in Difference.__match_args__))
    alone, together = found.p, studentized_range_p(np.sqrt(2) * found.t, len(groups), found.freedom)
    infinite = np.stack([~np.isfinite(one).all(-1) for one in groups], -1)
    if not infinite.any():
        return FromBest(found, together, alone)
    by_rank = infinite[..., 1:] | infinite[..., :1]
    ranked = np.stack([mann_whitney(groups[0], one).reshape(one.shape[:-1]) for one in groups[1:]], -1)
    alone = np.where(by_rank, ranked, alone)
    bounded = np.minimum(len(groups) * len(rest) / 2 * alone, 1.0)
    together = np.where(infinite.any(-1, keepdims=True), bounded, together)
    return FromBest(replace(found, estimate=np.where(by_rank, np.nan, found.estimate)), together, alone)


def smallest_step(values: npt.ArrayLike) -> Floats:
    """Return the smallest step between finite values where some are equal, [...]; 0 where all differ.

    Equal values show that what was measured comes in steps, as the share of 360 images does. A spread below a step is
    not known, so the variance of a group is at least step^2 / 4: the most that two neighbouring values can have.

    Args:
        values: All values of a family, [..., n].
    """
    found = np.asarray(values, dtype=np.float64)
    ordered = np.sort(_rounded(np.where(np.isfinite(found), found, np.nan)), axis=-1)
    between = np.diff(ordered, axis=-1)
    steps = np.where(between > 0, between, np.inf).min(-1, initial=np.inf)
    return np.asarray(np.where((between == 0).any(-1) & np.isfinite(steps), steps, 0.0))


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
    nodes, width = np.linspace(-13.0, 4.0, 103, retstep=True)
    found, half = np.broadcast_arrays(np.asarray(q, dtype=np.float64), np.asarray(freedom) / 2)
    found, half = found[..., None], half[..., None]
    log_s = nodes / np.sqrt(2 * half)
    log_density = half * np.log(half) + np.log(2.0) - gammaln(half) + 2 * half * log_s - half * np.exp(2 * log_s)
    widths, above = _normal_range(k)
    tail = np.interp(np.minimum(found, 1e300) * np.exp(log_s), widths, above, right=0.0)
    return np.asarray(np.clip((np.exp(log_density) * tail).sum(-1) * width / np.sqrt(2 * half[..., 0]), 0.0, 1.0))


def studentized_range_quantile(p: float, k: int, freedom: npt.ArrayLike) -> Floats:
    """Return what a studentised range of k equal means exceeds with a probability of p, [...]."""
    low = np.zeros_like(np.asarray(freedom, dtype=np.float64))
    high = np.full_like(low, 1e6)
    for _ in range(50):
        middle = (low + high) / 2
        is_low = studentized_range_p(middle, k, freedom) > p
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return high


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
    differ, hardly any. A group borrows at most `MOST_BORROWED` times its own, which keeps the level of tests with an
    arm of four times the spread of the others.

    Args:
        variance: Of three groups or more, above 0, [groups].
        freedom: Their degrees of freedom, [groups].
    """
    from scipy.special import digamma, polygamma

    half = freedom / 2
    logs = np.log(variance) - digamma(half) + np.log(half)
    excess = float(logs.var(ddof=1) - polygamma(1, half).mean())
    prior = 2 * _inverse_trigamma(excess) if excess > 0 else np.inf
    correction = float(digamma(prior / 2) - np.log(prior / 2)) if excess > 0 else 0.0
    middle = float(np.exp(logs.mean() + correction))
    borrowed = min(prior, MOST_BORROWED * float(freedom.mean()))
    drawn = (borrowed * middle + freedom * variance) / (borrowed + freedom)
    return drawn, np.minimum(borrowed + freedom, freedom.sum())


def _inverse_trigamma(value: float) -> float:
    """Return x with trigamma(x) = value, by Newton's steps on its reciprocal (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(20):
        trigamma = float(polygamma(1, x))
        x += trigamma * (1 - trigamma / value) / float(polygamma(2, x))
    return x


def _variance(values: Floats, step: npt.ArrayLike) -> Floats:
    return np.asarray(np.maximum(values.var(-1, ddof=1), np.asarray(step) ** 2 / 4))


def _rounded(values: Floats) -> Floats:
    return np.asarray(np.round(values, _SAME_DIGITS))
