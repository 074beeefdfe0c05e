"""Tests of claims: what each shape takes, what few repeats can show, and how many claims share the level."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.stats import binom

from dlbench.analysis.claims.claim_tests import FORMS, ClaimState, ClaimVerdict, Curve, decide, examine
from dlbench.analysis.claims.contrast import Contrast, Evidence, Side
from dlbench.scenario.claims import Claim, Shape
from tests.unit.analysis.claims.made import claim, curve, curves
from tests.unit.analysis.claims.truths import ACCURACY, NOISES, TIME, truths

HOLDS, NOT, UNKNOWN = ClaimState.HOLDS, ClaimState.DOES_NOT_HOLD, ClaimState.CANNOT_BE_TOLD
FALLS, RISES, FLAT, LEAST, MOST = (claim(shape) for shape in list(Shape)[:5])
ABOVE, BELOW = claim(Shape.ABOVE), claim(Shape.BELOW)
CLOSING = claim(Shape.FALLS, series="out", than="up")


def verdict(asked: Claim, found: Mapping[str, Curve]) -> ClaimVerdict:
    (made,) = decide([examine(asked, found)])
    return made


def state(asked: Claim, *values: Sequence[float], spread: float = 0.001, n: int = 5) -> ClaimState:
    """Return the verdict on n repeats of these levels, with little noise."""
    found = curves(dict(zip(("out", "up"), values, strict=False)), (1, 2, 4, 8, 16, 32), spread=spread, n=n)
    return verdict(asked, found).state


def test_each_shape_by_hand() -> None:
    assert set(FORMS) == set(Shape)
    for asked, values, expected in (
        (FALLS, [TIME], HOLDS),
        # It may be flat, and rise by less than the margin.
        (FALLS, [(9, 5, 2, 2.02)], HOLDS),
        (FALLS, [(9, 5, 2, 2.08)], NOT),
        (FALLS, [(9, 9.04, 9.08, 9.12)], NOT),
        # No step rises by the margin, three together do.
        (FALLS, [(9, 3, 3.05, 3.1, 3.15)], NOT),
        (FALLS, [(9, 5)], HOLDS),
        (replace_flat(FALLS, 0.1), [(9, 5, 2, 2.08)], HOLDS),
        (RISES, [(2, 5, 5, 9)], HOLDS),
        (RISES, [(2, 5, 4.8, 9)], NOT),
        (RISES, [TIME], NOT),
        (CLOSING, [(12, 6, 2), (10, 5, 2)], HOLDS),
        (CLOSING, [(12, 6, 3), (10, 5, 2)], NOT),
        (FLAT, [(9, 9.05, 8.95, 9)], HOLDS),
        (FLAT, [(9, 9, 9.3, 9)], NOT),
        (FLAT, [(9, 9, 9, 8.7)], NOT),
        (replace_flat(FLAT, 0.1), [(9, 9, 9.3, 8.7)], HOLDS),
        (LEAST, [(9, 4, 4, 9)], HOLDS),
        (LEAST, [(9, 7, 5, 4)], NOT),
        (LEAST, [(4, 5, 6, 9)], NOT),
        (LEAST, [(4, 9, 9, 4)], NOT),
        (MOST, [ACCURACY], HOLDS),
        (MOST, [(9, 8, 8.05, 5)], NOT),
        (ABOVE, [(10, 2), (9, 1)], HOLDS),
        (ABOVE, [(10, 2), (9, 9)], NOT),
        (BELOW, [(4, 2), (5, 5)], HOLDS),
        (BELOW, [(4, 6), (5, 5)], NOT),
    ):
        assert state(asked, *values) is expected, (asked, values)


def replace_flat(asked: Claim, flat: float) -> Claim:
    return asked.model_copy(update={"flat": flat})


def test_groups_that_lie_apart_are_told_apart() -> None:
    """Scale-out 41% behind, every run of it behind every run of scale-up: certain at any number of repeats."""
    for n in (3, 5):
        found = {
            name: {1: [y * (1 + 0.002 * repeat) for repeat in range(n)]} for name, y in (("out", 14.1), ("up", 10.0))
        }
        made = verdict(ABOVE, found)
        assert made.state is HOLDS
        assert made.why.startswith("least certain at 1: +41% (95% interval +40%")


def test_what_is_known_to_be_true_or_not_is_hardly_ever_contradicted() -> None:
    """Hundreds of thousands of studies are a campaign: `python -m tests.soak claims`."""
    generator, draws = np.random.default_rng(3), 30
    for truth in truths():
        drawn = [truth.judged(truth.drawn(generator, list(NOISES)[n % len(NOISES)], 3)) for n in range(draws)]
        found, limit = Counter(made.state for (made,) in drawn), binom.ppf(0.9999, draws, 0.05)
        assert found[NOT] <= limit, truth.name
        assert truth.may_hold or found[HOLDS] <= limit, truth.name


def test_few_repeats_can_never_show_anything() -> None:
    for found, repeats in (
        (curve(TIME, spread=0.01, n=1), "1 repeat"),
        ({**curve(TIME, spread=0.01, n=5), 32: [5379.0, 5400.0]}, "2 repeats"),
    ):
        made = verdict(FALLS, {"": found})
        assert made.state is UNKNOWN
        assert made.why == f"{repeats} can never show it: the noise is known from 3 at each place on"


def test_more_noise_than_effect_tells_nothing() -> None:
    within = {1: [5.0, 5.2, 5.4, 5.6, 5.8], 2: [4.9, 5.3, 5.5, 5.7, 5.9]}
    made = verdict(FALLS, {"": within})
    assert made.state is UNKNOWN
    assert made.why.startswith("most against it from 1 to 2: +1% (95% interval ")
    assert made.why.endswith(
        "claimed < 0); p = 0.81 (0.81 after Holm's correction over 1 claim); "
        "5 repeats show a difference of 17% (power 0.8), more than 100 would probably decide it"
    )


def test_whatever_is_tested_and_cannot_be_told_says_its_power() -> None:
    """The values are three repeats with so much noise that nothing can be told."""
    untold = 0
    for seed, (asked, values) in enumerate(
        [(FALLS, TIME), (RISES, TIME[::-1]), (MOST, ACCURACY), (FLAT, (1, 1)), (LEAST, TIME), (RISES, (0.9, 0.91))]
    ):
        made = verdict(asked, {"": curve(values, spread=0.1, n=3, seed=seed)})
        assert ("(power 0.8)" in made.why) == (made.state is UNKNOWN)
        untold += made.state is UNKNOWN
    assert untold > 3


def test_the_power_is_that_at_the_level_of_the_claims_rank_and_of_its_statements() -> None:
    known = Contrast("from 1 to 2", 0.1, 0.1, 4, 0.0, True)
    for evidence, level in (
        (Evidence(Side(0.2, known), Side(0.9, known)), 0.05 / 2),
        (Evidence(Side(0.2, known, 3), Side(0.9, known)), 0.05 / 2 / 3),
        (Evidence(Side(0.5, known), Side(0.9, known)), 0.05),
        (Evidence(Side(0.9, known), Side(0.2, known, 4)), 0.05 / 2 / 4),
    ):
        found = decide([evidence, made(0.3, 0.3)])
        assert found[0].why.endswith(f"; {known.power(level)}"), (evidence, level)


def test_what_is_claimed_of_every_series_must_be_true_of_each() -> None:
    rising = {"up": curve((9, 5, 2), spread=0.01, n=5), "out": curve((9, 10, 11), spread=0.01, n=5)}
    made = verdict(FALLS, rising)
    assert made.state is NOT
    assert "most against it out, from 8 to 32: +2" in made.why
    assert verdict(FALLS, {**rising, "out": curve((9, 7, 3), spread=0.01, n=5)}).state is HOLDS


def test_what_cannot_be_tested_does_not_count() -> None:
    other = examine(FALLS, {"": curve(TIME, spread=0.01, n=5)})
    for asked, found, said in (
        (MOST, {"": curve((1, 2), n=3)}, "3 places"),
        (FALLS, {"": curve((1,), n=3)}, "there is 1"),
        (FALLS, {"": curve((3, 3, 3), n=3)}, "the same"),
        (ABOVE, curves({"out": (3, 3), "up": (3, 3)}, n=3), "the same"),
        (RISES, {"": curve((3, 0), n=3)}, "not finite and above zero"),
        (RISES, {"": curve((3, float("inf")), n=3)}, "not finite"),
    ):
        first, second = decide([examine(asked, found), other])
        assert (first.state, said in first.why) == (UNKNOWN, True), asked
        assert second.why.endswith("over 1 claim)")


def test_the_unit_changes_no_verdict() -> None:
    for asked, values in ((FALLS, TIME), (LEAST, TIME), (MOST, ACCURACY)):
        plain = examine(asked, {"": curve(values, spread=0.01, n=3)})
        for factor in (1e-12, 1e12):
            scaled = examine(asked, {"": curve([factor * value for value in values], spread=0.01, n=3)})
            assert not isinstance(plain, str)
            assert not isinstance(scaled, str)
            assert scaled.shown.p == pytest.approx(plain.shown.p), (asked, factor)
            assert scaled.refuted.p == pytest.approx(plain.refuted.p), (asked, factor)


def made(p: float = 1.0, p_against: float = 1.0) -> Evidence:
    known = Contrast("from 1 to 2", 0.1, 0.1, 4, 0.0, True)
    return Evidence(Side(p, known), Side(p_against, known))


def test_claims_share_the_level_by_holms_procedure_whichever_way_they_go() -> None:
    # 0.01 x 3, 0.02 x 2, 0.04 x 1.
    for numbers, expected in (((0.02, 0.01, 0.04), (1, 1, 1)), ((0.03, 0.01, 0.04), (0, 1, 0))):
        found = decide([made(p) for p in numbers])
        assert [one.state for one in found] == [HOLDS if one else UNKNOWN for one in expected]
        found = decide([made(p_against=p) for p in numbers])
        assert [one.state for one in found] == [NOT if one else UNKNOWN for one in expected]
    # What was not tested takes no share.
    assert [one.state for one in decide([made(0.04), "no runs"])] == [HOLDS, UNKNOWN]
    assert decide([]) == []


def test_a_verdict_says_its_numbers() -> None:
    found = decide([made(0.012), made(0.4)])
    assert found[0].why == (
        "least certain from 1 to 2: +11% (95% interval -16% to +46%; claimed > 0); "
        "p = 0.012 (0.024 after Holm's correction over 2 claims)"
    )
    assert decide(["no runs"])[0].why == "no runs"
