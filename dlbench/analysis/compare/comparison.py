"""Two studies of the same arms against each other: what got better or worse, and what the repeats cannot decide."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import Arm
from dlbench.analysis.compare.comparability import Difference, refusals, warnings
from dlbench.analysis.compare.matching import Pair, matched
from dlbench.analysis.formatting import counted, one_line
from dlbench.analysis.judge import LEAST_REPEATS, Judgement, Values, Verdict, judge_pairs
from dlbench.analysis.statistics.intervals import Interval, median_interval, ratio_interval
from dlbench.scenario.metrics import BUILT_IN, RATE, TIME_TO_TARGET, TRAIN_TIME, Metric

if TYPE_CHECKING:
    import pandas as pd


# Differences of times and rates within this share are those between the steps of one run.
NOISE = 0.02
# By what studies are compared, beside the metrics that their scenarios declare.
COMPARED = (
    RATE,
    TRAIN_TIME,
    BUILT_IN["validation_accuracy"],
    BUILT_IN["validation_mean_squared_error"],
    BUILT_IN["validation_loss"],
    TIME_TO_TARGET,
)


class ChangeKind(StrEnum):
    """What is said of one metric of an arm, or of the arm as a whole."""

    WORSE = "worse"
    NOW_FAILS = "now fails"
    BETTER = "better"
    NO_LONGER_FAILS = "no longer fails"
    KEEPS = "keeps"
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
        kind: What is said.
        base: Median and interval in the base; infinite where a target was not reached by half of the runs.
        new: The same in the new study.
        ratio: New over base; None where a value is zero or infinite.
        judgement: The test; None where there is nothing to test.
        worsening: Share by which the new median is worse (0.1: a tenth less throughput, or a tenth more time);
            negative where it is better.
        base_runs: Completed runs and all runs of the arm in the base.
        new_runs: The same in the new study.
    """

    arm: str
    metric: str
    kind: ChangeKind
    base_runs: tuple[int, int]
    new_runs: tuple[int, int]
    base: Interval | None = None
    new: Interval | None = None
    ratio: Interval | None = None
    judgement: Judgement | None = None
    worsening: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """Two studies against each other.

    Attributes:
        base_name: Name of the base.
        new_name: Name of the new study.
        noise: The smallest share of times, rates and losses that matters.
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

    def count(self, kind: ChangeKind) -> int:
        """Return of how many changes this was found."""
        return sum(change.kind is kind for change in self.changes)

    def regressions(self, share: float) -> tuple[Change, ...]:
        """Return what is worse by more than a share, and by more than chance and noise, and arms that now fail."""
        return tuple(
            change
            for change in self.changes
            if change.kind is ChangeKind.NOW_FAILS or (change.kind is ChangeKind.WORSE and change.worsening > share)
        )

    @property
    def family(self) -> int:
        """Number of comparisons that were tested together."""
        return max((change.judgement.family for change in self.changes if change.judgement), default=0)

    @property
    def can_show_anything(self) -> bool:
        """Whether any metric has so many repeats that a difference could have been seen."""
        return any(change.metric and change.kind is not ChangeKind.TOO_FEW for change in self.changes)


def compare(
    base: "pd.DataFrame",
    new: "pd.DataFrame",
    noise: float = NOISE,
    *,
    machines: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    declared: Iterable[Metric] = (),
) -> Comparison:
    """Compare the arms of a new study with those of a base.

    All metrics of all arms are one family: p-values are corrected for all of them together (Holm).

    Args:
        base: The last attempt of each run of the base: columns of `runs.csv`.
        new: The same of the new study.
        noise: The smallest share of times, rates and losses that matters.
        machines: The two `machine.json`; empty where one is not known.
        declared: Metrics that the scenarios declare.
    """
    metrics = [replace(one, margin=noise) if one.is_share else one for one in (*COMPARED, *declared)]
    pairs = matched(base, new)
    both = [(pair.base, pair.new) for pair in pairs if pair.base is not None and pair.new is not None]
    names = (_study(base), _study(new))
    noted = (*warnings(both, machines), *_unequal(both, metrics))
    if refused := refusals(both):
        return Comparison(*names, noise, refused=refused, warnings=noted)
    return Comparison(*names, noise, changes=tuple(_changes(pairs, metrics)), warnings=noted)


def _study(runs: "pd.DataFrame") -> str:
    known = runs["study"].dropna()
    return one_line(known.iloc[0]) if len(known) else ""


def _changes(pairs: Sequence[Pair], metrics: Sequence[Metric]) -> Iterator[Change]:
    cases = {
        (pair, metric): (new, base, metric)
        for pair in pairs
        if pair.base is not None and pair.new is not None
        for metric in metrics
        if (new := pair.new.comparable(metric.column)) and (base := pair.base.comparable(metric.column))
    }
    # Scores of one seed belong together, times of two days do not.
    unpaired = [
        (new, base if metric.is_score else {("base", *repeat): value for repeat, value in base.items()}, metric)
        for new, base, metric in cases.values()
    ]
    judged = dict(zip(cases, judge_pairs(unpaired), strict=True))
    for pair in pairs:
        for metric in metrics:
            if (pair, metric) in cases:
                yield _change(pair, *cases[pair, metric], judged[pair, metric])
        if (kind := _of_arm(pair)) is not None:
            yield Change(pair.label, "", kind, _runs(pair.base), _runs(pair.new))


def _change(pair: Pair, new: Values, base: Values, metric: Metric, judgement: Judgement) -> Change:
    before, after = tuple(base.values()), tuple(new.values())
    kind = ChangeKind.TOO_FEW if min(len(before), len(after)) < LEAST_REPEATS else ChangeKind.CANNOT_BE_TOLD
    if judgement.verdict is Verdict.LOSES:
        kind = ChangeKind.WORSE
    elif judgement.verdict is Verdict.KEEPS:
        kind = ChangeKind.BETTER if judgement.is_better else ChangeKind.KEEPS
    return Change(
        arm=pair.label,
        metric=metric.column,
        kind=kind,
        base_runs=_runs(pair.base),
        new_runs=_runs(pair.new),
        base=_interval(before),
        new=_interval(after),
        ratio=_ratio(after, before),
        judgement=judgement,
        worsening=_worsening(median(before), median(after), lower=not metric.is_higher_better),
    )


def _interval(values: Sequence[float]) -> Interval:
    if all(map(math.isfinite, values)):
        return median_interval(values)
    return Interval(median(values), None, None, len(values), None)


def _ratio(new: Sequence[float], base: Sequence[float]) -> Interval | None:
    if min(base) <= 0 or not all(map(math.isfinite, (*new, *base))):
        return None
    return ratio_interval(new, base)


def _worsening(base: float, new: float, *, lower: bool) -> float:
    """Return by which share of the base's median the new one is worse; negative where it is better."""
    more = new - base if lower else base - new
    if base == new or more == 0:
        return 0.0
    if math.isinf(base) or base == 0:
        return -1.0 if math.isinf(base) else math.copysign(math.inf, more)
    return more / abs(base)


def _of_arm(pair: Pair) -> ChangeKind | None:
    if pair.base is None:
        return ChangeKind.ONLY_IN_NEW
    if pair.new is None:
        return ChangeKind.ONLY_IN_BASE
    before, after = bool(pair.base.completed), bool(pair.new.completed)
    if before == after:
        return None
    return ChangeKind.NOW_FAILS if before else ChangeKind.NO_LONGER_FAILS


def _runs(arm: Arm | None) -> tuple[int, int]:
    return (0, 0) if arm is None else (arm.n, len(arm.rows))


def _unequal(both: Sequence[tuple[Arm, Arm]], metrics: Sequence[Metric]) -> Iterator[Difference]:
    """Yield in what arms are not whole: some of their runs failed, or one study lacks a metric that the other has."""
    lacking: Counter[str] = Counter()
    for base, new in both:
        if text := _failures(base, new):
            yield Difference("note", f"{new.label}: {text}")
        if base.n and new.n:
            lacking.update(
                column
                for column in (metric.column for metric in metrics)
                if bool(base.comparable(column)) != bool(new.comparable(column))
            )
    for column, count in lacking.items():
        yield Difference("note", f"{column} of {counted(count, 'arm')} is known in one study alone: it is not compared")


def _failures(base: Arm, new: Arm) -> str:
    if not base.n and not new.n:
        return "no run completed in either study"
    failed = [len(arm.rows) - arm.n for arm in (base, new)]
    if not any(failed):
        return ""
    return f"{failed[0]} of {counted(len(base.rows), 'run')} failed in BASE, {failed[1]} of {len(new.rows)} in NEW"
