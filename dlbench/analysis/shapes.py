"""The shapes that studies claim, each as margins: numbers that are all above zero where the shape is there.

Margins are made from medians by place, for many draws at once ([draws, places] to [draws, margins]), in the unit of
the column; where times or rates are compared they are logarithms of ratios. The margins of

    falls                        for each step of x: value before - value after
    gains-shrink                 for each two neighbouring steps: fall of the first - fall of the second; the last fall
    rises-to-plateau-and-falls   plateau - first, plateau - last; the plateau is the highest level that two
                                 neighbouring inner places reach
    mirrors                      for each step of x: - change of the column x change of the other; a step in which both
                                 change by less than a twentieth of their largest steps is flat and has none
    speeds-up                    log(first / last)
    starts-behind                log(series / other) at the first place
    closes-in                    log(series / other) at the first place; the same - that at the last place
    overtakes                    for each place beyond the one that is given: log(other / series)
    slightly-better              last - first; `most` - (last - first)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dlbench.analysis.curves import Array, Curves, medians, spreads
from dlbench.scenario.claims import COMPARING, Claim, Shape

# A step in which both columns change by less than this share of their largest steps is flat: noise decides its sign.
FLAT = 0.05

Margins = Callable[[Sequence[Array], Claim, tuple[float, ...]], Array]
Labels = Callable[[Claim, tuple[float, ...]], tuple[str, ...]]


@dataclass(frozen=True)
class Form:
    """How a claim is judged.

    Attributes:
        least_places: Fewest places of x that it can be seen in.
        margins: From medians of one curve, or of the two that are compared, to margins.
        labels: What each margin is called, for a sentence.
    """

    least_places: int
    margins: Margins
    labels: Labels


def margins(claim: Claim, found: Curves, vectors: Array) -> Array:
    """Return the margins of a claim, [draws, margins]: those of each curve, or of the two that are compared.

    Args:
        claim: The claim.
        found: Its curves; where two are compared both have the same places.
        vectors: Values in the order of `found.values`, [draws, values].
    """
    form = FORMS[claim.claim]
    if is_comparison(claim):
        pair = [medians(vectors, curve) for curve in found.curves]
        return form.margins(pair, claim, found.curves[0].places)
    made = [form.margins([medians(vectors, curve)], claim, curve.places) for curve in found.curves]
    return np.concatenate(made, axis=1)


def scales(claim: Claim, found: Curves, vectors: Array) -> Array:
    """Return what each margin is divided by to be compared with those of shuffled values, [draws, margins].

    It is the spread of repeats about their medians; of a comparison the root of both squares, of a mirror image the
    product. With one repeat everywhere it is 1.
    """
    if claim.claim in COMPARING:
        joined = np.hypot(*(spreads(vectors, curve, found.positions) for curve in found.curves))
        return np.tile(joined[:, None], len(labels(claim, found)))
    spread = [spreads(vectors, curve, curve.positions) for curve in found.curves]
    if claim.claim is Shape.MIRRORS:
        return np.tile((spread[0] * spread[1])[:, None], len(labels(claim, found)))
    counts = [len(FORMS[claim.claim].labels(claim, curve.places)) for curve in found.curves]
    return np.concatenate([np.tile(one[:, None], count) for one, count in zip(spread, counts, strict=True)], axis=1)


def labels(claim: Claim, found: Curves) -> tuple[str, ...]:
    """Return what each margin is called, in the order of `margins`."""
    form = FORMS[claim.claim]
    if is_comparison(claim) or len(found.curves) == 1:
        return form.labels(claim, found.curves[0].places)
    return tuple(f"{curve.name}, {label}" for curve in found.curves for label in form.labels(claim, curve.places))


def is_comparison(claim: Claim) -> bool:
    """Whether it is about two curves at once."""
    return claim.claim in (*COMPARING, Shape.MIRRORS)


def needs_logarithms(claim: Claim) -> bool:
    """Whether its margins are ratios, so that all values must be above zero."""
    return claim.claim in (*COMPARING, Shape.SPEEDS_UP)


def _falls(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    return -np.diff(found[0], axis=1)


def _gains_shrink(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    gains = -np.diff(found[0], axis=1)
    return np.concatenate([gains[:, :-1] - gains[:, 1:], gains[:, -1:]], axis=1)


def _rises_and_falls(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    inner = found[0][:, 1:-1]
    plateau = np.minimum(inner[:, :-1], inner[:, 1:]).max(axis=1)
    return np.stack([plateau - found[0][:, 0], plateau - found[0][:, -1]], axis=1)


def _mirrors(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    steps = [np.diff(one, axis=1) for one in found]
    flat = [np.abs(step) < FLAT * np.abs(step).max(axis=1, keepdims=True) for step in steps]
    return np.where(flat[0] & flat[1], np.inf, -steps[0] * steps[1])


def _speeds_up(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    return found[0][:, :1] - found[0][:, -1:]


def _starts_behind(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    return (found[0] - found[1])[:, :1]


def _closes_in(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    ratio = found[0] - found[1]
    return np.concatenate([ratio[:, :1], ratio[:, :1] - ratio[:, -1:]], axis=1)


def _overtakes(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    return (found[1] - found[0])[:, _beyond(claim, places)]


def _slightly_better(found: Sequence[Array], claim: Claim, places: tuple[float, ...]) -> Array:
    gain = found[0][:, -1] - found[0][:, 0]
    return np.stack([gain, (claim.most or 0.0) - gain], axis=1)


def _beyond(claim: Claim, places: tuple[float, ...]) -> list[int]:
    return [index for index, place in enumerate(places) if place > (claim.beyond or 0.0)]


def _steps(claim: Claim, places: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"from {before:g} to {after:g}" for before, after in pairwise(places))


def _gains(claim: Claim, places: tuple[float, ...]) -> tuple[str, ...]:
    return (*(f"gain lost at {place:g}" for place in places[1:-1]), f"gain at {places[-1]:g}")


def _ends(claim: Claim, places: tuple[float, ...]) -> tuple[str, ...]:
    return (f"plateau above {places[0]:g}", f"plateau above {places[-1]:g}")


def _span(claim: Claim, places: tuple[float, ...]) -> tuple[str, ...]:
    return (f"from {places[0]:g} to {places[-1]:g}",)


def _start(claim: Claim, places: tuple[float, ...]) -> tuple[str, ...]:
    return (f"at {places[0]:g}",)


def _gap(claim: Claim, places: tuple[float, ...]) -> tuple[str, ...]:
    return (f"gap at {places[0]:g}", f"gap closed from {places[0]:g} to {places[-1]:g}")


def _further(claim: Claim, places: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"at {places[index]:g}" for index in _beyond(claim, places))


def _little(claim: Claim, places: tuple[float, ...]) -> tuple[str, ...]:
    return (f"from {places[0]:g} to {places[-1]:g}", f"by {claim.most or 0:g} at most")


FORMS: dict[Shape, Form] = {
    Shape.FALLS: Form(3, _falls, _steps),
    Shape.GAINS_SHRINK: Form(3, _gains_shrink, _gains),
    Shape.RISES_AND_FALLS: Form(4, _rises_and_falls, _ends),
    Shape.MIRRORS: Form(3, _mirrors, _steps),
    Shape.SPEEDS_UP: Form(2, _speeds_up, _span),
    Shape.STARTS_BEHIND: Form(1, _starts_behind, _start),
    Shape.CLOSES_IN: Form(2, _closes_in, _gap),
    Shape.OVERTAKES: Form(1, _overtakes, _further),
    Shape.SLIGHTLY_BETTER: Form(2, _slightly_better, _little),
}
