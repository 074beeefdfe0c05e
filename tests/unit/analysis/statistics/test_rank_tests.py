"""Rank tests: against every arrangement counted one by one, and against scipy's own tests of one pair at a time."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dlbench.analysis.statistics.rank_tests import EXACT_UP_TO, a12, holm, mann_whitney


def by_counting(a: list[float], b: list[float]) -> float:
    """Return the two-sided p-value of the rank sum by going through every choice of the first group."""
    ranks = stats.rankdata([*a, *b])
    sums = np.array([sum(chosen) for chosen in itertools.combinations(ranks, len(a))])
    found = ranks[: len(a)].sum()
    return min(1.0, 2 * min((sums <= found + 1e-9).mean(), (sums >= found - 1e-9).mean()))


def test_many_pairs_at_once_have_the_exact_p_of_each():
    """Each block holds groups with and without equal values, and infinite ones."""
    for n, m in ((1, 1), (2, 3), (3, 3), (4, 4), (5, 5), (3, 7)):
        generator = np.random.default_rng(n * 10 + m)
        a, b = generator.normal(size=(8, n)), generator.normal(0.5, size=(8, m))
        a[4:], b[4:] = np.round(a[4:]), np.round(b[4:])
        a[7], b[7, 0] = math.inf, math.inf
        expected = [by_counting(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)]
        assert mann_whitney(a, b) == pytest.approx(expected), (n, m)


@pytest.mark.parametrize(("n", "m"), [(12, 4), (15, 15), (40, 40)])
def test_more_values_than_are_counted(n, m):
    generator = np.random.default_rng(n)
    a, b = generator.normal(size=(3, n)), generator.normal(0.5, size=(3, m))
    expected = [stats.mannwhitneyu(*pair, method="exact").pvalue for pair in zip(a, b, strict=True)]
    assert mann_whitney(a, b) == pytest.approx(expected)
    if math.comb(n + m, n) > EXACT_UP_TO:
        a, b = np.round(a), np.round(b)
        expected = [stats.mannwhitneyu(*pair, method="asymptotic").pvalue for pair in zip(a, b, strict=True)]
        assert mann_whitney(a, b) == pytest.approx(expected)


def test_the_smallest_p_of_few_repeats_does_not_depend_on_side_or_scale():
    for n, p in ((2, 1 / 3), (3, 0.1), (4, 2 / 70), (5, 2 / 252)):
        low, high = np.arange(n, dtype=float), np.arange(10, 10 + n, dtype=float)
        for scale in (1e-12, 1.0, 1e12):
            assert mann_whitney(scale * low, scale * high) == pytest.approx(p), n
            assert mann_whitney(scale * high, scale * low) == pytest.approx(p), n
    # The normal approximation, corrected for ties, would give 0.047.
    assert mann_whitney([1.0] * 3, [2.0] * 3) == pytest.approx(0.1)


def test_equal_values_are_no_difference():
    for n in (5, 20):
        for value in (2.0, math.inf):
            assert mann_whitney([value] * n, [value] * n) == 1.0


def test_values_that_are_no_numbers_are_refused():
    for a, b in (([], [1.0]), ([1.0], []), ([math.nan], [1.0])):
        with pytest.raises(ValueError, match="numbers"):
            mann_whitney(a, b)


def test_effect_sizes():
    assert a12([3.0, 4.0], [1.0, 2.0]) == 1.0
    assert a12([1.0, 2.0], [1.0, 2.0]) == 0.5
    # Of 3 x 2 pairs one is above and one is equal.
    assert a12([1.0, 2.0, 3.0], [2.0, 4.0]) == pytest.approx((1 + 0.5) / 6)


def test_holm_by_hand():
    # 0.01 x 4; 0.02 x 3; 0.03 x 2; 0.04 x 1 is below the one before it.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx((0.06, 0.04, 0.06, 0.06))
    assert holm([0.6, 0.7]) == (1.0, 1.0)
    assert holm([]) == ()
    assert holm([0.03]) == (0.03,)
