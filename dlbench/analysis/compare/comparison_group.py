"""Comparison groups: arms that train one model on one data set, emulated and real ones apart, and their ranking."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, Row, arm_name, arms, emulation, is_alone, records
from dlbench.analysis.compare.judgement import Judgement, JudgementCase, Verdict, judge
from dlbench.analysis.formatting import one_line
from dlbench.analysis.groups import ALONE, TASK, described, is_shared, varying

if TYPE_CHECKING:
    import pandas as pd

Values = Mapping[Arm, tuple[float, ...]]


@dataclass(frozen=True, eq=False)
class ComparisonGroup:
    """Arms that can be compared.

    Attributes:
        title: Model and data set, or the command.
        emulated: Reasons why its runs are not real hardware at work, for a sentence; empty where they are real.
        arms: In the order of their first runs, each with a title of its own.
        runs: Their rows as a table.
    """

    title: str
    emulated: str
    arms: tuple[Arm, ...]
    runs: "pd.DataFrame" = field(repr=False)

    @property
    def completed(self) -> tuple[Arm, ...]:
        """The arms with at least one completed run."""
        return tuple(arm for arm in self.arms if arm.completed)


@dataclass(frozen=True)
class Ranking:
    """Arms in the order of their medians.

    Every arm is compared with the one that came out best, and with no other: the arms that cannot be told from it are
    those among which the truly best one is. Two of them may well differ.

    Attributes:
        best: The arm with the best median, the first of equals.
        values: Values by arm, the best median first.
        judgements: Of `best` against each other arm; `better` where that arm can be told from it.
    """

    best: Arm
    values: Values
    judgements: Mapping[Arm, Judgement]

    def of(self, *verdicts: Verdict) -> list[Arm]:
        """Return the arms with one of these verdicts, in order."""
        return [arm for arm, judgement in self.judgements.items() if judgement.verdict in verdicts]

    def median(self, arm: Arm) -> float:
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
        return max((judgement.family for judgement in self.judgements.values()), default=0)


def comparison_groups(runs: "pd.DataFrame") -> list[ComparisonGroup]:
    """Return the comparison groups of a report, in the order of their first runs, real ones before emulated ones.

    Args:
        runs: The last attempt of each run: columns of `runs.csv` and `placement`.
    """
    found: dict[tuple[str, bool], list[Arm]] = {}
    for arm in arms(records(runs)):
        found.setdefault((_title(arm.first), bool(arm.emulated)), []).append(arm)
    titles = [title for title, _ in found]
    ordered = sorted(found, key=lambda key: (titles.index(key[0]), key[1]))
    return [_group(title, found[title, emulated], runs) for title, emulated in ordered]


def rank(groups: Sequence[Values], *, lower: bool, noise: float) -> list[Ranking]:
    """Return a ranking of each group; all comparisons of all groups are one family.

    Args:
        groups: Values by arm, at least one arm in each group and one value in each arm.
        lower: Whether smaller values are better.
        noise: Medians that differ by no more than this share are neither better nor worse.
    """
    ordered = [dict(sorted(group.items(), key=lambda item: median(item[1]), reverse=not lower)) for group in groups]
    parts = [(best, group) for group in ordered for best in list(group)[:1]]
    cases = [JudgementCase(group[best], group[arm], lower) for best, group in parts for arm in group if arm is not best]
    judgements = iter(judge(cases, noise))
    return [Ranking(best, group, {arm: next(judgements) for arm in group if arm is not best}) for best, group in parts]


def _title(row: Row) -> str:
    return " on ".join(one_line(row[key]) for key in TASK if row.get(key)) or "a task without a name"


def _group(title: str, own: Sequence[Arm], runs: "pd.DataFrame") -> ComparisonGroup:
    names = {(arm.study, arm.name) for arm in own}
    chosen = runs[[key in names for key in zip(runs["study"], map(arm_name, runs["run_id"]), strict=True)]]
    titles = _titles(own, varying(chosen))
    titled = tuple(replace(arm, title=text) for arm, text in zip(own, titles, strict=True))
    return ComparisonGroup(title, emulation(arm.emulated for arm in own).replace(";", ", "), titled, chosen)


def _titles(own: Sequence[Arm], keys: Sequence[str]) -> list[str]:
    has_others = not all(arm.is_alone for arm in own)
    titles = [_arm_title(arm, keys, says_alone=has_others and is_alone(arm.rows[0])) for arm in own]
    times = Counter(titles)
    return [
        title if times[title] == 1 else one_line(f"{title} [{arm.name} of {arm.study}]")
        for title, arm in zip(titles, own, strict=True)
    ]


def _arm_title(arm: Arm, keys: Sequence[str], *, says_alone: bool) -> str:
    """Return what people call an arm; of a base line without the settings that only its arms have."""
    row = arm.rows[0]
    text = described({key: row.get(key) for key in keys if not says_alone or is_shared(key)})
    if says_alone:
        return one_line(", ".join(filter(None, (ALONE, text))))
    return one_line(text or row.get("label") or arm.name)
