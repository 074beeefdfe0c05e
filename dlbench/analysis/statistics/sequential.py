"""How small a p-value must be where a question is asked again after each repeat, until it is decided."""

import re
from collections.abc import Iterable
from functools import cache

import numpy as np

_SEQUENCES, _SEED = 40_000, 1977
_RULE = re.compile(r"until decided: (\d+) to (\d+)")


def significance_of(rules: Iterable[str], significance: float) -> float:
    """Return the level at which arms with these rules of repetition are judged; that of fixed repeats without any."""
    matches = [_RULE.fullmatch(rule) for rule in set(rules)]
    levels = (nominal_level(int(match[1]), int(match[2]), significance) for match in matches if match)
    return min(levels, default=significance)


@cache
def nominal_level(least: int, most: int, significance: float) -> float:
    """Return the level of each test of samples that grow from `least` to `most`; `significance` is that of all.

    The error is spent by Pocock's rule (1977, Biometrika 64): all looks have one level, so that the last of them, which
    a report takes, judges as each before it did. The level is the quantile of the smallest of all p-values of a t-test
    in random sequences without any difference, always the same ones.

    Args:
        least: Values at the first look.
        most: Values at the last one.
        significance: Share of sequences in which any look may find a difference.
    """
    from scipy.special import stdtr

    values = np.random.default_rng(_SEED).standard_normal((_SEQUENCES, most))
    n = np.arange(1, most + 1)
    mean = values.cumsum(1) / n
    variance = ((values**2).cumsum(1) - n * mean**2)[:, least - 1 :] / (n[least - 1 :] - 1)
    t = np.abs(mean[:, least - 1 :]) / np.sqrt(variance / n[least - 1 :])
    return float(np.quantile(2 * stdtr(n[least - 1 :] - 1, -t).min(1), significance))
