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

Quantities whose margin is a share are compared by their logarithms. Arms that share all of five repeats or more are
compared in pairs by repeat and seed; with fewer, pairing costs more than it gains (`pairs_pay`). Variances of three
arms or more are moderated (`dlbench.analysis.statistics.differences`). Arms that are shown to be worse than the best by
more than the margin are set aside, and the others judged among themselves. `python -m tests.bench inference` measures
how often all this errs, `python -m tests.soak advice` how often the answers that are made of it do.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from statistics import NormalDist, fmean, median

import numpy as np

from dlbench.analysis.statistics.differences import (
    SAME_DIGITS,
    Difference,
    Floats,
    are_wild,
    holm,
    mann_whitney,
    moderated,
    smallest_step,
    studentized_range_p,
    welch,
)
from dlbench.analysis.statistics.sequential import SIGNIFICANCE, pairs_pay
from dlbench.grouping import by_key
from dlbench.scenario.metrics import Metric

# With this probability a difference of the size that is named is found.
POWER = 0.8
# Fewer repeats do not show how values scatter.
LEAST_REPEATS = 3
# With this many they begin to settle questions.
ENOUGH_REPEATS = 5
# More further repeats than this are not counted.
MOST_REPEATS = 100
# Further repeats are counted against this many of the arms that an arm is the least sure to keep against.
_NEAREST = 20
_TRIED = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 80, MOST_REPEATS)
# No smaller t is significant, whatever its degrees of freedom and the number of arms.
_LEAST_T = NormalDist().inv_cdf(1 - SIGNIFICANCE / 2)

# One number for each repeat, by what pairs repeats of two arms.
Values = Mapping[tuple[str, ...], float]


class Verdict(StrEnum):
    """What repeats say of an arm against the best one."""

    KEEPS = "keeps"
    LOSES = "loses"
    OPEN = "open"


_NOTHING = Difference(*np.zeros((3, 1)))


@dataclass(frozen=True)
class _Scale:
    """What values are compared on, more being better: logarithms where the margin is a share and all are above 0."""

    sign: float = 1.0
    is_log: bool = False
    margin: float = 0.0
    step: float = 0.0

    def shown(self, difference: float) -> float:
        """Return a difference as a share where values are compared by logarithms, else in the metric's unit."""
        if self.is_log:
            return math.copysign(math.expm1(min(abs(difference), 700.0)), difference)
        return difference


@dataclass(frozen=True)
class Judgement:
    """One arm against another.

    Differences are shares of the other arm's value (`is_share`) or in the metric's unit; above 0 where the arm is
    better. They are computed from the tests where they are asked for.

    Attributes:
        verdict: What is shown.
        against: Place of the other arm: the best one, or the one that comes closest to refuting that this arm keeps.
        is_better: Of a pair: whether it is shown to be better by more than the margin.
        p: Of a planned pair: p-value of being no worse by the margin, or where it loses of being equal, in the family.
        family: Of a planned pair: number of comparisons that hold together.
        n: Repeats of the arm that has fewer; 0 where nothing was tested.
        level: Of one test of the family.
        tests: The arm - those of the others that it is the least sure to keep against, on `scale`; the one it is
            `against` comes first.
        scale: What values were compared on.
    """

    verdict: Verdict
    against: int = 0
    is_better: bool = False
    p: float | None = None
    family: int = 1
    n: int = 0
    level: float = SIGNIFICANCE
    tests: Difference = field(default=_NOTHING, compare=False, repr=False)
    scale: _Scale = _Scale()

    @property
    def is_share(self) -> bool:
        """Whether differences are shares: where the margin is one and all values are above 0."""
        return self.scale.is_log

    @property
    def gain(self) -> float:
        """By how much the arm is better than the other one; negative where it is worse."""
        return self.scale.shown(float(self.tests.estimate[0]))

    @property
    def worst(self) -> float | None:
        """The same at worst, one-sided 95% over the family; None where repeats are too few or not finite.

        Of an arm that keeps, the least against any other one, whichever is the best.
        """
        return self._end(-1.0)

    @property
    def best(self) -> float | None:
        """The same at best."""
        return self._end(1.0)

    def _end(self, sign: float) -> float | None:
        if not self._is_known:
            return None
        ends = self.tests.estimate + sign * self._widths(self.level)
        return self.scale.shown(float(ends.min() if sign < 0 and self.verdict is Verdict.KEEPS else ends[0]))

    @property
    def _is_known(self) -> bool:
        return self.n >= LEAST_REPEATS and math.isfinite(self.tests.estimate[0])

    def _widths(self, level: float) -> Floats:
        """Return how far the one-sided intervals of a level reach."""
        from scipy.special import stdtrit

        return np.where(self.tests.error > 0, stdtrit(self.tests.freedom, 1 - level) * self.tests.error, 0.0)

    @property
    def detectable(self) -> float | None:
        """Smallest difference that these repeats could have shown with power 0.8; None where that is unknown."""
        if self.verdict is not Verdict.OPEN or not self._is_known:
            return None
        return self.scale.shown(float((self._widths(self.level) + self._widths(1 - POWER))[0]))

    @property
    def further(self) -> int | None:
        """Further repeats that would probably decide; None if decided, above 100, or below five repeats.

        With five arms are compared in pairs, of whose spread fewer say nothing.

        An arm keeps against all others or loses to one, never both. The true differences are as uncertain as these
        repeats leave them, so that the probability of a decision is its mean over those that are possible (assurance;
        O'Hagan, Stevens and Campbell 2005, Pharm. Stat. 4).
        """
        from scipy.special import ndtr, stdtrit

        if self.verdict is not Verdict.OPEN or not self._is_known or self.n < ENOUGH_REPEATS:
            return None
        gain, error, freedom = (part[:, None] for part in self.tests)
        possible = gain + error * stdtrit(freedom, (np.arange(40) + 0.5) / 40)
        for more in _TRIED:
            then = np.maximum(error * np.sqrt(self.n / (self.n + more)), 1e-300)
            needed = stdtrit(freedom * (self.n + more - 1) / max(self.n - 1, 1), 1 - self.level)
            keeps = ndtr((possible + self.scale.margin) / then - needed).mean(-1).min()
            # It loses where its difference is also more than the margin.
            loses = np.minimum(ndtr(-possible / then - needed), ndtr(-(possible + self.scale.margin) / then)).mean(-1)
            if keeps + loses.max() >= POWER:
                return more
        return None


@dataclass(frozen=True, eq=False)
class Family:
    """Arms that were judged together.

    Attributes:
        best: Place of the one with the best median.
        judgements: Of each arm against the others.
        repeats: Of each arm.
        differences: Each arm [row] - each other [column], on the family's scale.
        keeps_p: p-value of each arm for being no worse than each other by the margin.
        loses_p: p-value of each arm for being worse than each other, all pairs together; 1 where it is not below 5%.
        significance: In how many such families an arm is wrongly said to keep, or to lose, at most.
    """

    best: int
    judgements: tuple[Judgement, ...]
    repeats: tuple[int, ...]
    differences: Difference
    keeps_p: Floats
    loses_p: Floats
    scale: _Scale
    significance: float = SIGNIFICANCE

    @property
    def unsettled(self) -> list[int]:
        """Places of the arms that further repeats may decide: those that are open, what they are against, the best."""
        judged = [(place, each.against) for place, each in enumerate(self.judgements) if each.verdict is Verdict.OPEN]
        return sorted({self.best, *chain.from_iterable(judged)}) if judged else []

    def pair(self, place: int, other: int) -> Judgement:
        """Return one arm against another, all pairs of the family together."""
        judged, k = self.judgements[place], len(self.judgements)
        allowed = self.significance
        is_better = bool(self.loses_p[other, place] <= allowed)
        keeps = is_better or judged.verdict is Verdict.KEEPS or (k - 1) * self.keeps_p[place, other] <= allowed
        loses = self.loses_p[place, other] <= allowed or (judged.verdict is Verdict.LOSES and other == self.best)
        n, tests = min(self.repeats[place], self.repeats[other]), self.differences.of(place, [other])
        level = allowed / (k - 1)
        return Judgement(_verdict(keeps, loses), other, is_better, n=n, level=level, tests=tests, scale=self.scale)


def _verdict(keeps: bool, loses: bool) -> Verdict:
    return Verdict.KEEPS if keeps else Verdict.LOSES if loses else Verdict.OPEN


def judge(arms: Sequence[Values], metric: Metric, significance: float = SIGNIFICANCE) -> Family:
    """Judge each arm of a family against the others.

    Args:
        arms: Finite values of each arm, one or more.
        metric: What they are values of.
        significance: In how many families an arm may wrongly be said to keep, or to lose; at most 5%.

    Raises:
        ValueError: There is no arm, one has no value, or a value is not finite.
    """
    if not arms or not all(arms) or not all(map(math.isfinite, _numbers(arms))):
        raise ValueError("a family needs finite values of each arm")
    family, left = _judged_once(arms, metric, significance)
    if len(left) == len(arms):
        return family
    # Arms that are far behind count no more among those that may be the best, nor does their spread.
    others, places_left = judge([arms[place] for place in left], metric, significance), np.ix_(left, left)
    judgements = list(family.judgements)
    for place, judgement in zip(left, others.judgements, strict=True):
        judgements[place] = replace(judgement, against=left[judgement.against])
    inner = (*others.differences, others.keeps_p, others.loses_p)
    for whole, part in zip((*family.differences, family.keeps_p, family.loses_p), inner, strict=True):
        whole[places_left] = part
    return replace(family, judgements=tuple(judgements))


def _judged_once(arms: Sequence[Values], metric: Metric, significance: float) -> tuple[Family, list[int]]:
    """Return the family of arms, and the places of those that are not shown to be worse by more than the margin."""
    k, repeats, medians = len(arms), list(map(len, arms)), [median(arm.values()) for arm in arms]
    scale = _scale(arms, metric)
    # Of equal medians the better mean.
    best = max(range(k), key=lambda place: (scale.sign * medians[place], scale.sign * fmean(arms[place].values())))
    pairs = _pairs(arms, scale, significance)
    places, is_known = np.arange(k), np.array(repeats) >= LEAST_REPEATS
    are_known = is_known[:, None] & is_known & (places[:, None] != places)
    above = pairs.p_above(-scale.margin)
    keeps_p = np.where(is_known[:, None], above, 1.0)
    closest = (keeps_p - 2 * np.eye(k)).argmax(1)
    np.fill_diagonal(keeps_p, 0.0)
    keeps, drops = keeps_p.max(1), np.minimum((k - 1) * np.where(are_known, 1 - above, 1.0).min(1), 1.0)
    worse, t = np.ones((k, k)), np.abs(pairs.t())
    can_lose = are_known & (pairs.estimate < -scale.margin) & (t >= _LEAST_T)
    # An arm at a time, since the integral holds a hundred numbers for each pair.
    for row in np.flatnonzero(can_lose.any(1)):
        to = can_lose[row]
        worse[row, to] = studentized_range_p(np.sqrt(2) * t[row, to], k, pairs.freedom[row, to])
    # One of the arms is truly the best and can err in neither way, so that one test fewer counts.
    smaller = np.minimum(keeps, drops)
    adjusted = np.array(holm(smaller, most=max(k - 1, 1)))
    factors = np.minimum(k - smaller.argsort(kind="stable").argsort(), max(k - 1, 1))
    is_shown = adjusted <= significance
    is_far, does_keep = is_shown & (drops < keeps), is_shown & (drops >= keeps)
    loses = is_far | (~does_keep & (worse.min(1) <= significance))
    # What is open is open at the level of the first step that failed.
    is_open = ~is_shown & ~loses
    factors = np.where(is_open, factors[~is_shown].max(initial=1), factors)
    refuted_by = np.where(is_far | (worse[:, best] <= significance), best, worse.argmin(1))
    against = np.where(does_keep & (places != best), best, np.where(loses, refuted_by, closest))
    nearest = (-keeps_p).argsort(1, kind="stable")[:, :_NEAREST].tolist()
    judgements = []
    for place, other in enumerate(against.tolist()):
        verdict, n = _verdict(does_keep[place], loses[place]), min(repeats[place], repeats[other])
        tests = pairs.of(place, [other, *(rival for rival in nearest[place] if rival not in (place, other))])
        level = significance / int(factors[place])
        judgements.append(Judgement(verdict, other, n=n, level=level, tests=tests, scale=scale))
    family = Family(best, tuple(judgements), tuple(repeats), pairs, keeps_p, worse, scale, significance)
    return family, np.flatnonzero(~is_far).tolist()


def judge_pairs(pairs: Sequence[tuple[Values, Values, Metric]]) -> tuple[Judgement, ...]:
    """Judge the first arm of each pair against the second; the pairs were planned before any value was known (Holm).

    Values may be infinite where a target was not reached: then ranks decide (Mann and Whitney), and nothing keeps.

    Args:
        pairs: Values of both, one or more each, and what they are values of.

    Raises:
        ValueError: An arm has no value, or one is not a number.
    """
    if not all(a and b for a, b, _ in pairs) or any(math.isnan(v) for a, b, _ in pairs for v in _numbers((a, b))):
        raise ValueError("a comparison needs values on both sides, all of them numbers")
    sizes = [min(len(a), len(b)) for a, b, _ in pairs]
    tested = [place for place, n in enumerate(sizes) if n >= LEAST_REPEATS]
    results = [_planned(*pairs[place]) for place in tested]
    keeps, differs = holm([result[0] for result in results]), holm([result[1] for result in results])
    family = len(tested)
    judgements = [Judgement(Verdict.OPEN, family=family)] * len(pairs)
    for place, (_, _, tests, scale), keeps_p, differs_p in zip(tested, results, keeps, differs, strict=True):
        gain, is_apart = float(tests.estimate[0]), differs_p <= SIGNIFICANCE
        does_keep = keeps_p <= SIGNIFICANCE or (is_apart and gain > 0)
        verdict, is_better = _verdict(does_keep, is_apart and gain < -scale.margin), is_apart and gain > scale.margin
        p, level = keeps_p if does_keep and not is_apart else differs_p, SIGNIFICANCE / family
        judgements[place] = Judgement(verdict, 0, is_better, p, family, sizes[place], level, tests, scale)
    return tuple(judgements)


def _numbers(arms: Sequence[Values]) -> list[float]:
    return [*chain.from_iterable(arm.values() for arm in arms)]


def _scale(arms: Sequence[Values], metric: Metric) -> _Scale:
    values = _numbers(arms)
    finite = [*filter(math.isfinite, values)]
    is_log = metric.is_share and len(finite) == len(values) and min(values) > 0
    size = max(map(abs, finite), default=1.0) or 1.0
    unit = 1.0 if is_log else size
    margin = math.log1p(metric.margin) if is_log else metric.margin * (size if metric.is_share else 1.0)
    varies = any(len(set(arm.values())) > 1 for arm in arms)
    step = unit * smallest_step((np.log(finite) if is_log else np.array(finite)) / unit) if varies else 0.0
    return _Scale(1.0 if metric.is_higher_better else -1.0, is_log, margin, step)


def _pairs(arms: Sequence[Values], scale: _Scale, significance: float = SIGNIFICANCE) -> Difference:
    """Return each arm [row] - each other [column]: in pairs among arms of the same repeats, else by Welch's test."""
    k, n, least = len(arms), np.array([len(arm) for arm in arms]), scale.step**2 / 4
    alike = by_key((tuple(sorted(arm)), place) for place, arm in enumerate(arms))
    paired = [places for repeats, places in alike.items() if len(places) > 1 and pairs_pay(len(repeats), significance)]
    values = np.array(_numbers([dict(sorted(arm.items())) for arm in arms]))
    # Shorter arms are filled up with zeros.
    is_there = np.arange(n.max()) < n[:, None]
    table = np.zeros(is_there.shape)
    table[is_there] = scale.sign * (np.log(values) if scale.is_log else values)
    mean = table.sum(-1) / n
    gain = np.round(mean[:, None] - mean, SAME_DIGITS)
    freedom = np.maximum(n - 1.0, 1.0)
    variance = np.maximum((np.where(is_there, table - mean[:, None], 0.0) ** 2).sum(-1) / freedom, least)
    # The spread of a single value is taken to be that of the others.
    spreads = variance
    variance = np.where(n > 1, variance, variance[n > 1].max(initial=0.0) if (n > 1).any() else np.inf)
    if k > 2 and n.min() > 1 and variance.min() > 0:
        variance, freedom = moderated(variance, freedom)
    of_mean = variance / n
    error, free = welch(of_mean[:, None], of_mean, freedom[:, None], freedom)
    for places in paired:
        of_pairs = np.ix_(places, places)
        error[of_pairs], free[of_pairs] = _paired(table[places, : n[places[0]]], spreads[places], least)
    return Difference(gain, error, free)


def _paired(table: Floats, variance: Floats, least: float) -> tuple[Floats, Floats]:
    """Return the errors of all pairs of arms [arms, repeats] and their degrees of freedom; of each arm its variance."""
    k, n = table.shape
    first, second = np.triu_indices(k, 1)
    spread = np.maximum(np.round(table[first] - table[second], SAME_DIGITS).var(-1, ddof=1), 2 * least)
    freedom = np.full(len(spread), n - 1.0)
    if k > 2 and min(spread.min(), variance.min()) > 0:
        # A pair is as wild as one of its arms.
        is_wild = are_wild(variance, np.full(k, n - 1.0))
        is_tame = ~(is_wild[first] | is_wild[second])
        if is_tame.sum() > 2:
            spread[is_tame], freedom[is_tame] = moderated(spread[is_tame], freedom[is_tame])
    error, free = np.zeros((k, k)), np.ones((k, k))
    error[first, second] = error[second, first] = np.sqrt(spread / n)
    free[first, second] = free[second, first] = np.minimum(freedom, (k - 1) * (n - 1))
    return error, free


def _planned(a: Values, b: Values, metric: Metric) -> tuple[float, float, Difference, _Scale]:
    """Return the p-values of being no worse by the margin and of being equal, the differences and their scale."""
    scale = _scale((a, b), metric)
    if all(map(math.isfinite, _numbers((a, b)))):
        tests = _pairs((a, b), scale).of(0, [1])
        return float(tests.p_above(-scale.margin)[0]), float(tests.p[0]), tests, scale
    p, share_above = mann_whitney(tuple(a.values()), tuple(b.values()))
    ahead = scale.sign * (share_above - 0.5)
    gain = math.copysign(math.inf, ahead) if ahead else 0.0
    return 1.0, p, Difference(np.full(1, gain), np.zeros(1), np.ones(1)), scale
