"""The one judge of differences: what repeats say of arms against the best of them, and of two studies' arms.

Not significant is not equal. An arm `keeps` where it is shown to be no worse than the best by the difference that
matters (non-inferiority), `loses` where it is shown to be worse, and is `open` otherwise: then with the further repeats
that would probably decide, and the smallest difference that these repeats could have shown.

Which arm is truly the best is unknown, so an arm keeps only where it is shown to be no worse than *every* other one:
its p-value is the largest of those (intersection-union test; Berger 1982, Technometrics 24). A wrong `keeps` then is a
wrong test against the one arm that is truly the best, and there are k - 1 of these. Holm's steps over them take each
arm's smaller p-value of that it keeps and that it is worse than some arm by more than the margin (Shaffer 1980, Ann.
Stat. 8), so that arms which are far behind do not count against those that are near. An arm also loses where its
difference from another one is more than the margin and more than chance, with p-values that hold for all pairs of arms.

Quantities whose margin is a share are compared by their logarithms. Arms that all share `PAIRED_FROM` repeats or more
are compared in pairs by repeat and seed; with fewer, pairing costs more than it gains. Variances of three arms or more
are moderated (`dlbench.analysis.statistics.welch`). Arms that are shown to be worse than the best by more than the
margin are set aside, and the others judged among themselves. `python -m tests.bench inference` measures how often all
this errs, `python -m tests.soak advice` how often the answers that are made of it do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median

import numpy as np

from dlbench.analysis.statistics.rank_tests import Floats, holm, mann_whitney
from dlbench.analysis.statistics.welch import (
    SAME_DIGITS,
    Difference,
    are_wild,
    moderated,
    smallest_step,
    studentized_range_p,
    welch,
)
from dlbench.scenario.metrics import Metric

# An arm is wrongly said to keep, or to lose, in at most this share of families.
SIGNIFICANCE = 0.05
# With this probability a difference of the size that is named is found.
POWER = 0.8
PAIRED_FROM = 5
# Fewer repeats do not show how values scatter.
LEAST_REPEATS = 3
# With so many they begin to settle questions.
ENOUGH_REPEATS = 5
# More further repeats than this are not counted.
MOST_REPEATS = 100
_TRIED = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 80, MOST_REPEATS)

# One number for each repeat, by what pairs repeats of two arms.
Values = Mapping[tuple[str, ...], float]


class Verdict(StrEnum):
    """What repeats say of an arm against the best one."""

    KEEPS = "keeps"
    LOSES = "loses"
    OPEN = "open"


@dataclass(frozen=True)
class Judgement:
    """One arm against another.

    Differences are in the metric's unit, or shares of the other arm's value where its margin is a share; above 0 where
    the arm is better.

    Attributes:
        verdict: What is shown.
        against: Place of the other arm: the best one, or the one that comes closest to refuting that this arm keeps.
        gain: By how much the arm is better than that one; negative where it is worse.
        worst: The same at worst, one-sided 95% over the family; None where repeats are too few or not finite.
        best: The same at best.
        is_better: Whether it is shown to be better by more than the margin.
        is_far: Whether it is shown to be worse by more than the margin.
        detectable: Smallest difference that these repeats could have shown with power 0.8; None where that is unknown.
        further: Further repeats that would probably decide; None where it is decided, or more than 100 are needed.
        p: p-value of being no worse by the margin, or where it loses of being equal, in the family.
        family: Number of comparisons that hold together.
    """

    verdict: Verdict
    against: int = 0
    gain: float = 0.0
    worst: float | None = None
    best: float | None = None
    is_better: bool = False
    is_far: bool = False
    detectable: float | None = None
    further: int | None = None
    p: float | None = None
    family: int = 1


@dataclass(frozen=True, eq=False)
class Family:
    """Arms that were judged together.

    Attributes:
        best: Place of the one with the best median.
        judgements: Of each arm against the others.
        repeats: Of each arm.
        differences: Each arm [row] - each other [column], on the family's scale.
        keeps_p: p-value of each arm for being no worse than each other by the margin.
        loses_p: p-value of each arm for being worse than each other, all pairs together.
    """

    best: int
    judgements: tuple[Judgement, ...]
    repeats: tuple[int, ...]
    differences: Difference
    keeps_p: Floats
    loses_p: Floats
    scale: "_Scale"

    def pair(self, place: int, other: int) -> Judgement:
        """Return one arm against another, all pairs of the family together."""
        own, k = self.judgements[place], len(self.judgements)
        is_better = bool(self.loses_p[other, place] <= SIGNIFICANCE)
        verdict = Verdict.OPEN
        if is_better or own.verdict is Verdict.KEEPS or (k - 1) * self.keeps_p[place, other] <= SIGNIFICANCE:
            verdict = Verdict.KEEPS
        elif self.loses_p[place, other] <= SIGNIFICANCE or (own.verdict is Verdict.LOSES and other == self.best):
            verdict = Verdict.LOSES
        return replace(self._between(place, other, verdict, SIGNIFICANCE / (k - 1)), is_better=is_better)

    def _between(self, place: int, other: int, verdict: Verdict, level: float, *, of_all: bool = False) -> Judgement:
        parts = (self.differences.estimate, self.differences.error, self.differences.freedom)
        pair = Difference(*(part[place, other] for part in parts))
        others = Difference(*(np.delete(part[place], place) for part in parts)) if of_all else None
        n = min(self.repeats[place], self.repeats[other])
        made = Judgement(verdict, further=max(1, ENOUGH_REPEATS - n))
        if n >= LEAST_REPEATS:
            made = _judgement(verdict, pair, self.scale, level, n, others)
        return replace(made, against=other, gain=self.scale.shown(float(pair.estimate)), family=len(self.repeats) - 1)


def judge(arms: Sequence[Values], metric: Metric) -> Family:
    """Judge each arm of a family against the others.

    Args:
        arms: Finite values of each arm, one or more.
        metric: What they are values of.

    Raises:
        ValueError: There is no arm, one has no value, or a value is not finite.
    """
    if not arms or not all(arms) or not all(math.isfinite(value) for arm in arms for value in arm.values()):
        raise ValueError("a family needs finite values of each arm")
    family = _judged_once(arms, metric)
    left = [place for place, one in enumerate(family.judgements) if not one.is_far]
    if len(left) == len(arms):
        return family
    # Arms that are far behind count no more among those that may be the best, nor does their spread.
    rest, own = judge([arms[place] for place in left], metric), np.ix_(left, left)
    judgements = list(family.judgements)
    for place, one in zip(left, rest.judgements, strict=True):
        judgements[place] = replace(one, against=left[one.against])
    parts = (family.differences.estimate, family.differences.error, family.differences.freedom)
    inner = (rest.differences.estimate, rest.differences.error, rest.differences.freedom)
    for whole, part in zip((*parts, family.keeps_p, family.loses_p), (*inner, rest.keeps_p, rest.loses_p), strict=True):
        whole[own] = part
    return replace(family, judgements=tuple(judgements))


def _judged_once(arms: Sequence[Values], metric: Metric) -> Family:
    """Return the family of arms of which none has been shown to lose so far."""
    k, repeats, medians = len(arms), tuple(map(len, arms)), [median(arm.values()) for arm in arms]
    best = medians.index(max(medians) if metric.is_higher_better else min(medians))
    scale = _scale(arms, metric)
    pairs = _pairs(arms, scale)
    known = np.array(repeats) >= LEAST_REPEATS
    keeps_p = np.where(known[:, None], _above(pairs, -scale.margin), 1.0)
    drops_p = np.where(known[:, None] & known, 1 - _above(pairs, -scale.margin), 1.0)
    closest = np.where(np.eye(k, dtype=bool), -1.0, keeps_p).argmax(1)
    np.fill_diagonal(keeps_p, 0.0)
    np.fill_diagonal(drops_p, 1.0)
    keeps, drops = keeps_p.max(1), np.minimum((k - 1) * drops_p.min(1), 1.0)
    worse = studentized_range_p(np.sqrt(2) * pairs.t, max(k, 2), pairs.freedom)
    worse = np.where(known[:, None] & known & (pairs.estimate < -scale.margin), worse, 1.0)
    # One of the arms is truly the best and can err in neither way, so that one test fewer counts.
    smaller = np.minimum(keeps, drops)
    order = smaller.argsort(kind="stable")
    factors = np.minimum(np.arange(k, 0, -1), max(k - 1, 1))[order.argsort()]
    adjusted = np.empty(k)
    adjusted[order] = np.maximum.accumulate(np.minimum((factors * smaller)[order], 1.0))
    family = Family(best, (), repeats, pairs, keeps_p, worse, scale)
    found = []
    for place in range(k):
        verdict, against, p = Verdict.OPEN, int(closest[place]), 1.0
        is_far = bool(adjusted[place] <= SIGNIFICANCE and drops[place] < keeps[place])
        if adjusted[place] <= SIGNIFICANCE and keeps[place] <= drops[place]:
            verdict, against, p = Verdict.KEEPS, best if best != place else against, adjusted[place]
        elif is_far or worse[place].min() <= SIGNIFICANCE:
            is_to_best = is_far or worse[place, best] <= SIGNIFICANCE
            verdict, against = Verdict.LOSES, best if is_to_best else int(worse[place].argmin())
            p = min(adjusted[place], worse[place, against])
        one = family._between(place, against, verdict, SIGNIFICANCE / factors[place], of_all=k > 1)
        found.append(replace(one, p=float(p), is_far=is_far))
    return replace(family, judgements=tuple(found))


def judge_pairs(pairs: Sequence[tuple[Values, Values, Metric]]) -> tuple[Judgement, ...]:
    """Judge the first arm of each pair against the second; the pairs were planned before any value was known (Holm).

    Values may be infinite where a target was not reached: then ranks decide (Mann and Whitney), and nothing keeps.

    Args:
        pairs: Values of both, one or more each, and what they are values of.

    Raises:
        ValueError: An arm has no value, or one is not a number.
    """
    numbers = [value for a, b, _ in pairs for arm in (a, b) for value in arm.values()]
    if not all(a and b for a, b, _ in pairs) or any(map(math.isnan, numbers)):
        raise ValueError("a comparison needs values on both sides, all of them numbers")
    tested = [pair for pair in pairs if min(len(pair[0]), len(pair[1])) >= LEAST_REPEATS]
    results = [_planned(*pair) for pair in tested]
    keeps, differs = holm([one[0] for one in results]), holm([one[1] for one in results])
    found, place = [], 0
    for a, b, _ in pairs:
        if min(len(a), len(b)) < LEAST_REPEATS:
            found.append(Judgement(Verdict.OPEN, family=len(tested)))
            continue
        _, _, pair, scale = results[place]
        is_apart = differs[place] <= SIGNIFICANCE
        gain = float(pair.estimate)
        verdict = Verdict.KEEPS if keeps[place] <= SIGNIFICANCE or (is_apart and gain > 0) else Verdict.OPEN
        if is_apart and gain < -scale.margin and verdict is Verdict.OPEN:
            verdict = Verdict.LOSES
        made = _judgement(verdict, pair, scale, SIGNIFICANCE / len(tested), min(len(a), len(b)))
        p = keeps[place] if verdict is Verdict.KEEPS and not is_apart else differs[place]
        found.append(
            replace(
                made,
                gain=scale.shown(gain),
                is_better=is_apart and gain > scale.margin,
                p=float(p),
                family=len(tested),
            )
        )
        place += 1
    return tuple(found)


@dataclass(frozen=True)
class _Scale:
    """What values are compared on, more being better: logarithms where the margin is a share and all are above 0."""

    sign: float
    is_log: bool
    margin: float
    step: float
    is_share: bool = False
    size: float = 1.0

    def of(self, values: Values) -> Floats:
        """Return the values of an arm."""
        found = np.fromiter(values.values(), np.float64, len(values))
        return self.sign * (np.log(found) if self.is_log else found)

    def shown(self, difference: float) -> float:
        """Return a difference in the metric's unit, or as a share."""
        if self.is_log:
            return math.copysign(math.expm1(min(abs(difference), 700.0)), difference)
        return difference / self.size if self.is_share else difference


def _scale(arms: Sequence[Values], metric: Metric) -> _Scale:
    values = [value for arm in arms for value in arm.values() if math.isfinite(value)]
    sign = 1.0 if metric.is_higher_better else -1.0
    is_log = metric.is_share and len(values) == sum(map(len, arms)) and min(values) > 0
    size = max(map(abs, values), default=1.0) or 1.0
    margin = math.log1p(metric.margin) if is_log else metric.margin * (size if metric.is_share else 1.0)
    varies = any(len(set(arm.values())) > 1 for arm in arms)
    scaled = np.log(values) if is_log else np.asarray(values)
    step = float(smallest_step(scaled / (1 if is_log else size))) * (1 if is_log else size) if varies else 0.0
    return _Scale(sign, is_log, margin, step, metric.is_share, size)


def _pairs(arms: Sequence[Values], scale: _Scale) -> Difference:
    """Return each arm [row] - each other [column]: paired where both have the same repeats, else Welch's."""
    least = scale.step**2 / 4
    k = len(arms)
    values = [scale.of(arm) for arm in arms]
    mean = np.array([arm.mean() for arm in values])
    gain = np.round(mean[:, None] - mean, SAME_DIGITS)
    repeats = set(arms[0])
    if len(repeats) >= PAIRED_FROM and all(set(arm) == repeats for arm in arms):
        table = np.stack([scale.of({key: arm[key] for key in sorted(repeats)}) for arm in arms])
        upper = np.triu_indices(k, 1)
        differences = np.round(table[upper[0]] - table[upper[1]], SAME_DIGITS)
        spread = np.maximum(differences.var(-1, ddof=1), 2 * least)
        freedom = np.full(len(spread), len(repeats) - 1.0)
        of_arms = np.maximum(table.var(-1, ddof=1), least)
        if k > 2 and min(spread.min(), of_arms.min()) > 0:
            # A pair is as wild as one of its arms.
            is_wild = are_wild(of_arms, np.full(k, len(repeats) - 1.0))
            is_tame = ~(is_wild[upper[0]] | is_wild[upper[1]])
            if is_tame.sum() > 2:
                spread[is_tame], freedom[is_tame] = moderated(spread[is_tame], freedom[is_tame])
        error, free = np.zeros((k, k)), np.ones((k, k))
        error[upper], free[upper] = np.sqrt(spread / len(repeats)), np.minimum(freedom, (k - 1) * (len(repeats) - 1))
        return Difference(gain, error + error.T, np.maximum(free, free.T))
    n = np.array([len(arm) for arm in values])
    freedom = np.maximum(n - 1.0, 1.0)
    variance = np.array([max(float(arm.var(ddof=1)), least) if len(arm) > 1 else math.nan for arm in values])
    # The spread of a single value is taken to be that of the others.
    variance = np.where(np.isnan(variance), np.nanmax(variance) if (n > 1).any() else np.inf, variance)
    if k > 2 and (n > 1).all() and variance.min() > 0:
        variance, freedom = moderated(variance, freedom)
    of_mean = variance / n
    return Difference(gain, *welch(of_mean[:, None], of_mean, freedom[:, None], freedom))


def _above(pairs: Difference, bound: float) -> Floats:
    """Return how rarely a difference at the bound would come out so far above it: the p-value of being above."""
    from scipy.special import stdtr

    above = pairs.estimate - bound
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(pairs.error > 0, above / pairs.error, np.where(above > 0, np.inf, -np.inf))
    return np.asarray(stdtr(pairs.freedom, -t))


def _planned(a: Values, b: Values, metric: Metric) -> tuple[float, float, Difference, _Scale]:
    """Return the p-values of being no worse by the margin and of being equal, the difference and its scale."""
    scale = _scale((a, b), metric)
    if all(map(math.isfinite, (*a.values(), *b.values()))):
        both = _pairs((a, b), scale)
        pair = Difference(*(part[0, 1] for part in (both.estimate, both.error, both.freedom)))
        return float(_above(pair, -scale.margin)), float(pair.p), pair, scale
    p, share_above = mann_whitney(tuple(a.values()), tuple(b.values()))
    ahead = scale.sign * (share_above - 0.5)
    gain = math.copysign(math.inf, ahead) if ahead else 0.0
    return 1.0, p, Difference(np.asarray(gain), np.asarray(0.0), np.asarray(1.0)), scale


def _judgement(
    verdict: Verdict, pair: Difference, scale: _Scale, level: float, n: int, others: Difference | None = None
) -> Judgement:
    """Return a verdict with its one-sided bounds at a level, and where it is open with what repeats can show.

    What would decide is asked of all `others`, where they are given, else of the pair.
    """
    from scipy.special import stdtrit

    gain, error, freedom = (float(part) for part in (pair.estimate, pair.error, pair.freedom))
    if not math.isfinite(gain):
        return Judgement(verdict)
    half = float(stdtrit(freedom, 1 - level)) * error if error else 0.0
    made = Judgement(verdict, worst=scale.shown(gain - half), best=scale.shown(gain + half))
    if verdict is not Verdict.OPEN:
        return replace(made, is_better=verdict is Verdict.KEEPS and gain - half > scale.margin)
    detectable = half + float(stdtrit(freedom, POWER)) * error
    further = _further(pair if others is None else others, scale.margin, level, n)
    return replace(made, detectable=scale.shown(detectable), further=further)


def _further(pairs: Difference, margin: float, level: float, n: int) -> int | None:
    """Return how many further repeats would probably show that an arm keeps against all others, or loses to one.

    The true differences are as uncertain as these repeats leave them, so that the probability of a decision is its mean
    over those that are possible (assurance; O'Hagan, Stevens and Campbell 2005, Pharm. Stat. 4).

    Args:
        pairs: The arm - each other one, [others].
        margin: The difference that matters.
        level: Of each test.
        n: Repeats so far.
    """
    from scipy.special import ndtr, stdtrit

    gain, error, freedom = (np.atleast_1d(part)[:, None] for part in (pairs.estimate, pairs.error, pairs.freedom))
    possible = gain + error * stdtrit(freedom, (np.arange(40) + 0.5) / 40)
    more = np.array(_TRIED)[:, None, None]
    then = np.maximum(error * np.sqrt(n / (n + more)), 1e-300)
    needed = stdtrit(freedom * (n + more - 1) / max(n - 1, 1), 1 - level)
    keeps = ndtr((possible + margin) / then - needed).mean(-1)
    # It loses where its difference is also more than the margin.
    loses = np.minimum(ndtr(-possible / then - needed), ndtr(-(possible + margin) / then)).mean(-1)
    is_probable = np.maximum(keeps.min(-1), loses.max(-1)) >= POWER
    return _TRIED[int(is_probable.argmax())] if is_probable.any() else None
