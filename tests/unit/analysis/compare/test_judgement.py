"""The judgement: significance and noise, what few repeats can show, and families of equal arms."""

import math

import numpy as np
import pytest

from dlbench.analysis.compare.judgement import NOISE, JudgementCase, Verdict, better, can_differ, judge, repeats_needed


def test_repeats_needed():
    for family, needed in ((1, 4), (2, 5), (6, 5), (7, 6), (17, 6), (60, 7), (300, 8)):
        assert repeats_needed(family) == needed
        assert can_differ(needed, needed, family)
        assert not can_differ(needed - 1, needed - 1, family)
    for n, m, can in ((2, 2, False), (2, 7, False), (3, 4, False), (3, 5, True), (4, 4, True)):
        assert can_differ(n, m) is can, (n, m)


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
    for count in (1, 2, 3):
        found = better([10.0 + i for i in range(count)], [1.0 + i for i in range(count)])
        assert (found.verdict, found.p) == (Verdict.TOO_FEW, None)


def test_among_many_comparisons_more_repeats_are_needed():
    apart = JudgementCase((2.0, 2.1, 2.2, 2.3, 2.4), (1.0, 1.1, 1.2, 1.3, 1.4))
    assert judge([apart])[0].verdict is Verdict.BETTER
    assert {found.verdict for found in judge([apart] * 7)} == {Verdict.TOO_FEW}
    assert judge([apart] * 7)[0].p == pytest.approx(7 * 2 / 252)


def test_comparisons_that_cannot_differ_cost_the_others_nothing():
    apart, few = JudgementCase((2.0, 2.1, 2.2, 2.3), (1.0, 1.1, 1.2, 1.3)), JudgementCase((2.0,), (1.0,))
    verdicts = judge([few, apart, few])
    assert [found.verdict for found in verdicts] == [Verdict.TOO_FEW, Verdict.BETTER, Verdict.TOO_FEW]
    assert verdicts[1].family == 1


def test_pairs_show_what_their_spread_hides():
    seeds = [0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.91, 0.93]
    after = [score - 0.004 - 0.0001 * place for place, score in enumerate(seeds)]
    assert judge([JudgementCase(tuple(after), tuple(seeds))], 0.0)[0].verdict is Verdict.CANNOT_BE_TOLD
    assert judge([JudgementCase(tuple(after), tuple(seeds), paired=True)], 0.0)[0].verdict is Verdict.WORSE


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
