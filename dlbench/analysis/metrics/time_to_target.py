"""Medians of times to a target, some of which are only known to be longer than a run lasted (right-censored).

A run that ended before its target would have reached it later, or never. It counts as later than all others, and
a median is said only where it is the same whether such a run would have arrived at once or never.
"""

import math
from collections.abc import Sequence

from dlbench.analysis.statistics.intervals import (
    LEVEL,
    Interval,
    median_interval,
    order_statistic_coverage,
    order_statistic_depth,
)


def censored_median(reached: Sequence[float], ended: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Return the median of all runs, with an interval where both its ends are known.

    With censored runs the interval lies between order statistics, however many runs there are: those are exact
    whatever the late ones would have been, as long as they are known themselves.

    Args:
        reached: The value of each run that reached the target.
        ended: What each run that did not had come to when it ended: its value would be at least that.
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
