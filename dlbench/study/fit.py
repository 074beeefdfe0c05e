"""The search for the largest batch that fits: sizes that are tried, until the answer is known to a sixteenth. Pure.

A size is tried by whoever calls (`dlbench.study.fit_trial`). It doubles until one does not fit, or halves until one
does, and then halves the gap. Sizes above 16 are multiples of 8, and all are multiples of the parts of a batch
(`gradient_accumulation_steps`). What comes out was itself tried and did fit, whatever the sizes between may do.
"""

import math
from collections.abc import Callable

FIRST = 32
# The answer is at most this share below the smallest size that is known not to fit.
RESOLUTION = 1 / 16
_FINE_UNTIL = 16
_COARSE = 8


def grid_floor(size: float, parts: int) -> int:
    """Return the largest size that may be tried up to `size`; 0 where there is none."""
    coarse = math.lcm(_COARSE, parts)
    if size >= max(coarse, _FINE_UNTIL):
        return int(size // coarse) * coarse
    return int(size // parts) * parts


def largest(fits: Callable[[int], bool], most: int, parts: int = 1) -> int:
    """Return the largest batch that fits, 0 where not even the smallest does.

    Args:
        fits: Tries a size. Each is tried once.
        most: No size above this is tried.
        parts: Every size is a multiple of this.
    """
    ceiling = grid_floor(most, parts)
    first = min(max(grid_floor(FIRST, parts), parts), ceiling)
    if first == 0:
        return 0
    low, high = _grown(fits, first, ceiling, parts) if fits(first) else _shrunk(fits, first, parts)
    return _between(fits, low, high, parts)


def _grown(fits: Callable[[int], bool], fitting: int, ceiling: int, parts: int) -> tuple[int, int]:
    """Double a size that fits; return the last that did and the first that did not, one above the ceiling if none."""
    while fitting < ceiling:
        size = min(grid_floor(2 * fitting, parts), ceiling)
        if not fits(size):
            return fitting, size
        fitting = size
    return fitting, fitting + 1


def _shrunk(fits: Callable[[int], bool], failing: int, parts: int) -> tuple[int, int]:
    """Halve a size that does not fit; return the first that does, 0 if none, and the last that does not."""
    while failing > parts:
        size = max(grid_floor(failing / 2, parts), parts)
        if fits(size):
            return size, failing
        failing = size
    return 0, failing


def _between(fits: Callable[[int], bool], low: int, high: int, parts: int) -> int:
    """Halve the gap between a size that fits and one that does not."""
    while low and high - low > RESOLUTION * high:
        size = grid_floor((low + high) / 2, parts)
        if size <= low:
            return low
        low, high = (size, high) if fits(size) else (low, size)
    return low
