"""The judge: what is shown to keep, what to lose, what is open and what would tell; planned pairs of two studies."""

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from dlbench.analysis import judge as module
from dlbench.analysis.judge import MOST_REPEATS, POWER, Family, Judgement, Verdict, judge, judge_pairs
from dlbench.scenario.metrics import BUILT_IN, TIME_TO_TARGET, TRAIN_TIME, Metric

ACCURACY, LOSS = BUILT_IN["validation_accuracy"], BUILT_IN["validation_loss"]
KEEPS, LOSES, OPEN = Verdict.KEEPS, Verdict.LOSES, Verdict.OPEN


def values(*numbers: float) -> dict[tuple[str, ...], float]:
    return {(f"{place:06}", str(place)): number for place, number in enumerate(numbers)}


def judged(metric: Metric, *arms: tuple[float, ...]) -> Family:
    return judge([values(*arm) for arm in arms], metric)


def verdicts(metric: Metric, *arms: tuple[float, ...]) -> list[Verdict]:
    return [one.verdict for one in judged(metric, *arms).judgements]


QUIET = (0.950, 0.951, 0.949, 0.9505, 0.9495)
SECONDS = (10.0, 10.05, 9.95, 10.02, 9.98)


@pytest.mark.parametrize(
    ("metric", "arms", "expected"),
    [
        (ACCURACY, [QUIET], [KEEPS]),
        (ACCURACY, [QUIET, QUIET], [KEEPS, KEEPS]),
        (ACCURACY, [QUIET, tuple(v - 0.002 for v in QUIET)], [KEEPS, KEEPS]),
        (ACCURACY, [QUIET, tuple(v - 0.05 for v in QUIET)], [KEEPS, LOSES]),
        # Not significant, and not shown to be within a point either.
        (ACCURACY, [(0.95, 0.96, 0.94), (0.93, 0.97, 0.92)], [OPEN, OPEN]),
        (ACCURACY, [(0.95,), (0.50,)], [OPEN, OPEN]),
        (ACCURACY, [(0.95, 0.951), (0.50, 0.502)], [OPEN, OPEN]),
        (TRAIN_TIME, [SECONDS, tuple(1.01 * v for v in SECONDS)], [KEEPS, KEEPS]),
        (TRAIN_TIME, [SECONDS, tuple(1.5 * v for v in SECONDS)], [KEEPS, LOSES]),
        (LOSS, [(0.10, 0.101, 0.099), (0.2, 0.21, 0.19)], [KEEPS, LOSES]),
        # Repeats that never differ are no lack of noise where nothing does.
        (TRAIN_TIME, [(5.0,) * 3, (5.0,) * 3, (6.0,) * 3], [KEEPS, KEEPS, LOSES]),
        # A loss of zero has no logarithm.
        (LOSS, [(0.0, 0.0, 0.0), (0.5, 0.51, 0.49)], [KEEPS, LOSES]),
    ],
)  # fmt: skip
def test_verdicts(metric: Metric, arms: list[tuple[float, ...]], expected: list[Verdict]) -> None:
    assert verdicts(metric, *arms) == expected


def test_an_arm_that_keeps_says_by_how_much_it_is_behind_at_worst() -> None:
    _, behind = judged(ACCURACY, QUIET, tuple(v - 0.003 for v in QUIET)).judgements
    assert behind.verdict is KEEPS
    assert behind.gain == pytest.approx(-0.003)
    assert behind.worst is not None
    assert -0.01 <= behind.worst <= behind.gain


def test_at_worst_is_against_whichever_arm_may_be_the_best() -> None:
    median, mean, behind = (
        (0.947, 0.948, 0.951, 0.951, 0.951), (0.9505, 0.9505, 0.9505, 0.952, 0.952), (0.946, 0.947, 0.949, 0.950, 0.950)
    )  # fmt: skip
    judgement = judged(ACCURACY, median, mean, behind).judgements[2]
    assert (judgement.verdict, judgement.against) == (KEEPS, 0)
    assert judgement.worst is not None
    assert judgement.worst <= sum(behind) / 5 - sum(mean) / 5 < judgement.gain


def test_of_equal_medians_the_better_mean_is_the_best() -> None:
    for metric, best in ((ACCURACY, 1), (LOSS, 0)):
        assert judged(metric, (0.94, 0.95, 0.95), (0.95, 0.95, 0.96)).best == best


@pytest.mark.parametrize("arms", [2, pytest.param(5, marks=pytest.mark.soak)])
def test_what_is_open_says_what_would_tell_and_that_many_repeats_do(arms: int) -> None:
    generator = np.random.default_rng(0)
    num_open = told = 0
    for _ in range(300 // arms):
        means = 0.95 - generator.uniform(0.0, 0.02, (arms, 1))
        draw = means + 0.004 * generator.standard_normal((arms, 5 + MOST_REPEATS))
        for place, first in enumerate(judged(ACCURACY, *draw[:, :5].tolist()).judgements):
            if first.verdict is OPEN:
                num_open += 1
                # To keep or to lose: of two that scatter little one of these is never far.
                assert first.further
                again = judged(ACCURACY, *draw[:, : 5 + first.further].tolist()).judgements[place]
                told += again.verdict is not OPEN
    assert num_open > 50
    assert told / num_open == pytest.approx(POWER, abs=0.12)


def test_further_repeats_are_those_of_what_is_open_of_what_it_is_against_and_of_the_best() -> None:
    random = np.random.default_rng(0)
    # The third arm scores less than the best, and of few repeats no one knows by how much.
    family = judged(
        ACCURACY,
        *(tuple(random.normal(*arm)) for arm in ((0.95, 0.001, 40), (0.9425, 0.001, 40))),
        (0.940, 0.950, 0.958),
        (0.2, 0.2, 0.2),
    )
    assert [one.verdict for one in family.judgements] == [OPEN, OPEN, OPEN, LOSES]
    assert family.judgements[1].against == 2
    assert family.unsettled == [0, 1, 2]
    assert judged(ACCURACY, QUIET, QUIET).unsettled == []


def test_arms_of_the_same_repeats_are_paired_beside_one_of_fewer() -> None:
    noise = np.random.default_rng(0).normal(0.0, 0.03, 20)
    near = [tuple(0.95 + noise), tuple(0.949 + noise + 0.001 * np.random.default_rng(1).standard_normal(20))]
    few = tuple(0.95 + noise[:6])
    alone, beside = judged(ACCURACY, *near), judged(ACCURACY, *near, few)
    assert [judgement.verdict for judgement in alone.judgements] == [KEEPS, KEEPS]
    for found in (alone, beside):
        assert found.pair(1, 0).worst == pytest.approx(-0.002, abs=0.001)


def test_what_is_open_may_be_worse_by_more_than_the_margin_by_the_interval_that_is_shown() -> None:
    random, num_open = np.random.default_rng(0), 0
    for _ in range(60):
        for judgement in judged(ACCURACY, *map(tuple, random.normal(0.9, 0.006, (4, 5)))).judgements:
            if judgement.verdict is OPEN:
                num_open += 1
                assert judgement.worst is not None
                assert judgement.worst < -ACCURACY.margin
    assert num_open > 100


def test_the_smallest_difference_that_is_named_is_found_with_the_power() -> None:
    found = judged(ACCURACY, (0.95, 0.94, 0.96, 0.955), (0.947, 0.957, 0.943, 0.945)).judgements[1]
    assert found.detectable is not None
    generator, error, freedom = np.random.default_rng(1), found.tests.error[0], found.tests.freedom[0]
    estimates, errors = generator.standard_normal(4000), np.sqrt(generator.chisquare(freedom, 4000) / freedom)
    needed = stdtrit(freedom, 1 - found.level)
    assert np.mean(found.detectable / error + estimates > needed * errors) == pytest.approx(POWER, abs=0.05)


def test_hopeless_questions_name_no_number_of_repeats() -> None:
    found = judged(ACCURACY, (0.5, 0.9, 0.1, 0.7), (0.9, 0.1, 0.7, 0.5)).judgements[1]
    assert (found.verdict, found.further) == (OPEN, None)
    assert MOST_REPEATS == 100


def test_arms_far_behind_do_not_count_against_those_that_are_near() -> None:
    near = [QUIET, tuple(v - 0.0045 for v in (0.951, 0.949, 0.9505, 0.9495, 0.950))]
    far = [tuple(v - 0.3 - 0.01 * place for v in QUIET) for place in range(12)]
    assert verdicts(ACCURACY, *near, *far)[:2] == [KEEPS, KEEPS]
    assert set(verdicts(ACCURACY, *near, *far)[2:]) == {LOSES}


def test_pairs_by_repeat_show_what_their_spread_hides() -> None:
    seeds = (0.90, 0.92, 0.94, 0.95, 0.96)
    behind = tuple(score - 0.004 - 0.0001 * place for place, score in enumerate(seeds))
    assert verdicts(ACCURACY, seeds, behind) == [KEEPS, KEEPS]
    apart = {(f"{9 - place:06}", "x"): score for place, score in enumerate(behind)}
    assert [one.verdict for one in judge([values(*seeds), apart], ACCURACY).judgements] == [OPEN, OPEN]


@pytest.mark.parametrize("arms", [[], [()], [QUIET, ()], [QUIET, (0.9, math.inf)], [(math.nan, 0.5)]])
def test_a_family_needs_finite_values(arms: list[tuple[float, ...]]) -> None:
    with pytest.raises(ValueError, match="finite values of each arm"):
        judged(ACCURACY, *arms)


def pair(new: tuple[float, ...], base: tuple[float, ...], metric: Metric = TRAIN_TIME) -> Judgement:
    return judge_pairs([(values(*new), values(*base), metric)])[0]


def test_a_planned_pair_is_better_worse_or_keeps() -> None:
    slower, same, faster = (tuple(factor * v for v in SECONDS) for factor in (1.1, 1.005, 0.9))
    assert [(one.verdict, one.is_better) for one in (pair(new, SECONDS) for new in (slower, same, faster))] == [
        (LOSES, False), (KEEPS, False), (KEEPS, True),
    ]  # fmt: skip
    assert pair((10.0, 14.0, 8.0), (11.0, 9.0, 13.0)).verdict is OPEN


def test_few_repeats_of_a_pair_show_nothing_and_cost_the_others_nothing() -> None:
    slower = tuple(1.1 * v for v in SECONDS)
    few = (values(2.0), values(1.0), TRAIN_TIME)
    found = judge_pairs([few, (values(*slower), values(*SECONDS), TRAIN_TIME), few])
    assert [one.verdict for one in found] == [OPEN, LOSES, OPEN]
    assert found[1].family == 1


def test_a_target_that_is_no_longer_reached_is_told_by_ranks() -> None:
    never, times = (math.inf,) * 5, (1.0, 1.1, 1.2, 1.3, 1.4)
    assert pair(never, times, TIME_TO_TARGET).verdict is LOSES
    assert pair(times, never, TIME_TO_TARGET).is_better
    assert pair(never, never, TIME_TO_TARGET).verdict is OPEN


def test_a_planned_family_is_corrected_by_holm() -> None:
    near = (values(2.0, 2.1, 2.2), values(1.8, 1.95, 2.05), TRAIN_TIME)
    alone = judge_pairs([near])[0].p
    assert alone is not None
    assert judge_pairs([near] * 3)[0].p == pytest.approx(min(1.0, 3 * alone))


def test_further_repeats_of_many_arms_are_counted_against_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    normal = np.random.default_rng(0).standard_normal((40, 6))
    arms = [tuple(np.exp(0.01 * arm[0] + 0.02 * arm[1:])) for arm in normal]
    found = judged(TRAIN_TIME, *arms).judgements
    monkeypatch.setattr(module, "_NEAREST", len(arms))
    assert sum(one.further is not None for one in found) > 20
    assert [one.further for one in found] == [one.further for one in judged(TRAIN_TIME, *arms).judgements]
