"""Curves over places: repeats at each value of x, their medians and spread, shuffled and resampled.

All repeats of all curves lie in one vector, so that a shuffle or a resample is another vector of the same form, and a
thousand of them are a matrix: [draws, values].
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

# Where there are no more arrangements than this, each is looked at; else so many are drawn.
EXACT_UP_TO = 5_040
DRAWS = 2_000
SEED = 0
# Of the range of all values: a spread below it is taken for it, so that equal repeats divide by no zero.
_LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class Curve:
    """One curve: where its repeats lie in the vector.

    Attributes:
        name: What tells it from the others; may be empty.
        places: The values of x, rising.
        cells: For each place the positions of its repeats.
    """

    name: str
    places: tuple[float, ...]
    cells: tuple[Places, ...]

    @property
    def positions(self) -> Places:
        """The positions of all its repeats, place by place."""
        return np.concatenate(self.cells)


@dataclass(frozen=True)
class Curves:
    """The curves that one claim is about.

    Attributes:
        values: The repeats of all of them, [values].
        curves: Where each lies.
    """

    values: Array
    curves: tuple[Curve, ...]

    @property
    def fewest(self) -> int:
        """The fewest repeats at any place."""
        return min(len(cell) for curve in self.curves for cell in curve.cells)

    @property
    def positions(self) -> Places:
        """The positions of all values."""
        return np.arange(len(self.values))

    @property
    def is_constant(self) -> bool:
        """Whether all values are the same."""
        return float(np.ptp(self.values)) == 0.0

    @property
    def has_constant(self) -> bool:
        """Whether any curve has one value everywhere."""
        return any(float(np.ptp(self.values[curve.positions])) == 0.0 for curve in self.curves)

    def logarithms(self) -> "Curves":
        """Return the curves of the logarithms: differences are then ratios. All values must be above zero."""
        return Curves(np.log(self.values), self.curves)


def curves(found: Mapping[str, Sequence[tuple[float, Sequence[float]]]]) -> Curves:
    """Return curves by name, each given as (place, repeats) by rising place, no place without a repeat."""
    values: list[float] = []
    made = []
    for name, points in found.items():
        cells = []
        for _, repeats in points:
            cells.append(np.arange(len(values), len(values) + len(repeats)))
            values += map(float, repeats)
        made.append(Curve(name, tuple(float(place) for place, _ in points), tuple(cells)))
    return Curves(np.asarray(values, dtype=np.float64), tuple(made))


def medians(vectors: Array, curve: Curve) -> Array:
    """Return the median at each place of a curve: from [draws, values] to [draws, places]."""
    return np.stack([np.median(vectors[:, cell], axis=1) for cell in curve.cells], axis=1)


def spreads(vectors: Array, curve: Curve, span: Places) -> Array:
    """Return how far repeats lie from the median of their place: [draws].

    The sum of absolute deviations over all places / (values - places); 1 where no place has a second repeat, and never
    below a billionth of the range of all values at the positions `span`.
    """
    freedom = sum(len(cell) - 1 for cell in curve.cells)
    if freedom == 0:
        return np.ones(len(vectors))
    centres = medians(vectors, curve)
    deviations = [np.abs(vectors[:, cell] - centres[:, [place]]).sum(axis=1) for place, cell in enumerate(curve.cells)]
    least = _LEAST_SPREAD * float(np.ptp(vectors[0, span]))
    spread: Array = np.maximum(np.sum(deviations, axis=0) / freedom, least)
    return spread


def within(found: Curves) -> list[Places]:
    """Return the blocks of the hypothesis that x does not matter: repeats change places within each curve."""
    return [curve.positions for curve in found.curves]


def between(found: Curves) -> list[Places]:
    """Return the blocks of the hypothesis that two curves are one: at each place both have, repeats change sides."""
    first, second = found.curves
    cells = dict(zip(second.places, second.cells, strict=True))
    shared = [(cell, cells[place]) for place, cell in zip(first.places, first.cells, strict=True) if place in cells]
    return [np.concatenate(pair) for pair in shared]


def shuffled(values: Array, blocks: Sequence[Places]) -> tuple[Array, bool]:
    """Return the vector with the values of each block in other orders, [draws, values], and whether these are all.

    All orders, the one that is given among them, where there are at most EXACT_UP_TO; else DRAWS seeded draws.
    """
    count = math.prod(math.factorial(len(block)) for block in blocks)
    if count <= EXACT_UP_TO:
        orders = _product([np.array(list(itertools.permutations(block)), dtype=np.intp) for block in blocks])
    else:
        generator = np.random.default_rng(SEED)
        orders = [generator.permuted(np.tile(block, (DRAWS, 1)), axis=1) for block in blocks]
    vectors = np.tile(values, (len(orders[0]), 1))
    for block, order in zip(blocks, orders, strict=True):
        vectors[:, block] = values[order]
    return vectors, count <= EXACT_UP_TO


def _product(orders: Sequence[Places]) -> list[Places]:
    """Return every combination of the blocks' orders: one array of equal length for each block."""
    grid = np.meshgrid(*(np.arange(len(order)) for order in orders), indexing="ij")
    return [order[chosen.ravel()] for order, chosen in zip(orders, grid, strict=True)]


def resampled(found: Curves) -> Array:
    """Return DRAWS vectors whose repeats are drawn anew, with replacement, from those of their own place."""
    generator = np.random.default_rng(SEED)
    vectors = np.tile(found.values, (DRAWS, 1))
    for cell in _cells(found.curves):
        drawn = generator.integers(0, len(cell), size=(DRAWS, len(cell)))
        vectors[:, cell] = found.values[cell][drawn]
    return vectors


def _cells(found: Iterable[Curve]) -> Iterable[Places]:
    return (cell for curve in found for cell in curve.cells)
