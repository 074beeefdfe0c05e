"""Curves in which a claim is true, or is not, by no more than its bounds, and studies drawn from them with noise."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlbench.analysis.claims.claim_tests import ClaimVerdict, Curve, decide, examine
from dlbench.analysis.claims.contrast import Evidence
from dlbench.scenario.claims import Claim, Shape
from tests.unit.analysis.claims.made import BATCH, WORKERS, claim

Factors = npt.NDArray[np.float64]
Levels = Mapping[str, Mapping[float, float]]
SIZES = (8, 16, 32, 64, 128, 256)
TIME = (14892, 8282, 5379, 2977, 2300, 2069)
ACCURACY = (0.3282, 0.9106, 0.9381, 0.9464, 0.9465, 0.8907)

# Factors of mean 1 that repeats differ by.
NOISES: dict[str, Callable[[np.random.Generator, int], Factors]] = {
    "normal 5%": lambda generator, n: 1 + 0.05 * generator.standard_normal(n),
    "lognormal 30%": lambda generator, n: np.exp(0.3 * generator.standard_normal(n) - 0.045),
    "normal 3%": lambda generator, n: 1 + 0.03 * generator.standard_normal(n),
    # Ten times as much at some places as at others.
    "unequal": lambda generator, n: 1 + generator.choice((0.005, 0.05)) * generator.standard_normal(n),
    "two values": lambda generator, n: 1 + 0.05 * generator.choice((-1, 1), n),
    # One run of ten takes half as long again.
    "outliers": lambda generator, n: (
        (1 + 0.02 * generator.standard_normal(n)) * (1 + 0.5 * (generator.random(n) < 0.1)) / 1.05
    ),
}


@dataclass(frozen=True)
class Truth:
    """Claims and levels of the curves they are about.

    Attributes:
        name: What is true.
        claims: The claims.
        levels: The level of each column (of one curve) or series (of two that are compared) at each place.
        may_hold: Whether one of the claims is true; at their bounds they are not, but none may be refuted.
    """

    name: str
    claims: tuple[Claim, ...]
    levels: Levels
    may_hold: bool = False

    def drawn(self, generator: np.random.Generator, noise: str, repeats: int) -> dict[str, Curve]:
        """Return the curves of one study.

        Accuracies have a tenth of the noise, the same at each place.
        """

        def repeats_of(name: str, y: float) -> list[float]:
            luck = NOISES[noise](generator, repeats) - 1
            return (y + (0.1 if name == "train_accuracy" else y) * luck).tolist()

        return {name: {x: repeats_of(name, y) for x, y in own.items()} for name, own in self.levels.items()}

    def judged(self, curves: Mapping[str, Curve]) -> list[ClaimVerdict]:
        """Return the verdicts on such curves, all claims together."""
        return decide([self._test(one, curves) for one in self.claims])

    def _test(self, one: Claim, curves: Mapping[str, Curve]) -> Evidence | str:
        names = (one.series, one.than) if one.than else (one.series or one.column,)
        own = {str(name): {x: y for x, y in curves[str(name)].items() if one.covers(x)} for name in names}
        return examine(one, own)


def _one(shape: Shape, name: str, *values: float, **flags: bool) -> Truth:
    column = "train_accuracy" if shape is Shape.MOST_INSIDE else "train_time_s"
    return Truth(f"{shape}: {name}", (claim(shape, column),), {column: dict(zip(SIZES, values, strict=False))}, **flags)


def _two(shape: Shape, name: str, out: tuple[float, ...], up: tuple[float, ...], **flags: bool) -> Truth:
    levels = {
        "out": dict(zip((1, 2, 4, 8, 16), out, strict=False)),
        "up": dict(zip((1, 2, 4, 8, 16), up, strict=False)),
    }
    own = (claim(shape, series="out", than="up"),)
    return Truth(f"{shape} against another: {name}", own, levels, **flags)


def truths() -> Iterator[Truth]:
    """Yield for each shape: no effect; untrue by one bound; true at its bounds; true."""
    same, good = (1.0,) * 6, (0.9,) * 6
    yield _one(Shape.FALLS, "no effect", *same)
    yield _one(Shape.FALLS, "one step rises by 2%", 14, 8, 5, 3, 3.06, 2)
    yield _one(Shape.FALLS, "a drift adds up to 2%", 14, 3, 3.015, 3.03, 3.045, 3.06)
    yield _one(Shape.FALLS, "nowhere 2% above an earlier place", 2, 1, *[1.01999] * 4, may_hold=True)
    yield _one(Shape.FALLS, "as published", *TIME, may_hold=True)
    yield _two(Shape.FALLS, "no effect", same[:3], same[:3])
    yield _two(Shape.FALLS, "the gap stays", (12, 6, 3), (10, 5, 2.5))
    yield _one(Shape.RISES, "no effect", *same)
    yield _one(Shape.RISES, "one step falls by 2%", 2, 3, 3 / 1.02, 5, 8, 14)
    yield _one(Shape.RISES, "rises throughout", 2, 3, 4, 5, 8, 14, may_hold=True)
    yield _one(Shape.FLAT, "one place at the margin", 10, 10, 10.2, 10, 10)
    yield _one(Shape.FLAT, "no effect", *same, may_hold=True)
    yield _one(Shape.LEAST_INSIDE, "no effect", *same)
    yield _one(Shape.LEAST_INSIDE, "least at the last place, too", 9, 8, 7, 5, 6, 5)
    yield _one(Shape.LEAST_INSIDE, "least inside", 9, 5, 4, 5, 8, 9, may_hold=True)
    yield _one(Shape.MOST_INSIDE, "no effect", *good)
    yield _one(Shape.MOST_INSIDE, "no higher than its ends", 0.9, 0.8, 0.9, 0.85, 0.9, 0.9)
    yield _one(Shape.MOST_INSIDE, "as published", *ACCURACY, may_hold=True)
    yield _two(Shape.ABOVE, "level at one place", (10, 6, 4), (9, 6, 2))
    yield _two(Shape.BELOW, "no effect", same[:5], same[:5])
    yield _two(Shape.BELOW, "level at the last place", (9, 5, 3, 2, 2), (10, 6, 4, 3, 2))
    yield _two(Shape.BELOW, "below at each place", (9, 5, 3, 2, 1), (10, 6, 4, 3, 2), may_hold=True)


def published() -> Iterator[Truth]:
    """Yield all claims of the two studies at once, on their own numbers."""
    levels = {column: dict(BATCH.curve(column)) for column in BATCH.columns}
    plain = {column: {x: own[0] for x, own in curve.items()} for column, curve in levels.items()}
    yield Truth("all of kim2023", BATCH.claims, plain, may_hold=True)
    series = {name: {x: own[0] for x, own in WORKERS.curve("train_time_s", name)} for name in WORKERS.names}
    claims = tuple(one for one in WORKERS.claims if one.column == "train_time_s" and one.beyond is None)
    yield Truth("all of kim2018", claims, series, may_hold=True)
