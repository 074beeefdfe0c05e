"""Interleaved pairs: two ways of doing the same, A B B A A B B A, so that a drift of the machine falls on both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from dlbench.analysis.statistics.intervals import Interval, median_interval


@dataclass(frozen=True)
class Comparison:
    """Values of both ways by pair, and the interval of their ratio over pairs."""

    ours: tuple[float, ...]
    plain: tuple[float, ...]
    ratio: Interval

    def line(self, title: str, unit: str) -> str:
        """Return one line of text: medians, ratio and its interval."""
        low, high = self.ratio.low, self.ratio.high
        interval = "" if low is None or high is None else f"  95% interval {low:.3f} to {high:.3f}"
        return (
            f"{title}: dlbench {median(self.ours):.4g} {unit}, plain {median(self.plain):.4g} {unit}, "
            f"ratio {self.ratio.value:.3f}{interval}  ({len(self.ours)} pairs)"
        )


def of_times(ours: Sequence[float], plain: Sequence[float]) -> Comparison:
    """Return the comparison of paired times as speeds: a ratio above 1 means that dlbench is quicker."""
    ratios = [theirs / mine for mine, theirs in zip(ours, plain, strict=True)]
    return Comparison(tuple(ours), tuple(plain), median_interval(ratios))


def compare(ours: Callable[[], float], plain: Callable[[], float], pairs: int) -> Comparison:
    """Measure both ways `pairs` times in the order A B B A; the ratio is taken within each pair."""
    mine: list[float] = []
    theirs: list[float] = []
    for pair in range(pairs):
        for measure, values in [(ours, mine), (plain, theirs)][:: 1 if pair % 2 == 0 else -1]:
            values.append(measure())
    ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
    return Comparison(tuple(mine), tuple(theirs), median_interval(ratios))
