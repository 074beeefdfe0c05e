"""Whether runs show what a study claims: holds, does not hold, or cannot be told.

Each shape is a list of statements about contrasts (`dlbench.analysis.claims.contrast`): a change between two places of
x, or a gap between two curves, lies above or below a bound. There is one test for all of them:

- *holds*: each statement is significant by itself (intersection-union test, Berger 1982), at 5% after Holm's (1979)
  correction over all claims that can be tested on these runs. In at most 5% of studies any claim is said to hold that
  is not true, whether x has no effect or all but one of its statements are true.
- *does not hold*: a statement is refuted, at 5% after Bonferroni's correction over the statements of the claim and
  Holm's over the claims. In at most 5% of studies any claim is refuted that is true.
- *cannot be told*: all else, with what the repeats could have shown and how many would probably decide it; and whatever
  has fewer than three repeats at a place, because noise is not known there.

Means are geometric, changes and gaps are ratios; the gains of `gains-shrink` and `slightly-better` are differences of
arithmetic means, and so is the mean of `counts-the-others`. What must be flat, or must not turn back, is tested
against the claim's margin `flat`: a plateau by two one-sided tests (TOST; Schuirmann 1987, J. Pharmacokinet. Biopharm.
15:657), what must not turn back by one of them for each two places, so that many small steps are seen as one large one.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, combinations, pairwise

from dlbench.analysis.claims.contrast import Evidence, Power, Side, contrast, every, some
from dlbench.analysis.formatting import POINTS, chance, counted, joined, p_value
from dlbench.analysis.judge import LEAST_REPEATS, SIGNIFICANCE
from dlbench.analysis.statistics.rank_tests import holm
from dlbench.records.columns import TABLES
from dlbench.scenario.claims import COLUMNS, COMPARING, Claim, Shape

# The repeats of a column at each place, by rising place.
Curve = Mapping[float, Sequence[float]]

_UNITS = {column.name: POINTS if column.name.endswith("accuracy") else column.unit or "" for column in TABLES["runs"]}


class ClaimState(StrEnum):
    """What is said of a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    CANNOT_BE_TOLD = "cannot be told"


@dataclass(frozen=True)
class ClaimVerdict:
    """What is said of a claim.

    Attributes:
        state: holds, does not hold, or cannot be told.
        why: The reason, as a sentence without a full stop.
        power: Of what was tested and cannot be told: what its repeats can show.
    """

    state: ClaimState
    why: str
    power: Power | None = None


def examine(claim: Claim, curves: Mapping[str, Curve], mirrored: Claim | None = None) -> Evidence | str:
    """Return what the values of a claim's curves say of it by itself, or why it cannot be tested.

    Args:
        claim: The claim.
        curves: Its curves by name: one of each series, or the two that are compared, which then share their places.
        mirrored: Of a mirror image: the claim on the other column, whose shape it has upside down.
    """
    all_curves, shape = list(curves.values()), claim.claim if mirrored is None else mirrored.claim
    if problem := _problem(claim, shape, all_curves):
        return problem
    if mirrored is not None:
        return _mirror(claim, mirrored, all_curves)
    _, alternatives = FORMS[shape]
    if shape in COMPARING or len(all_curves) == 1:
        return some(list(alternatives(claim, all_curves)))
    return every([some(list(alternatives(claim, [single]))).of(name) for name, single in curves.items()])


def decide(tests: Sequence[Evidence | str]) -> list[ClaimVerdict]:
    """Return the verdict on each claim, all that is asked of a reference's runs being corrected together.

    Args:
        tests: As `examine` returns them; what cannot be tested counts as no claim.
    """
    tested = [test for test in tests if not isinstance(test, str)]
    sides = [kind.shown for kind in tested], [kind.refuted for kind in tested]
    adjusted = zip(*(holm([side.p for side in kind]) for kind in sides), strict=True)
    verdicts = []
    for test in tests:
        state, power, parts = ClaimState.CANNOT_BE_TOLD, None, [test]
        if not isinstance(test, str):
            corrected, (shown, refuted) = next(adjusted), test
            # Where what is claimed lies on the other side of its bound, more repeats can only refute it.
            is_against = refuted.p < shown.p or shown.contrast.p(above=shown.contrast.above) > 0.5
            side = refuted if is_against else shown
            if corrected[is_against] <= SIGNIFICANCE:
                state = ClaimState.DOES_NOT_HOLD if is_against else ClaimState.HOLDS
            else:
                # Holm's level of the claim's rank, divided among its statements.
                level = SIGNIFICANCE / sum(other.p >= side.p for other in sides[is_against]) / side.shares
                power = side.contrast.power(level)
            after = f"{p_value(corrected[is_against])} after Holm's correction over {counted(len(tested), 'claim')}"
            why = f"{'most against it' if is_against else 'least certain'} {side.contrast}"
            parts = [why, f"{chance(side.p)} ({after})", str(power or "")]
        verdicts.append(ClaimVerdict(state, joined(*parts, sep="; "), power))
    return verdicts


def _problem(claim: Claim, shape: Shape, curves: Sequence[Curve]) -> str:
    """Return why a claim cannot be tested, or an empty string."""
    places, (least_places, _) = min(map(len, curves)), FORMS[shape]
    if places < least_places:
        are = "is" if places == 1 else "are"
        return f"it takes completed runs at {least_places} places or more; there {are} {places}"
    if claim.beyond is not None and max(curves[0]) <= claim.beyond:
        return f"there is no completed run beyond {claim.beyond:g}"
    values = [list(chain(*curve.values())) for curve in curves]
    is_ratio = shape not in OF_DIFFERENCES
    if not all((0.0 if is_ratio else -math.inf) < value < math.inf for value in chain(*values)):
        return "a value is not finite" + (" and above zero, so that there is no ratio" if is_ratio else "")
    together = [list(chain(*values))] if claim.claim in COMPARING else values
    if any(len(set(numbers)) == 1 for numbers in together):
        return "all values are the same, which can never show it"
    fewest = min(len(repeats) for curve in curves for repeats in curve.values())
    if fewest < LEAST_REPEATS:
        rule = f"the noise is known from {LEAST_REPEATS} at each place on"
        return f"{counted(fewest, 'repeat')} can never show it: {rule}"
    return ""


def _change(curve: Curve, first: float, last: float, *, up: bool, slack: float = 0.0) -> Evidence:
    """Return the evidence that a curve rises (or falls) between two places, or turns back by less than `slack`."""
    groups = ((1.0, curve[last]), (-1.0, curve[first]))
    bound = -math.log1p(slack) if up else math.log1p(slack)
    return contrast(f"from {first:g} to {last:g}", groups, above=up, bound=bound)


def _gap(curves: Sequence[Curve], place: float, *, above: bool) -> Evidence:
    """Return the evidence that the first curve is above (or below) the second at a place."""
    groups = ((1.0, curves[0][place]), (-1.0, curves[1][place]))
    return contrast(f"at {place:g}", groups, above=above)


def _ends(claim: Claim, curves: Sequence[Curve], *, mirror: bool = False) -> Iterator[Evidence]:
    yield _change(curves[0], min(curves[0]), max(curves[0]), up=mirror)


def _falls(claim: Claim, curves: Sequence[Curve], *, mirror: bool = False) -> Iterator[Evidence]:
    """Yield the evidence that a curve goes down from first to last place and turns back between no two places."""
    pairs = [_change(curves[0], *pair, up=mirror, slack=claim.margin) for pair in combinations(curves[0], 2)]
    yield every([*_ends(claim, curves, mirror=mirror), *pairs])


def _hills(claim: Claim, curves: Sequence[Curve], *, mirror: bool = False) -> Iterator[Evidence]:
    """Yield for each two neighbouring inner places the evidence that they are the plateau.

    The order is that of an umbrella (Mack & Wolfe 1981, JASA 76:175): up to the plateau no place lies below an earlier
    one, from there on none above. The plateau is flat and lies above the first and the last place.
    """
    up, curve = not mirror, curves[0]
    places = list(curve)
    for peak in range(1, len(places) - 2):
        plateau, slack = places[peak : peak + 2], claim.margin
        rise = [_change(curve, places[0], place, up=up) for place in plateau]
        rise += [_change(curve, *pair, up=up, slack=slack) for pair in combinations(places[: peak + 2], 2)]
        fall = [_change(curve, place, places[-1], up=not up) for place in plateau]
        fall += [_change(curve, *pair, up=not up, slack=slack) for pair in combinations(places[peak:], 2)]
        yield every([*rise, *fall])


def _mirror(claim: Claim, mirrored: Claim, curves: Sequence[Curve]) -> Evidence:
    """Return the evidence that a column has the shape of another upside down, with its plateau at the same places.

    It is refuted where the other column has its shape and this one does not have it upside down.
    """
    _, alternatives = FORMS[mirrored.claim]
    theirs = [evidence.of(COLUMNS[mirrored.column]) for evidence in alternatives(mirrored, curves[1:])]
    ours = [evidence.of(COLUMNS[claim.column]) for evidence in alternatives(claim, curves[:1], mirror=True)]
    both, ours_alone = some([every(pair) for pair in zip(theirs, ours, strict=True)]), some(ours)
    p = max(some(theirs).shown.p, ours_alone.refuted.p)
    return Evidence(both.shown, Side(p, ours_alone.refuted.contrast))


def _shrinks(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    """Yield the evidence that a curve falls, and that its gains do: what each step brings.

    The last gain is below the first, and none exceeds an earlier one by the margin, a share of the first place's value.
    """
    curve, unit = curves[0], _UNITS[claim.column]
    steps = list(pairwise(curve))

    def change(first: tuple[float, float], last: tuple[float, float], slack: float) -> Evidence:
        weights = dict.fromkeys(curve, 0.0)
        for place, weight in zip((*last, *first, min(curve)), (1.0, -1.0, -1.0, 1.0, -slack), strict=True):
            weights[place] += weight
        label = "gain from {:g} to {:g} - gain from {:g} to {:g}".format(*last, *first)
        label += f" - {100 * slack:g}% of the value at {min(curve):g}" if slack else ""
        groups = [(weight, curve[place]) for place, weight in weights.items() if weight]
        return contrast(label, groups, above=False, unit=unit)

    pairs = [change(*pair, claim.margin) for pair in combinations(steps, 2)]
    yield every([*_falls(claim, curves), change(steps[0], steps[-1], 0.0), *pairs])


def _behind(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    yield _gap(curves, min(curves[0]), above=True)


def _closes(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    """Yield the evidence that the first curve begins above the second, and that the ratio of the two shrinks."""
    first, last = min(curves[0]), max(curves[0])
    ours, theirs = curves
    groups = ((1.0, ours[last]), (-1.0, theirs[last]), (-1.0, ours[first]), (1.0, theirs[first]))
    yield every([*_behind(claim, curves), contrast(f"gap from {first:g} to {last:g}", groups, above=False)])


def _overtakes(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    yield every([_gap(curves, place, above=False) for place in curves[0] if place > (claim.beyond or 0.0)])


def _slightly(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    first, last = min(curves[0]), max(curves[0])
    label, groups = f"from {first:g} to {last:g}", ((1.0, curves[0][last]), (-1.0, curves[0][first]))
    unit = _UNITS[claim.column]
    most = contrast(label, groups, above=False, bound=claim.most or 0.0, unit=unit)
    yield every([contrast(label, groups, above=True, unit=unit), most])


def _least_inside(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    """Yield for each inner place the evidence that the curve is lower there than at both ends."""
    first, *inner, last = curves[0]
    for place in inner:
        yield every([_change(curves[0], first, place, up=False), _change(curves[0], place, last, up=True)])


def _stays(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    """Yield the evidence that the curve is at each place within the margin of the first one."""
    first, *others = curves[0]
    slack = claim.margin
    yield every([_change(curves[0], first, place, up=up, slack=slack) for place in others for up in (True, False)])


def _counts_the_others(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    """Yield the evidence that the curve is x - 1 at each x above 1, within the margin.

    Where repeats differ at no place there is no noise, which is unknown where they differ at some.
    """
    curve, unit = curves[0], _UNITS[claim.column]
    is_count = all(len(set(repeats)) == 1 for repeats in curve.values())

    def at(place: float, up: bool) -> Evidence:
        bound = (place - 1) * (1 - claim.margin if up else 1 + claim.margin)
        return contrast(f"at {place:g}", [(1.0, curve[place])], above=up, bound=bound, unit=unit, is_count=is_count)

    yield every([at(place, up) for place in curve if place > 1 for up in (True, False)])


# Of each claim the fewest places that it can be seen in, and the evidence for each way in which it can be true, on one
# curve or on the two that are compared.
FORMS: dict[Shape, tuple[int, Callable[..., Iterator[Evidence]]]] = {
    Shape.FALLS: (2, _falls),
    Shape.GAINS_SHRINK: (3, _shrinks),
    Shape.RISES_AND_FALLS: (4, _hills),
    Shape.SPEEDS_UP: (2, _ends),
    Shape.STARTS_BEHIND: (1, _behind),
    Shape.CLOSES_IN: (2, _closes),
    Shape.OVERTAKES: (1, _overtakes),
    Shape.SLIGHTLY_BETTER: (2, _slightly),
    Shape.LEAST_INSIDE: (3, _least_inside),
    Shape.STAYS: (2, _stays),
    Shape.COUNTS_THE_OTHERS: (1, _counts_the_others),
}
# Claims that are not about ratios, so that values may be zero or below.
OF_DIFFERENCES = (Shape.SLIGHTLY_BETTER, Shape.COUNTS_THE_OTHERS)
