"""Contrasts of groups of repeats, and what follows from several of them.

A contrast is a weighted sum of the groups' means. Each group has its own variance, as in Welch's test (1947,
Biometrika 34:28), but the degrees of freedom are those of the smallest group: with these the t test keeps its level
whatever the variances are (Hajek 1962; for two groups Mickey & Brown 1966, Ann. Math. Stat. 37:639). With Welch's own,
which are estimated, three repeats of very unequal spread exceed a level of 0.1% threefold.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import NamedTuple

import numpy as np

from dlbench.analysis.formatting import SHARES, change
from dlbench.analysis.judge import MOST_REPEATS, POWER
from dlbench.analysis.statistics.intervals import LEVEL


@dataclass(frozen=True)
class Power:
    """What repeats can show of a contrast, with a probability of `POWER` at the level it is judged at.

    Both numbers rest on the noise that the repeats have, and are exact for normal means (noncentral t).

    Attributes:
        repeats: Repeats at the place that has the fewest.
        smallest: Smallest distance of the ratio from its bound that they show, as a share.
        needed: Repeats at each place that show the distance estimated here; None: more than `MOST_REPEATS`.
    """

    repeats: int
    smallest: float
    needed: int | None

    def __str__(self) -> str:
        enough = f"more than {MOST_REPEATS}" if self.needed is None else f"about {self.needed}"
        shown = change(self.smallest, SHARES, sign="")
        text = f"{self.repeats} repeats show a difference of {shown} (power {POWER})"
        return f"{text}, {enough} would probably decide it"


@dataclass(frozen=True)
class Contrast:
    """A contrast that is claimed to be on one side of a bound.

    Attributes:
        label: What is contrasted.
        estimate: Its value, a difference of logarithms.
        error: Standard error; 0 where all repeats of each group are equal, so that their noise is not known.
        df: Degrees of freedom.
        bound: What it is claimed to be above or below.
        above: Whether it is claimed to be above.
    """

    label: str
    estimate: float
    error: float
    df: int
    bound: float
    above: bool

    def p(self, *, above: bool) -> float:
        """Return how rarely a contrast at the bound comes out so far above it, or below it."""
        from scipy.special import stdtr

        if not self.error:
            return 1.0
        distance = (self.estimate - self.bound) / self.error
        return float(stdtr(self.df, -distance if above else distance))

    @property
    def interval(self) -> tuple[float, float]:
        """The two-sided 95% interval of the estimate."""
        from scipy.special import stdtrit

        half = float(stdtrit(self.df, (1 + LEVEL) / 2)) * self.error if self.error else 0.0
        return self.estimate - half, self.estimate + half

    def __str__(self) -> str:
        low, high = (self._said(value) for value in self.interval)
        equal = "no repeats differ, so that noise is not known"
        spread = f"95% interval {low} to {high}" if self.error else equal
        bound = self._said(self.bound) if self.bound else "0"
        return f"{self.label}: {self._said(self.estimate)} ({spread}; claimed {'>' if self.above else '<'} {bound})"

    def power(self, level: float) -> Power | None:
        """Return what its repeats can show at a one-sided level; None where their noise is not known."""
        from scipy.special import nctdtrinc, stdtrit

        if not self.error:
            return None
        repeats = np.arange(self.df + 1, max(MOST_REPEATS, self.df + 1) + 1)
        # The distance, in standard errors, at which the t test at this level exceeds its quantile with this power.
        distances = nctdtrinc(repeats - 1, 1 - POWER, stdtrit(repeats - 1, 1 - level))
        smallest = distances * self.error * np.sqrt(repeats[0] / repeats)
        # The present repeats have not decided it.
        enough = repeats[1:][smallest[1:] <= abs(self.estimate - self.bound)]
        least = float(smallest[0])
        share = math.expm1(min(least, 100.0)) if self.estimate > self.bound else -math.expm1(-least)
        return Power(int(repeats[0]), share, int(enough[0]) if len(enough) else None)

    def _said(self, value: float) -> str:
        return change(math.expm1(value), SHARES)


@dataclass(frozen=True)
class Side:
    """How rarely repeats speak so clearly for a statement, or against it.

    Attributes:
        p: The p-value.
        contrast: The contrast that decides.
        shares: Statements among which the level of `p` is divided.
    """

    p: float
    contrast: Contrast
    shares: int = 1


# Weight and repeats.
Group = tuple[float, Sequence[float]]


class Evidence(NamedTuple):
    """What the repeats say of a statement about contrasts.

    Attributes:
        shown: Whether it is true, and the contrast that is shown least.
        refuted: Whether its contrary is, and the contrast that speaks most against it.
    """

    shown: Side
    refuted: Side

    def of(self, name: str) -> "Evidence":
        """Return the same, whose contrasts say what they are of: `training loss, from 8 to 16`."""
        contrasts = [replace(side.contrast, label=f"{name}, {side.contrast.label}") for side in self]
        return Evidence(*(replace(side, contrast=relabelled) for side, relabelled in zip(self, contrasts, strict=True)))


def contrast(label: str, groups: Iterable[Group], *, above: bool, bound: float = 0.0) -> Evidence:
    """Return the evidence for a contrast of logarithms on one side of a bound.

    Args:
        label: What is contrasted.
        groups: Weight and repeats of each group, two or more repeats each, above 0.
        above: Whether it is claimed to be above the bound, or below.
        bound: The bound, the logarithm of a ratio.
    """
    of_logs = [(weight, [math.log(value) for value in values]) for weight, values in groups]
    estimate = sum(weight * fmean(logs) for weight, logs in of_logs)
    squares = sum(weight**2 * variance(logs) / len(logs) for weight, logs in of_logs)
    df = min(len(logs) for _, logs in of_logs) - 1
    result = Contrast(label, estimate, math.sqrt(squares), df, bound, above)
    return Evidence(*(Side(result.p(above=side), result) for side in (above, not above)))


def every(parts: Sequence[Evidence]) -> Evidence:
    """Return the evidence for all of several statements.

    They are shown where each is: the largest p-value counts (intersection-union test; Berger 1982, Technometrics
    24:295). They are refuted where one is, corrected for their number (Bonferroni).
    """
    return Evidence(_each([part.shown for part in parts]), _any([part.refuted for part in parts]))


def some(parts: Sequence[Evidence]) -> Evidence:
    """Return the evidence for at least one of several statements: the contrary of `every`."""
    return Evidence(_any([part.shown for part in parts]), _each([part.refuted for part in parts]))


def _each(sides: Sequence[Side]) -> Side:
    return max(sides, key=lambda side: side.p)


def _any(sides: Sequence[Side]) -> Side:
    best, num = min(sides, key=lambda side: side.p), len(sides)
    return Side(min(1.0, num * best.p), best.contrast, num * best.shares)
