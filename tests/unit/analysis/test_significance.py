import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dlbench.analysis.significance import (
    EXACT_UP_TO,
    NOISE,
    Case,
    Word,
    a12,
    better,
    can_tell,
    doubled_ranks,
    holm,
    judge,
    mann_whitney,
    repeats_needed,
    signed_rank,
)


def by_counting(a: list[float], b: list[float]) -> float:
    """Return the two-sided p-value of the rank sum by going through every choice of the first group."""
    ranks = stats.rankdata([*a, *b])
    sums = np.array([sum(chosen) for chosen in itertools.combinations(ranks, len(a))])
    found = ranks[: len(a)].sum()
    return min(1.0, 2 * min((sums <= found + 1e-9).mean(), (sums >= found - 1e-9).mean()))


def by_signing(apart: list[float]) -> float:
    """Return the two-sided p-value of the signed rank sum by going through every choice of signs."""
    ranks = stats.rankdata(np.abs(apart))
    sums = np.array([np.dot(ranks, signs) for signs in itertools.product((0, 1), repeat=len(apart))])
    found = ranks[np.array(apart) > 0].sum()
    return min(1.0, 2 * min((sums <= found + 1e-9).mean(), (sums >= found - 1e-9).mean()))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 3), (4, 4), (5, 5), (3, 9), (12, 4), (15, 15)])
def test_without_ties_p_is_what_scipy_calls_exact(n, m):
    generator = np.random.default_rng(n * 100 + m)
    for _ in range(5):
        a, b = generator.normal(size=n).tolist(), generator.normal(0.5, size=m).tolist()
        assert mann_whitney(a, b) == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue)


@pytest.mark.parametrize(("n", "m"), [(2, 3), (4, 4), (5, 5), (3, 7)])
def test_with_ties_p_counts_every_choice(n, m):
    generator = np.random.default_rng(n * 10 + m)
    for _ in range(10):
        a, b = generator.integers(0, 3, size=n).tolist(), generator.integers(0, 4, size=m).tolist()
        assert mann_whitney(a, b) == pytest.approx(by_counting(a, b))


def test_many_values_are_approximated_as_scipy_does_it():
    generator = np.random.default_rng(3)
    a, b = generator.integers(0, 9, size=EXACT_UP_TO).tolist(), generator.integers(1, 10, size=20).tolist()
    assert mann_whitney(a, b) == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue)


def test_the_approximation_meets_the_exact_value():
    generator = np.random.default_rng(4)
    a, b = generator.normal(size=16).tolist(), generator.normal(0.8, size=15).tolist()
    exact = stats.mannwhitneyu(a, b, method="exact").pvalue
    assert mann_whitney(a, b) == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize(("n", "p"), [(2, 1 / 3), (3, 0.1), (4, 2 / 70), (5, 2 / 252)])
def test_the_smallest_p_of_few_repeats(n, p):
    assert mann_whitney(list(range(n)), list(range(10, 10 + n))) == pytest.approx(p)


def test_ties_do_not_make_three_repeats_significant():
    # The normal approximation, corrected for ties, would say 0.047.
    assert mann_whitney([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]) == pytest.approx(0.1)


def test_p_does_not_depend_on_which_group_is_first_or_on_scale():
    a, b = [3.0, 1.0, 2.0, 8.0], [5.0, 9.0, 7.0, 6.0, 4.0]
    assert mann_whitney(a, b) == mann_whitney(b, a)
    for scale in (1e-12, 1e12):
        assert mann_whitney([scale * x for x in a], [scale * x for x in b]) == mann_whitney(a, b)


def test_what_was_never_reached_is_later_than_all_else():
    assert mann_whitney([math.inf] * 5, [1.0, 2.0, 3.0, 4.0, math.inf]) == pytest.approx(
        mann_whitney([9.0] * 5, [1.0, 2.0, 3.0, 4.0, 9.0])
    )
    assert mann_whitney([math.inf] * 5, [math.inf] * 5) == 1.0


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], []), ([math.nan], [1.0])])
def test_no_p_without_numbers(a, b):
    with pytest.raises(ValueError, match="numbers"):
        mann_whitney(a, b)
    with pytest.raises(ValueError, match="numbers"):
        a12(a, b)


def test_equal_values_are_no_difference():
    assert mann_whitney([2.0] * 5, [2.0] * 5) == 1.0
    assert mann_whitney([2.0] * 20, [2.0] * 20) == 1.0


def test_ranks_of_equal_values_are_shared():
    assert doubled_ranks([5.0, 1.0, 1.0, 9.0]).tolist() == [6, 3, 3, 8]


@pytest.mark.parametrize("n", [1, 5, 6, 9])
def test_signed_ranks_without_ties_are_what_scipy_calls_exact(n):
    generator = np.random.default_rng(n)
    a, b = generator.normal(size=n).tolist(), generator.normal(0.3, size=n).tolist()
    assert signed_rank(a, b) == pytest.approx(stats.wilcoxon(a, b, method="exact").pvalue)


def test_signed_ranks_with_ties_count_every_choice_of_signs():
    apart = [1.0, 1.0, -1.0, 2.0, 3.0, 3.0, -2.0]
    assert signed_rank(apart, [0.0] * 7) == pytest.approx(by_signing(apart))


def test_pairs_that_are_equal_are_left_out_and_rounding_is_no_difference():
    assert signed_rank([0.1 + 0.2, 5.0], [0.3, 5.0]) == 1.0
    # 0.9 - 0.8 and 0.8 - 0.7 are the same difference, though not to the last bit.
    assert signed_rank([0.9, 0.8, 0.3], [0.8, 0.7, 0.6]) == pytest.approx(by_signing([1.0, 1.0, -3.0]))


def test_five_pairs_can_never_be_significant_and_six_can():
    assert signed_rank([2.0, 3, 4, 5, 6], [1.0] * 5) == pytest.approx(0.0625)
    assert signed_rank([2.0, 3, 4, 5, 6, 7], [1.0] * 6) == pytest.approx(0.03125)


def test_many_pairs():
    generator = np.random.default_rng(5)
    a, b = generator.normal(size=60).tolist(), generator.normal(0.4, size=60).tolist()
    assert signed_rank(a, b) == pytest.approx(stats.wilcoxon(a, b).pvalue, rel=0.05)


@pytest.mark.parametrize(("a", "b"), [([], []), ([1.0], [1.0, 2.0]), ([math.inf], [1.0]), ([math.nan], [1.0])])
def test_no_pairs_without_numbers(a, b):
    with pytest.raises(ValueError, match="pairs"):
        signed_rank(a, b)


def test_effect_sizes():
    assert a12([3.0, 4.0], [1.0, 2.0]) == 1.0
    assert a12([1.0, 2.0], [1.0, 2.0]) == 0.5
    # Of 3 x 2 pairs two are above and one is equal.
    assert a12([1.0, 2.0, 3.0], [2.0, 4.0]) == pytest.approx((1 + 0.5) / 6)


def test_holm_by_hand():
    # 0.01 x 4; 0.02 x 3; 0.03 x 2; 0.04 x 1 is below the one before it.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx((0.06, 0.04, 0.06, 0.06))
    assert holm([0.6, 0.7]) == (1.0, 1.0)
    assert holm([]) == ()
    assert holm([0.03]) == (0.03,)


@pytest.mark.parametrize(("family", "needed"), [(1, 4), (2, 5), (6, 5), (7, 6), (17, 6), (60, 7), (300, 8)])
def test_repeats_needed(family, needed):
    assert repeats_needed(family) == needed
    assert can_tell(needed, needed, family)
    assert not can_tell(needed - 1, needed - 1, family)


def test_better_needs_significance_and_more_than_noise():
    base = [1.00, 1.01, 0.99, 1.005, 0.995]
    assert better([value * 1.1 for value in base], base).word is Word.BETTER
    assert better([value * 1.1 for value in base], base, lower=True).word is Word.WORSE
    assert better([value / 1.1 for value in base], base, lower=True).word is Word.BETTER
    # Wholly apart, but by 1.5%: significant and not more than noise.
    near = better([value * 1.015 + 0.006 for value in base], base, 0.05)
    assert near.p <= 0.05
    assert near.word is Word.CANNOT_BE_TOLD


def test_few_repeats_are_called_too_few_and_never_the_same():
    for count in (1, 2, 3):
        found = better([10.0 + i for i in range(count)], [1.0 + i for i in range(count)])
        assert (found.word, found.p) == (Word.TOO_FEW, None)


def test_among_many_comparisons_more_repeats_are_needed():
    apart = Case((2.0, 2.1, 2.2, 2.3, 2.4), (1.0, 1.1, 1.2, 1.3, 1.4))
    assert judge([apart])[0].word is Word.BETTER
    assert {verdict.word for verdict in judge([apart] * 7)} == {Word.TOO_FEW}
    assert judge([apart] * 7)[0].p == pytest.approx(7 * 2 / 252)


def test_comparisons_that_cannot_differ_cost_the_others_nothing():
    apart, few = Case((2.0, 2.1, 2.2, 2.3), (1.0, 1.1, 1.2, 1.3)), Case((2.0,), (1.0,))
    verdicts = judge([few, apart, few])
    assert [verdict.word for verdict in verdicts] == [Word.TOO_FEW, Word.BETTER, Word.TOO_FEW]
    assert verdicts[1].family == 1


def test_pairs_show_what_their_spread_hides():
    seeds = [0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.91, 0.93]
    after = [score - 0.004 - 0.0001 * place for place, score in enumerate(seeds)]
    assert judge([Case(tuple(after), tuple(seeds))], 0.0)[0].word is Word.CANNOT_BE_TOLD
    assert judge([Case(tuple(after), tuple(seeds), paired=True)], 0.0)[0].word is Word.WORSE


@pytest.mark.parametrize("value", [0.0, 1e-12, 1e12, -3.0])
def test_constant_values_are_never_told_apart(value):
    assert better([value] * 8, [value] * 8).word is Word.CANNOT_BE_TOLD


def test_a_target_that_is_no_longer_reached_is_worse():
    assert better([math.inf] * 5, [1.0, 1.1, 1.2, 1.3, 1.4], lower=True).word is Word.WORSE
    assert better([math.inf] * 5, [math.inf] * 5, lower=True).word is Word.CANNOT_BE_TOLD


def test_equal_arms_are_rarely_told_apart():
    generator = np.random.default_rng(6)
    draws = np.exp(0.05 * generator.standard_normal((500, 2, 5)))
    said = [better(a.tolist(), b.tolist(), NOISE).word for a, b in draws]
    assert 0 < sum(word is not Word.CANNOT_BE_TOLD for word in said) <= 0.05 * 500


def test_a_family_of_equal_arms_is_rarely_told_apart():
    generator = np.random.default_rng(7)
    draws = np.exp(0.05 * generator.standard_normal((200, 10, 2, 8)))
    wrong = [
        any(
            verdict.word in (Word.BETTER, Word.WORSE)
            for verdict in judge([Case(tuple(a), tuple(b)) for a, b in family])
        )
        for family in draws.tolist()
    ]
    assert sum(wrong) <= 0.05 * 200 + 3 * math.sqrt(0.05 * 0.95 * 200)


def test_a_slowdown_of_a_tenth_is_found():
    generator = np.random.default_rng(8)
    draws = np.exp(0.02 * generator.standard_normal((200, 2, 8)))
    found = [better((0.9 * new).tolist(), base.tolist()).word is Word.WORSE for new, base in draws]
    assert sum(found) >= 0.95 * 200
