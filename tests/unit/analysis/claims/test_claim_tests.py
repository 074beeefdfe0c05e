"""Tests of claims: exact probabilities, what few repeats can show, and how many claims share the level."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from dlbench.analysis.claims.claim_tests import (
    FORMS,
    ClaimState,
    ClaimTest,
    ClaimVerdict,
    Curve,
    decide,
    examine,
    lacking,
    trend,
    umbrella,
)
from dlbench.scenario.claims import Claim, Shape
from tests.unit.analysis.claims.made import SIZES, claim, curve, curves

HOLDS, NOT, UNKNOWN = ClaimState.HOLDS, ClaimState.DOES_NOT_HOLD, ClaimState.CANNOT_BE_TOLD
TIME = (14892, 8282, 5379, 2977, 2300, 2069)
ACCURACY = (0.3282, 0.9106, 0.9381, 0.9464, 0.9465, 0.8907)
LOSS = (1.7422, 0.2614, 0.1765, 0.1490, 0.1497, 0.3073)


FALLS, SHRINK, FASTER = claim(Shape.FALLS), claim(Shape.GAINS_SHRINK), claim(Shape.SPEEDS_UP)
HILL, MIRROR = claim(Shape.RISES_AND_FALLS, "train_accuracy"), claim(Shape.MIRRORS, "train_loss")
BEHIND = claim(Shape.STARTS_BEHIND)


def state(asked: Claim, found: Mapping[str, Curve]) -> ClaimState:
    return verdict(asked, found).state


def verdict(asked: Claim, found: Mapping[str, Curve]) -> ClaimVerdict:
    (made,) = decide([examine(asked, found)], [[]])
    return made


def margins(shape: Shape, *values: Sequence[float]) -> list[float]:
    asked = claim(shape, **({"beyond": 4.0} if shape is Shape.OVERTAKES else {}))
    found = [curve(own, (1, 2, 4, 8, 16, 32)) for own in values]
    return [round(part.margin, 9) for part in FORMS[shape].parts(asked, found)]


def test_every_claim_has_a_form_and_parts_by_hand() -> None:
    assert set(FORMS) == set(Shape)
    for shape, values, expected in (
        (Shape.FALLS, [[9, 5, 2, 1]], [4, 3, 1]),
        (Shape.FALLS, [[9, 5, 6, 1]], [4, -1, 5]),
        (Shape.GAINS_SHRINK, [[9, 5, 2, 1]], [1, 2, 1]),
        (Shape.GAINS_SHRINK, [[9, 6, 2, 1]], [-1, 3, 1]),
        # Gains that shrink below nothing are none.
        (Shape.GAINS_SHRINK, [[9, 5, 4, 5]], [3, 2, -1]),
        (Shape.RISES_AND_FALLS, [[1, 5, 7, 8, 4]], [6, 3]),
        # A single peak is no plateau: its better neighbour counts.
        (Shape.RISES_AND_FALLS, [[1, 2, 9, 2, 3]], [1, -1]),
        (Shape.MIRRORS, [[9, 5, 2, 4], [1, 3, 8, 6]], [4, 3, 2]),
        (Shape.MIRRORS, [[9, 5, 2, 1], [1, 3, 8, 6]], [4, 3, -1]),
        # 0.1 and 0.2 are less than a twentieth of the largest steps: flat, whichever way they go.
        (Shape.MIRRORS, [[9, 5, 5.1, 8], [1, 5, 5.1, 2]], [4, 2.9]),
        (Shape.SPEEDS_UP, [[10, 7, 5]], [5]),
        (Shape.STARTS_BEHIND, [[10, 7], [9, 9]], [1]),
        (Shape.CLOSES_IN, [[10, 7, 6], [5, 5, 5]], [5, 0.8]),
        (Shape.OVERTAKES, [[9, 9, 9, 4, 2], [5, 5, 5, 5, 5]], [1, 3]),
        (Shape.SLIGHTLY_BETTER, [[0.9, 0.5, 0.92]], [0.02, 0.03]),
        (Shape.SLIGHTLY_BETTER, [[0.9, 0.5, 0.97]], [0.07, -0.02]),
    ):
        assert margins(shape, *values) == pytest.approx(expected), (shape, values)


def test_one_value_at_each_place_has_an_exact_probability() -> None:
    for asked, found, expected in (
        # One order of six values falls at each step.
        (FALLS, {"": curve(TIME)}, 1 / 720),
        (SHRINK, {"": curve(TIME)}, 1 / 720),
        # Counted with the statistic written out below.
        (HILL, {"": curve(ACCURACY)}, 10 / 720),
        # One exchange of neighbours in 720 orders: itself, the 5 of which it is one, and no exchange.
        (MIRROR, curves({"train_loss": LOSS, "train_accuracy": ACCURACY}), 6 / 720),
    ):
        assert examine(asked, found).p == pytest.approx(expected), asked
        assert state(asked, found) is HOLDS


def test_the_trend_counts_every_order() -> None:
    values = (3.0, 1.0, 2.0, 2.0, 0.0)
    scores = np.arange(5)
    orders = np.array([np.dot(scores, order) for order in itertools.permutations(values)])
    ranks = np.array([np.dot(scores, order) for order in itertools.permutations((5.0, 2.0, 3.5, 3.5, 1.0))])
    assert len(orders) == 120
    assert trend(values, scores) == pytest.approx((ranks <= np.dot(scores, (5.0, 2.0, 3.5, 3.5, 1.0)) + 1e-9).mean())


def test_an_umbrella_counts_every_order() -> None:
    """Against the definition: pairs that rise before the peak and fall after it, standardised, the largest peak."""

    def statistic(values: Sequence[float]) -> float:
        found = []
        for peak in range(1, 5):
            pairs = sum(values[i] < values[j] for i, j in itertools.combinations(range(peak + 1), 2))
            pairs += sum(values[i] > values[j] for i, j in itertools.combinations(range(peak, 6), 2))
            mean, deviation = moments[peak]
            found.append((pairs - mean) / deviation)
        return max(found)

    every = list(itertools.permutations(range(6)))
    counts = {
        peak: [
            sum(o[i] < o[j] for i, j in itertools.combinations(range(peak + 1), 2))
            + sum(o[i] > o[j] for i, j in itertools.combinations(range(peak, 6), 2))
            for o in every
        ]
        for peak in range(1, 5)
    }
    # Mean and deviation over all orders are what the published formula must give.
    moments = {peak: (float(np.mean(own)), float(np.std(own))) for peak, own in counts.items()}
    observed = statistic(ACCURACY)
    expected = np.mean([statistic(order) >= observed - 1e-9 for order in every])
    assert umbrella(curve(ACCURACY)) == pytest.approx(expected)
    assert umbrella(curve(TIME)) > 0.05


def test_repeats_make_a_shape_certain() -> None:
    for n in (2, 3, 5):
        for asked, found in (
            (FALLS, {"": curve(TIME, spread=0.01, n=n)}),
            (SHRINK, {"": curve(TIME, spread=0.001, n=n)}),
            (HILL, {"": curve(ACCURACY, spread=0.005, n=n)}),
            (MIRROR, curves({"train_loss": LOSS, "train_accuracy": ACCURACY}, spread=0.001, n=n)),
        ):
            assert state(asked, found) is HOLDS, (asked, n)
        level = {"": curve((10, 8, 5), (1, 2, 4), spread=0.01, n=n)}
        assert state(FASTER, level) is (HOLDS if n > 2 else UNKNOWN)
    equal = {"": {x: [y] * 5 for x, y in zip(SIZES, TIME, strict=True)}}
    assert state(FALLS, equal) is HOLDS


def test_three_points_of_one_run_are_too_few() -> None:
    assert examine(FALLS, {"": curve((150, 127, 82), (1, 2, 4))}).p == pytest.approx(1 / 6)
    assert state(FALLS, {"": curve((150, 127, 82), (1, 2, 4))}) is UNKNOWN


def test_a_step_within_the_noise_of_its_repeats_is_not_certain() -> None:
    found = {1: [9, 9.1, 9.2, 9.3, 9.4], 2: [5, 5.1, 5.2, 5.3, 5.4], 4: [4.9, 5.0, 5.1, 5.2, 5.5]}
    assert examine(FALLS, {"": found}).p < 0.001
    made = verdict(FALLS, {"": found})
    assert made.state is UNKNOWN
    assert "from 2 to 4" in made.why


def test_what_repeats_contradict_does_not_hold() -> None:
    made = verdict(FALLS, {"": curve((10, 12, 8, 6, 5, 4), spread=0.01, n=5)})
    assert made.state is NOT
    assert "from 8 to 16" in made.why
    # Too few repeats contradict nothing, with more parts more are needed.
    for n, expected in ((1, UNKNOWN), (2, UNKNOWN), (3, NOT), (4, NOT)):
        assert state(FASTER, {"": curve((10, 12), (1, 2), spread=0.001, n=n)}) is expected, n
    for n, expected in ((4, UNKNOWN), (5, NOT)):
        assert state(FALLS, {"": curve((4, 5, 6, 7, 8, 9), spread=0.001, n=n)}) is expected, n
    within = {1: [5.0, 5.2, 5.4, 5.6, 5.8], 2: [4.9, 5.3, 5.5, 5.7, 5.9]}
    assert state(FASTER, {"": within}) is UNKNOWN
    same = curves({"train_loss": (1, 2, 3, 2), "train_accuracy": (1, 2, 3, 2)}, spread=0.001, n=5)
    assert state(MIRROR, same) is NOT


def test_equal_groups_are_hardly_ever_told_apart() -> None:
    generator = np.random.default_rng(1)
    draws = 200
    found = [
        state(FASTER, {"": {x: np.exp(0.1 * generator.standard_normal(5)).tolist() for x in (1, 2)}})
        for _ in range(draws)
    ]
    for one in (HOLDS, NOT):
        assert found.count(one) <= binom.ppf(0.999, draws, 0.05), one


def test_two_series_are_compared_at_their_places() -> None:
    places = (1, 2, 4)
    same = curves({"out": (10, 5, 2), "up": (10, 5, 2)}, places, spread=0.02, n=5)
    assert state(BEHIND, same) is UNKNOWN
    apart = curves({"out": (12, 6, 2), "up": (10, 5, 2)}, places, spread=0.01, n=5)
    assert state(BEHIND, apart) is HOLDS
    assert state(claim(Shape.CLOSES_IN), apart) is HOLDS
    assert state(claim(Shape.CLOSES_IN), curves({"out": (11, 6, 3), "up": (10, 5, 2)}, places, spread=0.01, n=5)) is NOT


def test_what_is_claimed_of_every_series_has_the_parts_of_each() -> None:
    rising = {"up": curve((9, 5, 2), spread=0.01, n=5), "out": curve((9, 10, 11), spread=0.01, n=5)}
    made = verdict(FALLS, rising)
    assert made.state is NOT
    assert "out, from 8 to 16" in made.why
    assert state(FALLS, {**rising, "out": curve((9, 7, 3), spread=0.01, n=5)}) is HOLDS


def test_what_cannot_be_tested_does_not_count() -> None:
    for asked, found, said in (
        (HILL, {"": curve((1, 2, 1))}, "4 places"),
        (FALLS, {"": curve((1,))}, "there is 1"),
        (FALLS, {"": curve((3, 3, 3))}, "the same"),
        (BEHIND, curves({"out": (3, 3), "up": (3, 3)}), "the same"),
        (FASTER, {"": curve((3, 0))}, "not above zero"),
        (claim(Shape.OVERTAKES), curves({"out": (3, 2), "up": (2, 1)}, (1, 4)), "beyond 4"),
    ):
        test = examine(asked, found)
        assert said in test.problem, asked
        assert not test.is_tested
        assert state(asked, found) is UNKNOWN


def test_the_unit_changes_no_verdict() -> None:
    for asked, values in ((FALLS, TIME), (SHRINK, TIME), (HILL, ACCURACY)):
        plain = examine(asked, {"": curve(values, spread=0.001, n=3)})
        for factor in (1e-12, 1e12):
            scaled = examine(asked, {"": curve([factor * value for value in values], spread=0.001, n=3)})
            assert (scaled.p, bool(scaled.problem)) == (plain.p, bool(plain.problem)), (asked, factor)


def test_claims_share_the_level_by_holms_procedure() -> None:
    def states(*tests: ClaimTest) -> list[ClaimState]:
        return [found.state for found in decide(tests, [[] for _ in tests])]

    # 0.01 x 3, 0.02 x 2, 0.04 x 1.
    assert states(*(ClaimTest(FALLS, p) for p in (0.02, 0.01, 0.04))) == [HOLDS] * 3
    assert states(*(ClaimTest(FALLS, p) for p in (0.03, 0.01, 0.04))) == [UNKNOWN, HOLDS, UNKNOWN]
    # What was not tested takes no share, what was tested and is not there does.
    assert states(ClaimTest(FALLS, 0.04), lacking(FALLS, "no runs")) == [HOLDS, UNKNOWN]
    assert states(ClaimTest(FALLS, 0.04), ClaimTest(FALLS, problem="the medians")) == [UNKNOWN] * 2


def test_a_mirror_image_holds_only_with_what_it_mirrors() -> None:
    mirror = ClaimTest(MIRROR, 0.001)
    assert [found.state for found in decide([ClaimTest(HILL, 0.001), mirror], [[], [0]])] == [HOLDS, HOLDS]
    lost = decide([ClaimTest(HILL, 0.2), replace(mirror, note="1 run failed")], [[], [0]])
    assert lost[1].state is UNKNOWN
    assert lost[1].why.endswith("is not established; 1 run failed")
    refuted = decide([ClaimTest(HILL, 0.001), ClaimTest(MIRROR, refuted="the same way")], [[], [0]])
    assert refuted[1] == ClaimVerdict(NOT, "the same way")
