"""Whether runs show what a study claims: holds, does not hold, or cannot be told.

Each claim consists of parts: pairs of groups of repeats of which one is claimed to be the greater. It *holds* where

1. the median of each part's greater group is above that of the other;
2. where every place has three repeats or more, each part is significant by itself: Mann and Whitney, one side, 5%;
3. the test of the claim's shape is significant at 5% after Holm's (1979) correction over all claims that can be tested
   on these runs, so that in at most 5% of studies in which x has no effect *any* claim is said to hold;
4. what it mirrors holds, too.

The shapes and their tests:

    trend      falls, gains-shrink, mirrors: Spearman's (1904) rank correlation of value and x (of a mirror image: and
               the median of the other column), its p-value by permutation
    level      speeds-up, starts-behind, closes-in, overtakes, slightly-better: Mann and Whitney (1947), one side;
               the largest p-value of the parts, all of which are claimed (Berger 1982)
    umbrella   rises-to-plateau-and-falls: Mack and Wolfe (1981), peak unknown, its p-value by permutation

A claim *does not hold* where a part goes the other way with a p-value of at most 5% / number of parts. In all other
cases it *cannot be told*. Few repeats can refute nothing: a claim of one part needs three at each place, of two or
three parts four, of more parts five.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain, pairwise
from statistics import median

import numpy as np
import numpy.typing as npt

from dlbench.analysis.compare.judgement import SIGNIFICANCE
from dlbench.analysis.formatting import counted
from dlbench.analysis.statistics.intervals import Floats
from dlbench.analysis.statistics.rank_tests import holm, mann_whitney
from dlbench.records.columns import TABLES
from dlbench.scenario.claims import COMPARING, Claim, Shape

# The repeats of a column at each place, by rising place.
Curve = Mapping[float, Sequence[float]]

# From so many repeats at each place on, each part must be beyond noise by itself: fewer never are.
LEAST_REPEATS = 3
# Arrangements of all values that are counted one by one: those of seven values. Of more values, so many are drawn.
ARRANGEMENTS = 5_040
# A step in which both columns change by less than this share of their largest steps is flat: noise decides its sign.
FLAT = 0.05
_UNITS = {column.name: column.unit for column in TABLES["runs"]}


class ClaimState(StrEnum):
    """What is said of a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    CANNOT_BE_TOLD = "cannot be told"


@dataclass(frozen=True)
class ClaimVerdict:
    """What is said of a claim, and why, as a sentence without a full stop."""

    state: ClaimState
    why: str


@dataclass(frozen=True)
class ClaimTest:
    """What the values say of one claim by itself, before it is known how many are tested.

    Attributes:
        claim: The claim.
        p: p-value of its shape; 1 where the shape is not there.
        problem: Why it cannot be judged at all, or is within noise; empty where neither.
        refuted: What speaks against it beyond noise; empty where nothing does.
        support: What speaks for it.
        is_tested: Whether there was anything to test; what lacks runs, places or columns counts as no claim.
        note: What a reader has to know of the runs; it follows the reason of the verdict.
    """

    claim: Claim
    p: float = 1.0
    problem: str = ""
    refuted: str = ""
    support: str = ""
    is_tested: bool = True
    note: str = ""

    def verdict(self, state: ClaimState, why: str) -> ClaimVerdict:
        """Return a verdict with the note after its reason."""
        return ClaimVerdict(state, f"{why}; {self.note}" if self.note else why)


@dataclass(frozen=True)
class ClaimPart:
    """One part of a claim.

    Attributes:
        label: Where it is claimed.
        greater: Values that are claimed to be above the others.
        less: The others.
        p_direction: p-value of what decides which group is claimed to be the greater; 0 where the claim itself does.
        of_medians: Both levels where they are made from the medians of several places; None: the groups' medians.
    """

    label: str
    greater: Sequence[float]
    less: Sequence[float]
    p_direction: float = 0.0
    of_medians: tuple[float, float] | None = None

    @property
    def levels(self) -> tuple[float, float]:
        """The level that is claimed to be the greater, and the other."""
        return self.of_medians or (median(self.greater), median(self.less))

    @property
    def margin(self) -> float:
        """Difference of the levels."""
        return self.levels[0] - self.levels[1]

    @cached_property
    def p(self) -> float:
        """p-value of the claimed direction."""
        return max(self.p_direction, float(mann_whitney(self.greater, self.less, "greater")[0]))

    @cached_property
    def p_against(self) -> float:
        """p-value of the other direction."""
        return max(self.p_direction, float(mann_whitney(self.less, self.greater, "greater")[0]))


@dataclass(frozen=True)
class ClaimForm:
    """How a claim is tested.

    Attributes:
        least_places: Fewest places of x that it can be seen in.
        parts: Its parts in one curve, or in the two that are compared.
        p_value: The test of its shape over such curves; None: that of its parts.
        is_ratio: Whether its margins are ratios, so that all values must be above zero.
    """

    least_places: int
    parts: Callable[[Claim, Sequence[Curve]], Iterator[ClaimPart]]
    p_value: Callable[[Sequence[Curve]], float] | None = None
    is_ratio: bool = False


def examine(claim: Claim, curves: Mapping[str, Curve]) -> ClaimTest:
    """Return what the values of a claim's curves say of it.

    Args:
        claim: The claim.
        curves: Its curves by name: one of each series, or the two that are compared, which then share their places.
    """
    form = FORMS[claim.claim]
    if problem := _problem(claim, form, list(curves.values())):
        return lacking(claim, problem)
    sets = [list(curves.values())] if is_comparison(claim) else [[curve] for curve in curves.values()]
    names = [""] if len(sets) == 1 else [f"{name}, " for name in curves]
    found = [(name, part) for name, own in zip(names, sets, strict=True) for part in form.parts(claim, own)]
    parts = [replace(part, label=name + part.label) for name, part in found]
    if not parts:
        return lacking(claim, f"there is no completed run beyond {claim.beyond or 0:g}")
    fewest = min(len(values) for curve in curves.values() for values in curve.values())
    if min(part.margin for part in parts) <= 0:
        return _against(claim, parts, fewest)
    worst = max(parts, key=lambda part: (part.p, -part.margin))
    p = max(map(form.p_value, sets)) if form.p_value is not None else worst.p
    if form.p_value is not None and fewest >= LEAST_REPEATS and worst.p > SIGNIFICANCE:
        said = f"the shape is there, but not beyond the noise of its repeats: {_named(claim, worst)}"
        return ClaimTest(claim, p, said)
    return ClaimTest(claim, p, support=_named(claim, worst))


def lacking(claim: Claim, problem: str) -> ClaimTest:
    """Return the test of a claim that cannot be tested for want of runs, places or columns."""
    return ClaimTest(claim, problem=problem, is_tested=False)


def decide(tests: Sequence[ClaimTest], gates: Sequence[Sequence[int]]) -> list[ClaimVerdict]:
    """Return the verdict on each claim.

    Args:
        tests: All that is asked of a reference's rows.
        gates: For each the numbers of those that must hold before it can; empty for most.
    """
    tested = [number for number, test in enumerate(tests) if test.is_tested]
    adjusted = dict(zip(tested, holm([tests[number].p for number in tested]), strict=True))
    verdicts = [_verdict(test, adjusted.get(number, 1.0), len(tested)) for number, test in enumerate(tests)]
    for number, needed in enumerate(gates):
        closed = [tests[gate].claim for gate in needed if verdicts[gate].state is not ClaimState.HOLDS]
        if closed and verdicts[number].state is ClaimState.HOLDS:
            why = f"it mirrors {closed[0].column}, whose own shape ({closed[0].claim}) is not established"
            verdicts[number] = tests[number].verdict(ClaimState.CANNOT_BE_TOLD, why)
    return verdicts


def is_comparison(claim: Claim) -> bool:
    """Whether it is about two curves at once."""
    return claim.claim in (*COMPARING, Shape.MIRRORS)


def trend(values: Sequence[float], scores: Sequence[float]) -> float:
    """Return the p-value of Spearman's rank correlation of values that are claimed to fall with their scores."""
    from scipy.stats import rankdata

    weights = -rankdata(scores)
    return _permuted(rankdata(values), lambda ranks: ranks @ weights)


def umbrella(curve: Curve) -> float:
    """Return the p-value of Mack and Wolfe's test that values rise to an inner place and fall from there."""
    sizes = [len(values) for values in curve.values()]
    cells = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    moments = [_umbrella_moments(np.array(sizes), peak) for peak in range(len(sizes))]

    def largest(values: Floats) -> Floats:
        above = np.array([[_pairs_above(values[:, low], values[:, high]) for high in cells] for low in cells])
        found = []
        for peak in range(1, len(cells) - 1):
            rising = np.triu(np.ones((peak + 1, peak + 1)), 1)
            falling = np.tril(np.ones((len(cells) - peak, len(cells) - peak)), -1)
            statistic = np.einsum("ij,ijd->d", rising, above[: peak + 1, : peak + 1])
            statistic += np.einsum("ij,ijd->d", falling, above[peak:, peak:])
            found.append((statistic - moments[peak][0]) / moments[peak][1])
        highest: Floats = np.max(found, axis=0)
        return highest

    return _permuted(np.concatenate([np.asarray(values, dtype=np.float64) for values in curve.values()]), largest)


def _umbrella_moments(sizes: npt.NDArray[np.int64], peak: int) -> tuple[float, float]:
    """Return mean and standard deviation of the statistic with a known peak where values are alike everywhere."""
    total, own = int(sizes.sum()), int(sizes[peak])
    first, last = int(sizes[: peak + 1].sum()), int(sizes[peak:].sum())
    mean = (first**2 + last**2 - (sizes**2).sum() - own**2) / 4
    variance = 2 * (first**3 + last**3) + 3 * (first**2 + last**2)
    variance -= (sizes**2 * (2 * sizes + 3)).sum() + own**2 * (2 * own + 3)
    variance += 12 * own * first * last - 12 * own**2 * total
    return float(mean), float(np.sqrt(variance / 72))


def _pairs_above(low: Floats, high: Floats) -> Floats:
    """Return in how many pairs the second group is above the first, equal ones by half: [draws]."""
    difference = np.sign(high[:, None, :] - low[:, :, None])
    counted_pairs: Floats = (difference + 1).sum(axis=(1, 2)) / 2
    return counted_pairs


def _permuted(values: Floats, statistic: Callable[[Floats], Floats]) -> float:
    """Return how probable a statistic as large is where all values change places: from [draws, values] to [draws]."""
    from scipy.stats import permutation_test

    found = permutation_test(
        (values,),
        lambda draws, axis: statistic(draws.reshape(-1, len(values))).reshape(draws.shape[:-1]),
        permutation_type="pairings",
        vectorized=True,
        n_resamples=ARRANGEMENTS,
        alternative="greater",
        rng=0,
    )
    return float(found.pvalue)


def _trend_over_places(curves: Sequence[Curve]) -> float:
    values = [value for own in curves[0].values() for value in own]
    return trend(values, [place for place, own in curves[0].items() for _ in own])


def _trend_over_other(curves: Sequence[Curve]) -> float:
    """Return the p-value of the trend over places in the order of the other column's medians."""
    values = [value for own in curves[0].values() for value in own]
    return trend(values, [median(curves[1][place]) for place, own in curves[0].items() for _ in own])


def _steps(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    for (before, high), (after, low) in pairwise(curves[0].items()):
        yield ClaimPart(f"from {before:g} to {after:g}", high, low)


def _gains(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    """Yield the parts of gains that shrink: neighbours of a place lie above it together, repeat by repeat."""
    places = list(curves[0].items())
    for (_, before), (place, middle), (_, after) in zip(places, places[1:], places[2:], strict=False):
        both = [one + other for one, other in zip(before, after, strict=False)]
        levels = (median(before) + median(after), 2 * median(middle))
        yield ClaimPart(f"gain lost at {place:g}", both, [2 * value for value in middle], of_medians=levels)
    yield ClaimPart(f"gain at {places[-1][0]:g}", places[-2][1], places[-1][1])


def _plateau(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    """Yield the plateau above both ends: the lower of the two neighbouring inner places that are highest together."""
    inner = list(curves[0].values())[1:-1]
    level = max((min(pair, key=median) for pair in pairwise(inner)), key=median)
    for place in (min(curves[0]), max(curves[0])):
        yield ClaimPart(f"plateau above {place:g}", level, curves[0][place])


def _mirror(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    """Yield the steps that are not flat: the column falls where the other rises, and rises where it falls."""
    steps = [[median(high) - median(low) for low, high in pairwise(curve.values())] for curve in curves]
    flat = [FLAT * max(map(abs, own)) for own in steps]
    pairs = [list(pairwise(curve.items())) for curve in curves]
    for number, ((before, first), (after, last)) in enumerate(pairs[0]):
        if abs(steps[0][number]) < flat[0] and abs(steps[1][number]) < flat[1]:
            continue
        (_, low), (_, high) = pairs[1][number]
        rises = steps[1][number] >= 0
        other = ClaimPart("", high, low) if rises else ClaimPart("", low, high)
        greater, less = (first, last) if rises else (last, first)
        p = other.p if min(len(low), len(high)) >= LEAST_REPEATS else 0.0
        yield ClaimPart(f"from {before:g} to {after:g}", greater, less, p)


def _first_to_last(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    first, last = min(curves[0]), max(curves[0])
    yield ClaimPart(f"from {first:g} to {last:g}", curves[0][first], curves[0][last])


def _behind(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    first = min(curves[0])
    yield ClaimPart(f"at {first:g}", curves[0][first], curves[1][first])


def _closing(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    first, last = min(curves[0]), max(curves[0])
    yield ClaimPart(f"gap at {first:g}", curves[0][first], curves[1][first])
    pairs = [(curves[0][place], curves[1][place]) for place in (first, last)]
    before, after = ([own / other for own, other in zip(*pair, strict=False)] for pair in pairs)
    levels = (median(pairs[0][0]) / median(pairs[0][1]), median(pairs[1][0]) / median(pairs[1][1]))
    yield ClaimPart(f"gap closed from {first:g} to {last:g}", before, after, of_medians=levels)


def _ahead(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    for place in curves[0]:
        if place > (claim.beyond or 0.0):
            yield ClaimPart(f"at {place:g}", curves[1][place], curves[0][place])


def _slightly(claim: Claim, curves: Sequence[Curve]) -> Iterator[ClaimPart]:
    first, last, most = min(curves[0]), max(curves[0]), claim.most or 0.0
    yield ClaimPart(f"from {first:g} to {last:g}", curves[0][last], curves[0][first])
    yield ClaimPart(f"by {most:g} at most", [value + most for value in curves[0][first]], curves[0][last])


FORMS: dict[Shape, ClaimForm] = {
    Shape.FALLS: ClaimForm(3, _steps, _trend_over_places),
    Shape.GAINS_SHRINK: ClaimForm(3, _gains, _trend_over_places),
    Shape.RISES_AND_FALLS: ClaimForm(4, _plateau, lambda curves: umbrella(curves[0])),
    Shape.MIRRORS: ClaimForm(3, _mirror, _trend_over_other),
    Shape.SPEEDS_UP: ClaimForm(2, _first_to_last, is_ratio=True),
    Shape.STARTS_BEHIND: ClaimForm(1, _behind, is_ratio=True),
    Shape.CLOSES_IN: ClaimForm(2, _closing, is_ratio=True),
    Shape.OVERTAKES: ClaimForm(1, _ahead, is_ratio=True),
    Shape.SLIGHTLY_BETTER: ClaimForm(2, _slightly),
}


def _problem(claim: Claim, form: ClaimForm, curves: Sequence[Curve]) -> str:
    """Return why a claim cannot be tested, or an empty string."""
    fewest = min(map(len, curves))
    if fewest < form.least_places:
        are = "is" if fewest == 1 else "are"
        return f"it takes completed runs at {form.least_places} places or more; there {are} {fewest}"
    every = [[value for values in curve.values() for value in values] for curve in curves]
    if form.is_ratio and min(map(min, every)) <= 0:
        return "a value is not above zero, so that there is no ratio"
    joined = [list(chain(*every))] if claim.claim in COMPARING else every
    return "all values are the same" if any(len(set(values)) == 1 for values in joined) else ""


def _against(claim: Claim, parts: Sequence[ClaimPart], fewest: int) -> ClaimTest:
    """Return the test of a claim whose medians contradict it: refuted if that is beyond noise."""
    contrary = [part for part in parts if part.margin < 0]
    worst = min(contrary or parts, key=lambda part: (part.p_against, part.margin))
    said = _named(claim, worst)
    if contrary and worst.p_against <= SIGNIFICANCE / len(parts):
        return ClaimTest(claim, refuted=f"{said}; p = {worst.p_against:.2g} of {counted(len(parts), 'part')}")
    repeats = counted(fewest, "repeat")
    return ClaimTest(claim, problem=f"the medians speak against it ({said}), and {repeats} cannot rule out noise")


def _named(claim: Claim, part: ClaimPart) -> str:
    """Return a part's margin: `from 64 to 128: +677 s`."""
    if claim.claim is Shape.MIRRORS:
        return f"{part.label}: both go {'opposite ways' if part.margin > 0 else 'the same way'}"
    if FORMS[claim.claim].is_ratio:
        return f"{part.label}: {part.levels[0] / part.levels[1] - 1:+.1%}"
    unit = _UNITS.get(claim.column, "")
    return f"{part.label}: {part.margin:+.4g}{' ' if unit else ''}{unit}"


def _verdict(test: ClaimTest, p: float, family: int) -> ClaimVerdict:
    chance = f"p = {p:.2g} after Holm's correction over {counted(family, 'claim')}"
    if test.refuted:
        return test.verdict(ClaimState.DOES_NOT_HOLD, test.refuted)
    if test.problem:
        return test.verdict(ClaimState.CANNOT_BE_TOLD, test.problem)
    if p > SIGNIFICANCE:
        return test.verdict(ClaimState.CANNOT_BE_TOLD, f"the shape is there ({test.support}), but {chance}")
    return test.verdict(ClaimState.HOLDS, f"least certain {test.support}; {chance}")
