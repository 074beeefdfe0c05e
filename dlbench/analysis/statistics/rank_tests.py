"""Mann and Whitney's (1947) rank test of two groups, and Holm's correction.

Ranks ask nothing of the shape of a distribution, and infinite values have them too.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Where values are equal, up to this number of arrangements are counted one by one: 8 and 8 values. Above, the normal
# approximation, corrected for equal values, serves. scipy's exact method takes all values for distinct.
EXACT_UP_TO = 20_000


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
