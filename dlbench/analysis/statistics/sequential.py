"""How small a p-value must be where a question is asked again after each repeat, until it is decided."""

import re
from collections.abc import Iterable
from functools import cache

import numpy as np
import numpy.typing as npt

from dlbench.analysis.statistics.differences import Floats

# An arm is wrongly said to keep, or to lose, in at most this share of families.
SIGNIFICANCE = 0.05
# Pairs halve the degrees of freedom: where that widens an interval by more than this ratio, they cost more than they
# gain. Where repeats go on until all is decided, a later look can still pair them.
_MOST_WIDENED, _MOST_WIDENED_ONCE = 1.15, 1.21
_SEQUENCES, _SEED = 40_000, 1977
_RULE = re.compile(r"until decided: (\d+) to (\d+)")


def pairs_pay(repeats: int, significance: float = SIGNIFICANCE) -> bool:
    """Whether arms that share this many repeats are compared in pairs: from 5 on, at levels of many looks later."""
    from scipy.special import stdtrit

    if repeats < 2:
        return False
    of_pairs, of_arms = (stdtrit(freedom, 1 - significance / 2) for freedom in (repeats - 1, 2 * repeats - 2))
    return bool(of_pairs <= (_MOST_WIDENED if significance < SIGNIFICANCE else _MOST_WIDENED_ONCE) * of_arms)


def significance_of(rules: Iterable[str]) -> float:
    """Return the level at which arms with these rules of repetition are judged; that of fixed repeats without any."""
    matches = [_RULE.fullmatch(rule) for rule in set(rules)]
    return min((nominal_level(int(match[1]), int(match[2])) for match in matches if match), default=SIGNIFICANCE)


@cache
def nominal_level(least: int, most: int) -> float:
    """Return the level of each test of samples that grow from `least` to `most`; that of all is `SIGNIFICANCE`.

    The error is spent by Pocock's rule (1977, Biometrika 64): all looks have one level, so that the last of them, which
    a report takes, judges as each before it did. The level is the quantile of the smallest of all p-values of two arms
    without any difference, always the same ones, compared as the judge does: by Welch's test, in pairs once these pay.

    Args:
        least: Repeats at the first look, 2 or more.
        most: Repeats at the last one.
    """
    from scipy.special import stdtr

    a, b = np.random.default_rng(_SEED).standard_normal((2, _SEQUENCES, most))
    n = np.arange(least, most + 1)
    (mean_a, a), (mean_b, b), (mean, paired) = (_moments(values, n) for values in (a, b, a - b))
    by_arms = stdtr((a + b) ** 2 / (a**2 + b**2) * (n - 1), -np.abs(mean_a - mean_b) / np.sqrt((a + b) / n))
    by_pairs = stdtr(n - 1, -np.abs(mean) / np.sqrt(paired / n))
    level = SIGNIFICANCE
    # Where pairs begin depends on the level, by so little that three times are enough.
    for _ in range(3):
        is_paired = [pairs_pay(repeats, level) for repeats in n.tolist()]
        smallest = 2 * np.where(is_paired, by_pairs, by_arms).min(1)
        level = min(float(np.quantile(smallest, SIGNIFICANCE)), SIGNIFICANCE)
    return level


def _moments(values: Floats, n: npt.NDArray[np.int_]) -> tuple[Floats, Floats]:
    """Return the mean and the variance of the first n values of each sequence [sequences, looks]."""
    sums, squares = (powers.cumsum(1)[:, n - 1] for powers in (values, values**2))
    return sums / n, (squares - sums**2 / n) / (n - 1)
