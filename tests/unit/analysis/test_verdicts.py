"""Verdicts: exact probabilities, what few repeats can show, and how many claims share the doubt."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from dlbench.analysis.curves import Curves, curves, within
from dlbench.analysis.verdicts import Finding, State, Verdict, decide, examine, hypotheses, lacking, p_value, with_note
from dlbench.scenario.claims import Claim, Shape

SIZES = (8, 16, 32, 64, 128, 256)
TIME = (14892, 8282, 5379, 2977, 2300, 2069)
ACCURACY = (0.3282, 0.9106, 0.9381, 0.9464, 0.9465, 0.8907)
LOSS = (1.7422, 0.2614, 0.1765, 0.1490, 0.1497, 0.3073)
FALLS = Claim(claim=Shape.FALLS, column="train_time_s")
SHRINK = Claim(claim=Shape.GAINS_SHRINK, column="train_time_s")
HILL = Claim(claim=Shape.RISES_AND_FALLS, column="train_accuracy")
MIRROR = Claim(claim=Shape.MIRRORS, column="train_loss", of="train_accuracy")
FASTER = Claim(claim=Shape.SPEEDS_UP, column="train_time_s")
BEHIND = Claim(claim=Shape.STARTS_BEHIND, column="train_time_s", series="out", than="up")


def points(values: Sequence[float], places: Sequence[float] = SIZES, spread: float = 0.0, n: int = 1, seed: int = 0):
    generator = np.random.default_rng(seed)
    return [
        (x, (value * (1 + spread * generator.standard_normal(n))).tolist())
        for x, value in zip(places, values, strict=True)
    ]


def one(values: Sequence[float], places: Sequence[float] = SIZES, **noise: float) -> Curves:
    return curves({"": points(values, places, **noise)})


def several(found: Mapping[str, Sequence[float]], places: Sequence[float] = SIZES, **noise: float) -> Curves:
    made = {name: points(values, places, seed=number, **noise) for number, (name, values) in enumerate(found.items())}
    return curves(made)


def alone(claim: Claim, found: Curves) -> Verdict:
    (verdict,) = decide([examine(claim, found)], [[]])
    return verdict


@pytest.mark.parametrize(
    ("claim", "found", "expected"),
    [
        # One order of six values falls at each step, and one of them by less each time.
        (FALLS, one(TIME), 1 / 720),
        (SHRINK, one(TIME), 1 / 720),
        # The two worst at the ends (2), the two best as neighbours between them (3 places x 2), the others (2).
        (HILL, one(ACCURACY), 24 / 720),
        # Counted by hand: the three that belong to the plateau in any order, and one of three at the end.
        (MIRROR, several({"train_loss": LOSS, "train_accuracy": ACCURACY}), 18 / 720),
    ],
)
def test_one_value_at_each_place_has_an_exact_probability(claim: Claim, found: Curves, expected: float) -> None:
    assert p_value(claim, found, hypotheses(claim, found)[0]) == pytest.approx(expected)
    assert examine(claim, found).p == pytest.approx(expected)


def test_three_points_of_one_run_are_too_few() -> None:
    verdict = alone(FALLS, one((150, 127, 82), (1, 2, 4)))
    assert verdict.state is State.CANNOT_BE_TOLD
    assert "p = 0.17, where at most 0.05 would tell" in verdict.why


@pytest.mark.parametrize("n", [2, 3, 5])
def test_repeats_make_a_shape_certain(n: int) -> None:
    for claim, found in (
        (FALLS, one(TIME, spread=0.01, n=n)),
        (SHRINK, one(TIME, spread=0.001, n=n)),
        (HILL, one(ACCURACY, spread=0.005, n=n)),
        (FASTER, one((10, 8, 5), (1, 2, 4), spread=0.01, n=n)),
    ):
        finding = examine(claim, found)
        assert finding.p <= 0.02, claim
        assert not finding.problem, claim
    verdict = alone(FALLS, one(TIME, spread=0.01, n=n))
    assert verdict.state is State.HOLDS
    assert "at most 0.05 is asked" in verdict.why


def test_a_step_within_the_noise_of_its_repeats_is_not_certain() -> None:
    found = curves({"": [(1, [9, 9.1, 9.2, 9.3, 9.4]), (2, [5, 5.1, 5.2, 5.3, 5.4]), (4, [4.9, 5.0, 5.1, 5.2, 5.5])]})
    verdict = alone(FALLS, found)
    assert verdict.state is State.CANNOT_BE_TOLD
    assert "not beyond the noise of its repeats: from 2 to 4" in verdict.why


def test_what_repeats_contradict_does_not_hold() -> None:
    verdict = alone(FALLS, one((10, 12, 8, 6, 5, 4), spread=0.01, n=5))
    assert verdict.state is State.DOES_NOT_HOLD
    assert "from 8 to 16" in verdict.why
    assert "0.0% of resamples" in verdict.why


@pytest.mark.parametrize(
    ("n", "state"), [(1, State.CANNOT_BE_TOLD), (3, State.CANNOT_BE_TOLD), (4, State.DOES_NOT_HOLD)]
)
def test_fewer_than_four_repeats_contradict_nothing(n: int, state: State) -> None:
    verdict = alone(FASTER, one((10, 12), (1, 2), spread=0.001, n=n))
    assert verdict.state is state
    assert (f"{n} repeat" in verdict.why) == (n < 4)


def test_four_repeats_contradict_no_claim_of_five_parts_and_five_do() -> None:
    rising = (4, 5, 6, 7, 8, 9)
    assert alone(FALLS, one(rising, spread=0.001, n=4)).state is State.CANNOT_BE_TOLD
    assert alone(FALLS, one(rising, spread=0.001, n=5)).state is State.DOES_NOT_HOLD


def test_a_contradiction_within_noise_is_none() -> None:
    found = curves({"": [(1, [5.0, 5.2, 5.4, 5.6, 5.8]), (2, [4.9, 5.3, 5.5, 5.7, 5.9])]})
    verdict = alone(FASTER, found)
    assert verdict.state is State.CANNOT_BE_TOLD
    assert "within the noise" in verdict.why


def test_equal_groups_are_hardly_ever_told_apart() -> None:
    generator = np.random.default_rng(1)
    draws = 300
    states = [
        alone(FASTER, curves({"": [(x, np.exp(0.1 * generator.standard_normal(5)).tolist()) for x in (1, 2)]})).state
        for _ in range(draws)
    ]
    for state in (State.HOLDS, State.DOES_NOT_HOLD):
        # 5%, and three standard deviations of counting.
        assert states.count(state) <= draws * 0.05 + 3 * (draws * 0.05 * 0.95) ** 0.5, state


def test_a_difference_between_series_is_not_made_by_the_places() -> None:
    # Time falls with workers in both, and both are the same: neither starts behind.
    same = several({"out": (10, 5, 2), "up": (10, 5, 2)}, (1, 2, 4), spread=0.02, n=5)
    assert alone(BEHIND, same).state is not State.HOLDS
    apart = several({"out": (12, 6, 2), "up": (10, 5, 2)}, (1, 2, 4), spread=0.01, n=5)
    assert alone(BEHIND, apart).state is State.HOLDS
    # Nothing depends on the places, so that "at the first" says nothing.
    flat = several({"out": (10.5, 10.5, 10.5), "up": (10, 10, 10)}, (1, 2, 4), spread=0.02, n=5)
    assert alone(BEHIND, flat).state is not State.HOLDS


@pytest.mark.parametrize(
    ("claim", "found", "said"),
    [
        (HILL, one((1, 2, 1), (1, 2, 4)), "completed runs at 4 places or more; there are 3"),
        (FALLS, one((1,), (1,)), "there is 1"),
        (FALLS, one((3, 3, 3), (1, 2, 4)), "all values are the same"),
        (BEHIND, several({"out": (3, 3), "up": (3, 3)}, (1, 2)), "all values are the same"),
        (FASTER, one((3, 0), (1, 2)), "not above zero"),
        (
            Claim(claim=Shape.OVERTAKES, column="train_time_s", series="out", than="up", beyond=4),
            several({"out": (3, 2), "up": (2, 1)}, (1, 4)),
            "no completed run beyond 4",
        ),
    ],
)
def test_what_cannot_be_tested_says_why_and_does_not_count(claim: Claim, found: Curves, said: str) -> None:
    finding = examine(claim, found)
    assert said in finding.problem
    assert not finding.is_tested
    (verdict,) = decide([finding], [[]])
    assert verdict.state is State.CANNOT_BE_TOLD


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_the_unit_changes_no_verdict(factor: float) -> None:
    for claim, values in ((FALLS, TIME), (SHRINK, TIME), (HILL, ACCURACY)):
        plain = examine(claim, one(values, spread=0.001, n=3))
        scaled = examine(claim, one([factor * value for value in values], spread=0.001, n=3))
        assert scaled.p == plain.p
        assert bool(scaled.problem) == bool(plain.problem)


def test_equal_repeats_divide_by_no_zero() -> None:
    found = curves({"": [(x, [y] * 5) for x, y in zip(SIZES, TIME, strict=True)]})
    assert alone(FALLS, found).state is State.HOLDS


def finding(p: float, **values: object) -> Finding:
    return Finding(FALLS, p, support="from 1 to 2 by +1 s", **values)  # type: ignore[arg-type]


def test_claims_share_the_doubt_by_holms_procedure() -> None:
    verdicts = decide([finding(0.02), finding(0.01), finding(0.04)], [[], [], []])
    # 0.01 against 0.05/3, 0.02 against 0.05/2, 0.04 against 0.05.
    assert [verdict.state for verdict in verdicts] == [State.HOLDS] * 3
    verdicts = decide([finding(0.03), finding(0.01), finding(0.04)], [[], [], []])
    assert [verdict.state for verdict in verdicts] == [State.CANNOT_BE_TOLD, State.HOLDS, State.CANNOT_BE_TOLD]
    assert "at most 0.025 would tell" in verdicts[0].why
    assert "at most 0.025 would tell" in verdicts[2].why


def test_what_was_not_tested_takes_no_share() -> None:
    verdicts = decide([finding(0.04), lacking(FALLS, "no runs")], [[], []])
    assert [verdict.state for verdict in verdicts] == [State.HOLDS, State.CANNOT_BE_TOLD]


def test_what_was_tested_and_is_not_there_takes_its_share() -> None:
    verdicts = decide([finding(0.04), finding(1.0, problem="the medians speak against it")], [[], []])
    assert [verdict.state for verdict in verdicts] == [State.CANNOT_BE_TOLD] * 2


def test_a_mirror_image_holds_only_with_what_it_mirrors() -> None:
    mirror = Finding(MIRROR, 0.001, support="s")
    held = decide([finding(0.001), mirror], [[], [0]])
    assert [verdict.state for verdict in held] == [State.HOLDS, State.HOLDS]
    lost = decide([finding(0.2), mirror], [[], [0]])
    assert lost[1].state is State.CANNOT_BE_TOLD
    assert "p = 0.001" in lost[1].why or "not established" in lost[1].why
    refuted = decide([finding(0.001), Finding(MIRROR, refuted="the same way")], [[], [0]])
    assert refuted[1] == Verdict(State.DOES_NOT_HOLD, "the same way")


def test_a_remark_is_added_to_the_reason() -> None:
    assert with_note(Verdict(State.HOLDS, "a"), "b").why == "a; b"
    assert with_note(Verdict(State.HOLDS, "a"), "").why == "a"


def test_shuffles_within_a_curve_are_what_a_single_curve_is_tested_by() -> None:
    found = one(TIME)
    assert [block.tolist() for block in hypotheses(FALLS, found)[0]] == [block.tolist() for block in within(found)]
