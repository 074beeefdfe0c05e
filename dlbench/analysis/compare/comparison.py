"""Two studies of the same arms against each other: what got better or worse, and what the repeats cannot decide."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from dlbench.analysis.arms import Arm
from dlbench.analysis.compare.comparability import Difference, Pair, matched, redeclared, refusals, warnings
from dlbench.analysis.formatting import counted, one_line
from dlbench.analysis.judge import Judgement, Verdict, judge_pairs
from dlbench.analysis.statistics.differences import hochberg
from dlbench.analysis.statistics.intervals import Interval, median_interval, ratio_interval
from dlbench.analysis.statistics.sequential import SIGNIFICANCE
from dlbench.scenario.metrics import BUILT_IN, QUALITY, RATE, TIME_TO_TARGET, TRAIN_TIME, Metric, Metrics

# Differences of times and rates within this share are those between the steps of one run.
NOISE = 0.02
# By what studies are compared, beside the metrics that their scenarios declare.
COMPARED = (RATE, TRAIN_TIME, *(BUILT_IN[name] for name in QUALITY), TIME_TO_TARGET)


class ChangeKind(StrEnum):
    """What is said of one metric of an arm, or of the arm as a whole."""

    TARGET_LOST = "no longer reaches the target"
    WORSE = "worse"
    NOW_FAILS = "now fails"
    FAILS_MORE = "fails more often"
    MISSING_MORE = "missing in more runs"
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
        new: The same in the new study; None where no run of it has the metric.
        ratio: New over base; None where a value is zero or infinite.
        judgement: The test, with the p-value and family that decided; None where there is nothing to test.
        worsening: Share by which the new median is worse (0.1: a tenth less throughput, or a tenth more time);
            negative where it is better.
        base_runs: Completed runs and all runs of the arm in the base.
        new_runs: The same in the new study.
        reached: Of the time to target: how many runs have reached it in the base, and in the new study.
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
    reached: tuple[int, int] | None = None

    @property
    def whole(self) -> tuple[int, int, int, int]:
        """Of an arm the completed of all runs, of a metric those with a value of the completed: base, then new."""
        if not self.metric:
            return (*self.base_runs, *self.new_runs)
        # A time to target has a value also of runs that diverged.
        sides = ((self.base, self.base_runs[0]), (self.new, self.new_runs[0]))
        (before, base), (now, new) = ((min(side.n, runs) if side else 0, runs) for side, runs in sides)
        return before, base, now, new

    @property
    def reaching(self) -> tuple[int, int, int, int] | None:
        """Of a time to target the runs that have reached it, of all: base, then new; None of others."""
        if self.reached is None or self.base is None or self.new is None:
            return None
        return self.reached[0], self.base.n, self.reached[1], self.new.n

    @property
    def is_partial(self) -> bool:
        """Whether some of the runs in `whole` lack what others have: where all or none do, no test finds anything."""
        before, base, now, new = self.whole
        return 0 < before + now < base + new

    @property
    def lost_p(self) -> float:
        """Fisher's exact p-value that as many runs are whole as in the base, or where no run reaches the target now.

        It is 1 where one still does, or most of the base did not.
        """
        if self.reached is None:
            return _fewer_p(*self.whole)
        if self.reaching is None or self.base is None or math.isinf(self.base.value) or self.reached[1]:
            return 1.0
        return _fewer_p(*self.reaching)


@dataclass(frozen=True)
class Comparison:
    """Two studies against each other.

    Attributes:
        base_name: Name of the base.
        new_name: Name of the new study.
        noise: The smallest share of times, rates and losses that matters.
        changes: One for each metric of each arm that both have, or that is missing now, and one for each arm that one
            lacks or that fails.
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
        """Return what is worse by more than a share, chance and noise, what fails or is missing more, lost targets."""
        always = (ChangeKind.TARGET_LOST, ChangeKind.NOW_FAILS, ChangeKind.FAILS_MORE, ChangeKind.MISSING_MORE)
        tolerated = {ChangeKind.WORSE: share, **dict.fromkeys(always, -math.inf)}
        return tuple(change for change in self.changes if change.worsening > tolerated.get(change.kind, math.inf))

    @property
    def can_show_anything(self) -> bool:
        """Whether any metric has enough repeats that a difference could have been seen."""
        return any(change.metric and change.kind is not ChangeKind.TOO_FEW for change in self.changes)


def compare(
    base: Sequence[Arm],
    new: Sequence[Arm],
    noise: float = NOISE,
    *,
    machines: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    metrics: tuple[Metrics, Metrics] = ({}, {}),
) -> Comparison:
    """Compare the arms of a new study with those of a base.

    All metrics of all arms are one family: p-values are corrected for all of them together (Holm). Whether targets are
    lost is another family (Hochberg, as of the next two), whether fewer runs complete of the arms of which any failed,
    and whether fewer completed runs have a metric: at five repeats the correction for all metrics would hide it.

    Args:
        base: All arms of the base, also those without a completed run.
        new: The same of the new study.
        noise: The smallest share of times, rates and losses that matters; what is declared has its own.
        machines: The two `machine.json`; empty where one is not known.
        metrics: What the scenario of each declares, beside built-in ones.
    """
    built_in = (replace(metric, margin=noise) if metric.is_share else metric for metric in COMPARED)
    every = [*built_in, *(metric for name, metric in {**metrics[0], **metrics[1]}.items() if name not in BUILT_IN)]
    pairs = matched(base, new)
    both = [(ours, theirs) for ours, theirs in pairs if ours and theirs]
    base_name, new_name = (one_line(arms[0].study or "") for arms in (base, new))
    refused = (*refusals(both), *(f"the metrics differ: {text}" for text in redeclared(metrics, "better", "unit")))
    # What the new scenario does not declare was not looked for.
    changes = () if refused else tuple(_changes(pairs, every, metrics[0].keys() - metrics[1].keys()))
    missing = {(change.arm, change.metric) for change in changes if change.kind is ChangeKind.MISSING_MORE}
    notes = [*_unequal(both, every, missing), *(f"{text}, which counts" for text in redeclared(metrics, "matters"))]
    noted = (*warnings(both, machines), *(Difference("note", text) for text in notes))
    return Comparison(base_name, new_name, noise, changes, refused, noted)


def _changes(pairs: Sequence[Pair], metrics: Sequence[Metric], undeclared: Collection[str]) -> list[Change]:
    changes: list[Change] = []
    cases, tested = [], []
    for ours, theirs in pairs:
        label = next(arm.label for arm in (theirs, ours) if arm)
        base_runs, new_runs = ((arm.n, len(arm.rows)) if arm else (0, 0) for arm in (ours, theirs))
        of_arm = Change(label, "", _of_arm(ours, theirs), base_runs, new_runs)
        for metric in metrics:
            base, new = (arm.comparable(metric.column) if arm else {} for arm in (ours, theirs))
            # A faster run may be too short for a rate.
            is_short = metric.column == RATE.column and theirs and theirs.get("steps") is not None
            if base and new:
                # Scores of one seed belong together, times of two days do not.
                unpaired = base if metric.is_score else {("base", *repeat): value for repeat, value in base.items()}
                cases.append((new, unpaired, metric))
                tested += [len(changes)] * (not is_short)
                changes.append(_measured(of_arm, list(base.values()), list(new.values()), metric))
            elif base and new_runs[0] and not is_short and metric.column not in undeclared:
                if len(base) < base_runs[0] and _fewer_p(len(base), base_runs[0], 0, new_runs[0]) > SIGNIFICANCE:
                    continue
                before = median_interval(list(base.values()))
                changes.append(replace(of_arm, metric=metric.column, kind=ChangeKind.MISSING_MORE, base=before))
        changes.append(of_arm)
    judgements = iter(judge_pairs(cases))
    judged = [_judged(change, next(judgements)) if change.new else change for change in changes]
    targets = [n for n, each in enumerate(judged) if each.reached and each.kind is not ChangeKind.TOO_FEW]
    arms = (n for n, each in enumerate(judged) if not each.metric and each.kind is ChangeKind.KEEPS)
    failed, missing = ([n for n in places if judged[n].is_partial] for places in (arms, tested))
    families = {ChangeKind.TARGET_LOST: targets, ChangeKind.FAILS_MORE: failed, ChangeKind.MISSING_MORE: missing}
    for kind, places in families.items():
        for place, p in zip(places, hochberg([judged[n].lost_p for n in places]), strict=True):
            if p <= SIGNIFICANCE:
                fisher = replace(judged[place].judgement or Judgement(Verdict.LOSES), p=p, family=len(places))
                judged[place] = replace(judged[place], kind=kind, judgement=fisher)
    return [each for each in judged if each.metric or each.kind is not ChangeKind.KEEPS]


def _fewer_p(before: int, base: int, after: int, new: int) -> float:
    """Return Fisher's exact p-value, one-sided, of `after` of `new` runs against `before` of `base`."""
    both = before + after
    ways = sum(math.comb(new, count) * math.comb(base, both - count) for count in range(after + 1))
    return ways / math.comb(base + new, both)


def _measured(of_arm: Change, base: Sequence[float], new: Sequence[float], metric: Metric) -> Change:
    """Return what is known of one metric of an arm before it is judged."""
    before, after = median_interval(base), median_interval(new)
    ratio = ratio_interval(new, base) if min(base) > 0 and all(map(math.isfinite, (*base, *new))) else None
    if before.value == after.value:
        worsening = 0.0
    elif math.isinf(before.value):
        worsening = -1.0
    else:
        more = metric.gain(before.value, after.value)
        worsening = more / abs(before.value) if before.value else math.copysign(math.inf, more)
    counts = (sum(map(math.isfinite, base)), sum(map(math.isfinite, new)))
    reached = counts if metric.column == TIME_TO_TARGET.column else None
    return replace(
        of_arm, metric=metric.column, base=before, new=after, ratio=ratio, worsening=worsening, reached=reached
    )


def _judged(change: Change, judgement: Judgement) -> Change:
    kinds = {
        Verdict.OPEN: ChangeKind.TOO_FEW if judgement.p is None else ChangeKind.CANNOT_BE_TOLD,
        Verdict.LOSES: ChangeKind.WORSE,
        Verdict.KEEPS: ChangeKind.BETTER if judgement.is_better else ChangeKind.KEEPS,
    }
    kind = kinds[judgement.verdict]
    if kind is ChangeKind.WORSE and change.new and math.isinf(change.new.value):
        kind = ChangeKind.TARGET_LOST
    return replace(change, kind=kind, judgement=judgement)


def _of_arm(base: Arm | None, new: Arm | None) -> ChangeKind:
    if base is None or new is None:
        return ChangeKind.ONLY_IN_NEW if base is None else ChangeKind.ONLY_IN_BASE
    if bool(base.n) == bool(new.n):
        return ChangeKind.KEEPS
    return ChangeKind.NOW_FAILS if base.n else ChangeKind.NO_LONGER_FAILS


def _unequal(
    both: Sequence[tuple[Arm, Arm]], metrics: Sequence[Metric], missing: Collection[tuple[str, str]]
) -> Iterator[str]:
    """Say in what arms are not whole: some of their runs failed or lack a metric, or one study has none of it.

    Metrics of arms that are `missing` are said to be so elsewhere.
    """
    lacking: Counter[str] = Counter()
    for base, new in both:
        failed, again = (len(arm.rows) - arm.n for arm in (base, new))
        if not base.n and not new.n:
            yield f"{new.label}: no run completed in either study"
        elif failed or again:
            runs = counted(len(base.rows), "run")
            yield f"{new.label}: {failed} of {runs} failed in BASE, {again} of {len(new.rows)} in NEW"
        for name in (metric.column for metric in metrics if base.n and new.n):
            before, now = (len(arm.comparable(name)) for arm in (base, new))
            if before and now and before + now < base.n + new.n:
                has = f"{before} of {counted(base.n, 'completed run')} in BASE, {now} of {new.n} in NEW"
                yield f"{new.label}: {name} in {has}"
            lacking[name] += bool(before) != bool(now) and (new.label, name) not in missing
    for column, count in (+lacking).items():
        yield f"{column} of {counted(count, 'arm')} is known in one study alone: it is not compared"
