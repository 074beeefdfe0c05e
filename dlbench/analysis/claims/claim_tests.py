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

Means are geometric, changes and gaps are ratios. What must be flat, or must not turn back, is tested against the
claim's margin `flat`: flat by two one-sided tests (TOST; Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657), what
must not turn back by one of them for each two places, so that many small steps are seen as one large one.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain, combinations

from dlbench.analysis.claims.contrast import Evidence, Group, contrast, every, some
from dlbench.analysis.formatting import chance, counted, joined, p_value
from dlbench.analysis.judge import LEAST_REPEATS
from dlbench.analysis.statistics.differences import holm
from dlbench.analysis.statistics.sequential import SIGNIFICANCE
from dlbench.scenario.claims import Claim, Shape

# The repeats of a column at each place, by rising place.
Curve = Mapping[float, Sequence[float]]


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
    """

    state: ClaimState
    why: str


def examine(claim: Claim, curves: Mapping[str, Curve]) -> Evidence | str:
    """Return what the values of a claim's curves say of it by itself, or why it cannot be tested.

    Args:
        claim: The claim.
        curves: Its curves by name: one of each series, or the two that are compared, which then share their places.
    """
    if problem := _problem(claim, list(curves.values())):
        return problem
    _, alternatives = FORMS[claim.claim]
    if claim.than is not None or len(curves) == 1:
        return some(list(alternatives(claim, list(curves.values()))))
    return every([some(list(alternatives(claim, [curve]))).of(name) for name, curve in curves.items()])


def decide(tests: Sequence[Evidence | str]) -> list[ClaimVerdict]:
    """Return the verdict on each claim, all that is asked of a reference's runs being corrected together.

    Args:
        tests: As `examine` returns them; what cannot be tested counts as no claim.
    """
    tested = [test for test in tests if not isinstance(test, str)]
    sides = [evidence.shown for evidence in tested], [evidence.refuted for evidence in tested]
    adjusted = zip(*(holm([side.p for side in of_one_kind]) for of_one_kind in sides), strict=True)
    verdicts = []
    for test in tests:
        state, parts = ClaimState.CANNOT_BE_TOLD, list[object]([test])
        if not isinstance(test, str):
            corrected, (shown, refuted) = next(adjusted), test
            # Where what is claimed lies on the other side of its bound, more repeats can only refute it.
            is_against = refuted.p < shown.p or shown.contrast.p(above=shown.contrast.above) > 0.5
            side = refuted if is_against else shown
            after = f"{p_value(corrected[is_against])} after Holm's correction over {counted(len(tested), 'claim')}"
            why = f"{'most against it' if is_against else 'least certain'} {side.contrast}"
            parts = [why, f"{chance(side.p)} ({after})"]
            if corrected[is_against] <= SIGNIFICANCE:
                state = ClaimState.DOES_NOT_HOLD if is_against else ClaimState.HOLDS
            else:
                # Holm's level of the claim's rank, divided among its statements.
                level = SIGNIFICANCE / sum(other.p >= side.p for other in sides[is_against]) / side.shares
                parts.append(side.contrast.power(level))
        verdicts.append(ClaimVerdict(state, joined(*parts, sep="; ")))
    return verdicts


def _problem(claim: Claim, curves: Sequence[Curve]) -> str:
    """Return why a claim cannot be tested, or an empty string."""
    places, (least_places, _) = min(map(len, curves)), FORMS[claim.claim]
    if places < least_places:
        are = "is" if places == 1 else "are"
        return f"it takes completed runs at {least_places} places or more{claim.where}; there {are} {places}"
    values = [list(chain(*curve.values())) for curve in curves]
    if not all(0 < value < math.inf for value in chain(*values)):
        return "a value is not finite and above zero, so that there is no ratio"
    together = [list(chain(*values))] if claim.than is not None else values
    if any(len(set(numbers)) == 1 for numbers in together):
        return "all values are the same, which can never show it"
    fewest = min(len(repeats) for curve in curves for repeats in curve.values())
    if fewest < LEAST_REPEATS:
        rule = f"the noise is known from {LEAST_REPEATS} at each place on"
        return f"{counted(fewest, 'repeat')} can never show it: {rule}"
    return ""


def _at(curves: Sequence[Curve], place: float, weight: float = 1.0) -> list[Group]:
    """Return the logarithm of a curve at a place, or of its ratio to a second one, as groups of a contrast."""
    return [(sign * weight, curve[place]) for sign, curve in zip((1.0, -1.0), curves, strict=False)]


def _change(curves: Sequence[Curve], first: float, last: float, *, up: bool, slack: float = 0.0) -> Evidence:
    """Return the evidence that a curve rises (or falls) between two places, or turns back by less than `slack`."""
    bound = -math.log1p(slack) if up else math.log1p(slack)
    groups = [*_at(curves, last), *_at(curves, first, -1.0)]
    return contrast(f"from {first:g} to {last:g}", groups, above=up, bound=bound)


def _one_way(claim: Claim, curves: Sequence[Curve], *, up: bool) -> Iterator[Evidence]:
    """Yield the evidence that a curve rises (or falls) from first to last place and turns back between no two."""
    places = list(curves[0])
    pairs = [_change(curves, *pair, up=up, slack=claim.margin) for pair in combinations(places, 2)]
    yield every([_change(curves, places[0], places[-1], up=up), *pairs])


def _flat(claim: Claim, curves: Sequence[Curve]) -> Iterator[Evidence]:
    """Yield the evidence that a curve is at each place within the margin of the first one."""
    first, *others = curves[0]
    slack = claim.margin
    yield every([_change(curves, first, place, up=up, slack=slack) for place in others for up in (True, False)])


def _inside(_: Claim, curves: Sequence[Curve], *, up: bool) -> Iterator[Evidence]:
    """Yield for each inner place the evidence that a curve is higher (or lower) there than at both ends."""
    first, *inner, last = curves[0]
    for place in inner:
        yield every([_change(curves, first, place, up=up), _change(curves, place, last, up=not up)])


def _apart(_: Claim, curves: Sequence[Curve], *, above: bool) -> Iterator[Evidence]:
    """Yield the evidence that the first curve is above (or below) the second at each place."""
    yield every([contrast(f"at {place:g}", _at(curves, place), above=above) for place in curves[0]])


# Of each claim the fewest places that it can be seen in, and the evidence for each way in which it can be true, on one
# curve or on the ratio of two.
FORMS: dict[Shape, tuple[int, Callable[[Claim, Sequence[Curve]], Iterator[Evidence]]]] = {
    Shape.FALLS: (2, partial(_one_way, up=False)),
    Shape.RISES: (2, partial(_one_way, up=True)),
    Shape.FLAT: (2, _flat),
    Shape.LEAST_INSIDE: (3, partial(_inside, up=False)),
    Shape.MOST_INSIDE: (3, partial(_inside, up=True)),
    Shape.ABOVE: (1, partial(_apart, above=True)),
    Shape.BELOW: (1, partial(_apart, above=False)),
}
