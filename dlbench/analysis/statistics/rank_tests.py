"""Mann and Whitney's (1947) rank test of two groups, for many pairs of groups at once, and Holm's correction.

Ranks ask nothing of the shape of a distribution, and infinite values have them too.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Where values are equal, up to so many arrangements are counted one by one: 8 and 8 values. Above, the
# normal approximation, corrected for equal values, serves. `scipy.stats.mannwhitneyu` counts only distinct values.
EXACT_UP_TO = 20_000
# Numbers in one block of arrangements: 32 MB.
_BLOCK = 4_000_000


def mann_whitney(a: npt.ArrayLike, b: npt.ArrayLike) -> Floats:
    """Return the two-sided p-value of Mann and Whitney's U: how rarely equal distributions lie so far apart.

    Exact where all values differ or are few; the smaller tail is doubled.

    Args:
        a: First groups, [pairs, n]; infinite where something was never reached.
        b: Second groups, [pairs, m].

    Raises:
        ValueError: A group is empty, or a value is not a number.
    """
    from scipy.stats import mannwhitneyu, rankdata

    joined = np.concatenate([np.atleast_2d(np.asarray(one, dtype=np.float64)) for one in (a, b)], axis=1)
    n = np.atleast_2d(a).shape[1]
    m = joined.shape[1] - n
    if min(n, m) == 0 or np.isnan(joined).any():
        raise ValueError("a comparison needs values on both sides, all of them numbers")
    ranks = rankdata(joined, axis=1)
    has_ties = (np.diff(np.sort(ranks, axis=1), axis=1) == 0).any(axis=1)
    found = np.ones(len(ranks))
    counted = has_ties & (min(n, m) > 1) & (math.comb(n + m, n) <= EXACT_UP_TO)
    for chosen, method in ((~has_ties, "exact"), (has_ties & ~counted, "asymptotic")):
        if chosen.any():
            first, second = ranks[chosen, :n], ranks[chosen, n:]
            found[chosen] = mannwhitneyu(first, second, axis=1, method=method).pvalue
    if counted.any():
        found[counted] = _permuted(ranks[counted, :n], ranks[counted, n:])
    found[joined.min(axis=1) == joined.max(axis=1)] = 1.0
    return np.minimum(found, 1.0)


def a12(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the probability that a value of `a` is above one of `b`, equal ones by half (Vargha and Delaney 2000)."""
    first, second = np.asarray(a)[:, None], np.asarray(b)[None, :]
    return float((first > second).mean() + 0.5 * (first == second).mean())


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values after Holm's (1979) step-down correction, in the order given.

    The smallest of m is multiplied by m, the next by m - 1, and so on; none becomes smaller than the one before it.
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(np.minimum(factors * np.asarray(p_values, dtype=np.float64)[order], 1.0))
    return tuple(adjusted.tolist())


def _permuted(first: Floats, second: Floats) -> Floats:
    """Return the p-value of the sum of the first group's ranks over every arrangement of them."""
    from scipy.stats import permutation_test

    found = permutation_test(
        (first, second),
        lambda chosen, *_, axis: chosen.sum(axis=axis),
        permutation_type="independent",
        vectorized=True,
        n_resamples=EXACT_UP_TO,
        batch=max(1, _BLOCK // (first.size + second.size)),
        axis=-1,
    )
    return np.asarray(found.pvalue)
