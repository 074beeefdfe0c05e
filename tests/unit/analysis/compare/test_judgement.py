"""The judgement: significance and noise, what few repeats can show, and families of equal arms."""

import math

import numpy as np
import pytest

from dlbench.analysis.compare.judgement import NOISE, Judgement, JudgementCase, Verdict, judge, judge_best


def better(a, b, noise=NOISE, *, lower=False, is_score=False) -> Judgement:
    """Return the judgement of one comparison by itself."""
    return judge([JudgementCase(tuple(a), tuple(b), lower, is_score)], noise)[0]


def test_better_needs_significance_and_more_than_noise():
    base = [1.00, 1.01, 0.99, 1.005, 0.995]
    assert better([value * 1.1 for value in base], base).verdict is Verdict.BETTER
    assert better([value * 1.1 for value in base], base, lower=True).verdict is Verdict.WORSE
    assert better([value / 1.1 for value in base], base, lower=True).verdict is Verdict.BETTER
    # Wholly apart, but by 1.5%: significant and not more than noise.
    near = better([value * 1.015 + 0.006 for value in base], base, 0.05)
    assert near.p <= 0.05
    assert near.verdict is Verdict.CANNOT_BE_TOLD


def test_few_repeats_are_called_too_few_and_never_the_same():
    for count in (1, 2):
        found = better([10.0 + i for i in range(count)], [1.0 + i / 10 for i in range(count)])
        assert (found.verdict, found.p) == (Verdict.TOO_FEW, None)
    assert better([10.0, 11.0, 12.0], [1.0, 1.1, 1.2]).verdict is Verdict.BETTER


def test_comparisons_that_cannot_differ_cost_the_others_nothing():
    apart, few = JudgementCase((2.0, 2.1, 2.2, 2.3), (1.0, 1.1, 1.2, 1.3)), JudgementCase((2.0,), (1.0,))
    verdicts = judge([few, apart, few])
    assert [found.verdict for found in verdicts] == [Verdict.TOO_FEW, Verdict.BETTER, Verdict.TOO_FEW]
    assert verdicts[1].family == 1
    assert verdicts[1].p == verdicts[1].p_alone


def test_a_planned_family_is_corrected_by_holm():
    near = JudgementCase((2.0, 2.1, 2.2), (1.8, 1.95, 2.05))
    alone = judge([near])[0].p
    assert 0.05 < alone < 0.3
    assert [found.p for found in judge([near] * 3)] == pytest.approx([3 * alone] * 3)


FAST, SLOW, SLOWER = (1.00, 1.02, 0.99, 1.01), (1.19, 1.22, 1.21, 1.20), (3.1, 2.9, 3.0, 3.05)


def test_the_best_is_compared_with_all_as_one_of_all_pairs():
    two, three = judge_best([[FAST, SLOW]], lower=True)[0], judge_best([[FAST, SLOW, SLOWER]], lower=True)[0]
    assert two[0].p == pytest.approx(better(FAST, SLOW, lower=True).p, abs=1e-6)
    assert [found.verdict for found in three] == [Verdict.BETTER] * 2
    assert two[0].p < three[0].p < 3 * two[0].p
    # Several groups share the level.
    assert judge_best([[FAST, SLOW]] * 2, lower=True)[1][0].p == pytest.approx(2 * two[0].p)
    assert judge_best([[FAST, SLOW], [FAST]], lower=True)[0][0].p == two[0].p


def test_ratios_to_the_best_have_intervals_where_they_are_ratios():
    close, far = (found.ratio for found in judge_best([[FAST, SLOW, SLOWER]], lower=True)[0])
    assert close.low < close.value < close.high
    assert close.value == pytest.approx(1.2, rel=0.01)
    assert far.value == pytest.approx(3.0, rel=0.01)
    assert judge_best([[FAST, SLOW]], is_score=True)[0][0].ratio is None
    assert judge_best([[FAST, (math.inf,) * 4]], lower=True)[0][0].ratio is None


def test_arms_with_too_few_repeats_are_in_no_family():
    found = judge_best([[FAST, (5.0, 6.0), SLOW]], lower=True)[0]
    assert [one.verdict for one in found] == [Verdict.TOO_FEW, Verdict.BETTER]
    assert found[1].p == judge_best([[FAST, SLOW]], lower=True)[0][0].p
    assert {one.verdict for one in judge_best([[(1.0, 1.1), SLOW, SLOWER]], lower=True)[0]} == {Verdict.TOO_FEW}


def test_arms_that_never_reach_it_are_told_by_ranks_among_all_pairs():
    never = (math.inf,) * 5
    times = [(1.0, 1.1, 1.2, 1.3, 1.4), (2.0, 2.1, 2.2, 2.3, 2.4)]
    found = judge_best([[*times, never]], lower=True)[0]
    assert [one.verdict for one in found] == [Verdict.BETTER] * 2
    assert found[1].p == pytest.approx(3 * 2 / 252)
    # Among 10 pairs not even values that lie wholly apart are significant.
    assert judge_best([[*times, never, never, never]], lower=True)[0][-1].verdict is Verdict.TOO_FEW


def test_equal_scores_show_how_fine_they_are_measured():
    """Two arms that scatter over two neighbouring scores are all the one and all the other in 1 of 32 studies."""
    low, high = (0.9722,) * 3, (0.9750,) * 3
    assert better(high, low, 0.0, is_score=True).verdict is Verdict.CANNOT_BE_TOLD
    assert better((0.99,) * 5, (0.9722, 0.9722, 0.9750, 0.9722, 0.9750), 0.0, is_score=True).verdict is Verdict.BETTER


def test_pairs_show_what_their_spread_hides():
    seeds = [0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.91, 0.93]
    after = [score - 0.004 - 0.0001 * place for place, score in enumerate(seeds)]
    assert judge([JudgementCase(tuple(after), tuple(seeds), is_score=True)], 0.0)[0].verdict is Verdict.CANNOT_BE_TOLD
    assert (
        judge([JudgementCase(tuple(after), tuple(seeds), is_score=True, paired=True)], 0.0)[0].verdict is Verdict.WORSE
    )


@pytest.mark.parametrize("value", [0.0, 1e-12, 1e12, -3.0])
def test_constant_values_are_never_told_apart(value):
    assert better([value] * 8, [value] * 8).verdict is Verdict.CANNOT_BE_TOLD


def test_a_target_that_is_no_longer_reached_is_worse():
    assert better([math.inf] * 5, [1.0, 1.1, 1.2, 1.3, 1.4], lower=True).verdict is Verdict.WORSE
    assert better([math.inf] * 5, [math.inf] * 5, lower=True).verdict is Verdict.CANNOT_BE_TOLD


def test_equal_arms_are_rarely_told_apart():
    generator = np.random.default_rng(6)
    draws = np.exp(0.05 * generator.standard_normal((500, 2, 5)))
    said = [better(a.tolist(), b.tolist(), NOISE).verdict for a, b in draws]
    assert 0 < sum(verdict is not Verdict.CANNOT_BE_TOLD for verdict in said) <= 0.05 * 500


def test_a_family_of_equal_arms_is_rarely_told_apart():
    generator = np.random.default_rng(7)
    draws = np.exp(0.05 * generator.standard_normal((200, 10, 2, 8)))
    wrong = [
        any(
            found.verdict in (Verdict.BETTER, Verdict.WORSE)
            for found in judge([JudgementCase(tuple(a), tuple(b)) for a, b in family])
        )
        for family in draws.tolist()
    ]
    assert sum(wrong) <= 0.05 * 200 + 3 * math.sqrt(0.05 * 0.95 * 200)


def test_a_slowdown_of_a_tenth_is_found():
    generator = np.random.default_rng(8)
    draws = np.exp(0.02 * generator.standard_normal((200, 2, 8)))
    found = [better((0.9 * new).tolist(), base.tolist()).verdict is Verdict.WORSE for new, base in draws]
    assert sum(found) >= 0.95 * 200
