"""Arms by one number: which is best, and which cannot be told from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dlbench.analysis.contest import Contender
from dlbench.analysis.significance import Case, Verdict, Word, judge

Values = Mapping[Contender, tuple[float, ...]]


@dataclass(frozen=True)
class Ranking:
    """Arms in the order of their medians.

    Every arm is compared with the one that came out best, and with no other: the arms that cannot be told from it are
    those among which the truly best one is. Two of them may well differ.

    Attributes:
        best: The arm with the best median, the first of equals.
        values: Values by arm, the best median first.
        verdicts: Of `best` against each other arm; `better` where that arm can be told from it.
    """

    best: Contender
    values: Values
    verdicts: Mapping[Contender, Verdict]

    def of(self, *words: Word) -> list[Contender]:
        """Return the arms of which one of these was said, in order."""
        return [arm for arm, verdict in self.verdicts.items() if verdict.word in words]

    def median(self, arm: Contender) -> float:
        """Return an arm's median."""
        return median(self.values[arm])

    @property
    def all_equal(self) -> bool:
        """Whether all arms have one median."""
        return len({median(values) for values in self.values.values()}) == 1

    @property
    def repeats(self) -> int:
        """Most repeats of an arm."""
        return max(map(len, self.values.values()))

    @property
    def family(self) -> int:
        """Number of comparisons that were tested together."""
        return max((verdict.family for verdict in self.verdicts.values()), default=0)


def rank(groups: Sequence[Values], *, lower: bool, noise: float) -> list[Ranking]:
    """Return a ranking of each group; all comparisons of all groups are one family.

    Args:
        groups: Values by arm, at least one arm in each group and one value in each arm.
        lower: Whether smaller values are better.
        noise: Medians that differ by no more than this share are not told apart.
    """
    ordered = [dict(sorted(group.items(), key=lambda item: median(item[1]), reverse=not lower)) for group in groups]
    bests = [next(iter(group)) for group in ordered]
    pairs = [
        (place, arm)
        for place, (group, best) in enumerate(zip(ordered, bests, strict=True))
        for arm in group
        if arm is not best
    ]
    verdicts = judge([Case(ordered[place][bests[place]], ordered[place][arm], lower) for place, arm in pairs], noise)
    found: list[dict[Contender, Verdict]] = [{} for _ in groups]
    for (place, arm), verdict in zip(pairs, verdicts, strict=True):
        found[place][arm] = verdict
    return [Ranking(best, group, own) for best, group, own in zip(bests, ordered, found, strict=True)]
