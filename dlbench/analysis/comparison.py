"""Two studies of the same arms against each other: what got better or worse, and what cannot be told."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any

from dlbench.analysis.comparability import Difference, refusals, warnings
from dlbench.analysis.compared import METRICS, Metric, case, values
from dlbench.analysis.intervals import Interval, median_interval, ratio_interval
from dlbench.analysis.matching import Arm, Pair, arms_of, matched
from dlbench.analysis.significance import NOISE, Case, Verdict, judge, repeats_needed
from dlbench.analysis.wording import counted, one_line

if TYPE_CHECKING:
    import pandas as pd


class Finding(StrEnum):
    """What is said of one metric of an arm, or of the arm as a whole."""

    WORSE = "worse"
    NOW_FAILS = "now fails"
    BETTER = "better"
    NO_LONGER_FAILS = "no longer fails"
    CANNOT_BE_TOLD = "cannot be told"
    TOO_FEW = "too few repeats"
    ONLY_IN_BASE = "only in base"
    ONLY_IN_NEW = "only in new"


@dataclass(frozen=True)
class Change:
    """What is known of one metric of an arm in both studies, or of an arm as a whole.

    Attributes:
        arm: The arm's label.
        metric: The column; empty where the arm as a whole is meant.
        finding: What is said.
        base: Median and interval in the base; infinite where a target was not reached by half of the runs.
        new: The same in the new study.
        ratio: New over base; None where a value is zero or infinite.
        verdict: The test; None where there is nothing to test.
        worsening: Share by which the new median is worse (0.1: a tenth less throughput, or a tenth more time);
            negative where it is better.
        base_runs: Completed runs and all runs of the arm in the base.
        new_runs: The same in the new study.
    """

    arm: str
    metric: str
    finding: Finding
    base_runs: tuple[int, int]
    new_runs: tuple[int, int]
    base: Interval | None = None
    new: Interval | None = None
    ratio: Interval | None = None
    verdict: Verdict | None = None
    worsening: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """Two studies against each other.

    Attributes:
        base_name: Name of the base.
        new_name: Name of the new study.
        noise: Share by which medians must differ besides being significant.
        changes: One for each metric of each arm that both have, and one for each arm that one lacks or that fails.
        refused: Why they cannot be compared; there are no changes then.
        warnings: In what else they differ.
    """

    base_name: str
    new_name: str
    noise: float
    changes: tuple[Change, ...] = ()
    refused: tuple[str, ...] = ()
    warnings: tuple[Difference, ...] = ()

    def count(self, finding: Finding) -> int:
        """Return of how many changes this was found."""
        return sum(change.finding is finding for change in self.changes)

    def regressions(self, share: float) -> tuple[Change, ...]:
        """Return what is worse by more than a share, and by more than chance and noise, and arms that now fail."""
        return tuple(
            change
            for change in self.changes
            if change.finding is Finding.NOW_FAILS or (change.finding is Finding.WORSE and change.worsening > share)
        )

    @property
    def family(self) -> int:
        """Number of comparisons that were tested together."""
        return max((change.verdict.family for change in self.changes if change.verdict), default=0)

    @property
    def can_show_anything(self) -> bool:
        """Whether any metric has so many repeats that a difference could have been seen."""
        return any(change.metric and change.finding is not Finding.TOO_FEW for change in self.changes)

    @property
    def repeats_needed(self) -> int:
        """Repeats of each arm in both studies that could show a difference in any one of the comparisons."""
        tested = sum(bool(change.metric) for change in self.changes)
        return repeats_needed(tested)


def compare(
    base: "pd.DataFrame",
    new: "pd.DataFrame",
    noise: float = NOISE,
    *,
    machines: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
) -> Comparison:
    """Compare the arms of a new study with those of a base.

    All metrics of all arms are one family: p-values are corrected for all of them together (Holm).

    Args:
        base: The last attempt of each run of the base: columns of `runs.csv` and `arm`.
        new: The same of the new study.
        noise: Medians that differ by no more than this share are not called better or worse.
        machines: The two `machine.json`; empty where one is not known.
    """
    pairs = matched(arms_of(base), arms_of(new))
    names = (_study(base), _study(new))
    noted = (*warnings(pairs, machines), *_unequal(pairs))
    if refused := refusals(pairs):
        return Comparison(*names, noise, refused=refused, warnings=noted)
    return Comparison(*names, noise, changes=tuple(_changes(pairs, noise)), warnings=noted)


def _study(runs: "pd.DataFrame") -> str:
    known = runs["study"].dropna()
    return one_line(known.iloc[0]) if len(known) else ""


def _changes(pairs: Sequence[Pair], noise: float) -> Iterator[Change]:
    asked = [(pair, metric, found) for pair in pairs for metric in METRICS if (found := case(pair, metric)) is not None]
    verdicts = judge([found for _, _, found in asked], noise)
    judged: dict[Pair, list[Change]] = {}
    for (pair, metric, found), verdict in zip(asked, verdicts, strict=True):
        judged.setdefault(pair, []).append(_change(pair, metric, found, verdict))
    for pair in pairs:
        yield from judged.get(pair, [])
        if (finding := _of_arm(pair)) is not None:
            yield Change(pair.label, "", finding, _runs(pair.base), _runs(pair.new))


def _change(pair: Pair, metric: Metric, found: Case, verdict: Verdict) -> Change:
    return Change(
        arm=pair.label,
        metric=metric.column,
        finding=Finding(verdict.word.value),
        base_runs=_runs(pair.base),
        new_runs=_runs(pair.new),
        base=_interval(found.b),
        new=_interval(found.a),
        ratio=_ratio(found),
        verdict=verdict,
        worsening=_worsening(median(found.b), median(found.a), lower=metric.lower),
    )


def _interval(values: Sequence[float]) -> Interval:
    if all(map(math.isfinite, values)):
        return median_interval(values)
    return Interval(median(values), None, None, len(values), None)


def _ratio(found: Case) -> Interval | None:
    if min(found.b) <= 0 or not all(map(math.isfinite, (*found.a, *found.b))):
        return None
    return ratio_interval(found.a, found.b)


def _worsening(base: float, new: float, *, lower: bool) -> float:
    """Return by which share of the base's median the new one is worse; negative where it is better."""
    more = new - base if lower else base - new
    if base == new or more == 0:
        return 0.0
    if math.isinf(base) or base == 0:
        return -1.0 if math.isinf(base) else math.copysign(math.inf, more)
    return more / abs(base)


def _of_arm(pair: Pair) -> Finding | None:
    if pair.base is None:
        return Finding.ONLY_IN_NEW
    if pair.new is None:
        return Finding.ONLY_IN_BASE
    before, after = bool(pair.base.completed), bool(pair.new.completed)
    if before == after:
        return None
    return Finding.NOW_FAILS if before else Finding.NO_LONGER_FAILS


def _runs(arm: Arm | None) -> tuple[int, int]:
    return (0, 0) if arm is None else (len(arm.completed), len(arm.rows))


def _unequal(pairs: Sequence[Pair]) -> Iterator[Difference]:
    """Yield in what arms are not whole: some of their runs failed, or one study lacks a metric that the other has."""
    lacking: Counter[str] = Counter()
    for pair in pairs:
        if pair.base is None or pair.new is None:
            continue
        if text := _failures(pair.base, pair.new):
            yield Difference("note", f"{pair.label}: {text}")
        if pair.base.completed and pair.new.completed:
            lacking.update(_lacking(pair.base, pair.new))
    for column, count in lacking.items():
        yield Difference("note", f"{column} of {counted(count, 'arm')} is known in one study alone: it is not compared")


def _failures(base: Arm, new: Arm) -> str:
    if not base.completed and not new.completed:
        return "no run completed in either study"
    failed = [len(arm.rows) - len(arm.completed) for arm in (base, new)]
    if not any(failed):
        return ""
    return f"{failed[0]} of {counted(len(base.rows), 'run')} failed in BASE, {failed[1]} of {len(new.rows)} in NEW"


def _lacking(base: Arm, new: Arm) -> list[str]:
    return [metric.column for metric in METRICS if bool(values(base, metric)) != bool(values(new, metric))]
