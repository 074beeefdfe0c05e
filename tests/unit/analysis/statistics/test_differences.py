"""Welch's error, ranks, steps of values, the studentised range, moderated variances and Holm: as scipy, or by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from dlbench.analysis.statistics.differences import (
    EXACT_UP_TO,
    MOST_BORROWED,
    Difference,
    holm,
    mann_whitney,
    moderated,
    smallest_step,
    studentized_range_p,
    welch,
)


def test_welchs_t_is_scipys_but_for_one_degree_of_freedom():
    a, b = np.random.default_rng(1).normal(size=(2, 6))
    theirs = stats.ttest_ind(a, b, equal_var=False)
    found = Difference(a.mean() - b.mean(), *welch(a.var(ddof=1) / 6, b.var(ddof=1) / 6, 5.0, 5.0))
    assert found.t() == pytest.approx(theirs.statistic)
    assert found.freedom == pytest.approx(theirs.df - 1)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(theirs.statistic), theirs.df - 1))


@pytest.mark.parametrize(
    ("a", "b", "freedom", "expected"),
    # Never fewer than the shorter group has, nor more than two of its length have; without spread the fewest.
    [(1.0, 1e-9, (2.0, 5.0), 2.0), (1.0, 1.0, (2.0, 50.0), 4.0), (0.0, 0.0, (2.0, 5.0), 2.0)],
)
def test_degrees_of_freedom_are_those_of_the_shorter_group(a, b, freedom, expected):
    error, found = welch(np.asarray(a), np.asarray(b), *map(np.asarray, freedom))
    assert (error, found) == (pytest.approx(math.sqrt(a + b)), pytest.approx(expected, abs=0.5))
    assert freedom[0] <= found <= 2 * freedom[0]


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0.3, 0.1, 0.2], 0.0), ([0.3, 0.1, 0.3, 0.25], 0.05), ([0.1 + 0.2, 0.3, 0.9], 0.6),
        ([2.0, 2.0], 0.0),
    ],
)  # fmt: skip
def test_a_step_is_seen_where_values_are_equal(values, step):
    assert smallest_step(np.array(values)) == pytest.approx(step)


@pytest.mark.parametrize("k", [2, 100])
def test_the_studentised_range_is_scipys(k):
    for freedom in (2.0, 4.5, 200.0):
        q = np.array([0.5, 4.0, 20.0])
        expected = stats.studentized_range.sf(q, k, freedom)
        assert studentized_range_p(q, k, freedom) == pytest.approx(expected, abs=2e-6)
    assert studentized_range_p([0.0, math.inf], k, 3.0) == pytest.approx([1.0, 0.0], abs=1e-6)


def test_variances_that_differ_by_chance_are_drawn_together_and_others_are_not():
    generator, freedom = np.random.default_rng(5), np.full(200, 4.0)
    alike = generator.chisquare(4, 200) / 4
    drawn, more = moderated(alike, freedom)
    assert more == pytest.approx((1 + MOST_BORROWED) * freedom)
    assert drawn.var() == pytest.approx(alike.var() / (1 + MOST_BORROWED) ** 2)
    assert drawn.mean() == pytest.approx(1, abs=0.15)
    different = alike * np.exp(generator.normal(0, 3, 200))
    drawn, more = moderated(different, freedom)
    assert more[0] < 1.2 * freedom[0]
    assert np.median(np.abs(np.log(drawn / different))) < 0.2
    # Smyth's estimate by hand: three groups lend each other at most all that they have together.
    assert moderated(np.ones(3), np.full(3, 2.0))[1] == pytest.approx([6.0] * 3)


@pytest.mark.parametrize(("n", "m"), [(12, 4), (15, 15), (40, 40)])
def test_more_values_than_are_counted(n, m):
    generator = np.random.default_rng(n)
    a, b = generator.normal(size=n), generator.normal(0.5, size=m)
    assert mann_whitney(a, b)[0] == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue)
    if math.comb(n + m, n) > EXACT_UP_TO:
        a, b = np.round(a), np.round(b)
        assert mann_whitney(a, b)[0] == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue)


@pytest.mark.parametrize(
    ("a", "b", "p", "share_above"),
    [
        ([1.0, 2.0], [3.0, 4.0], 1 / 3, 0.0), ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], 0.1, 1.0),
        ([1e-12, 2e-12, 3e-12, 4e-12], [5e-12, 6e-12, 7e-12, 8e-12], 2 / 70, 0.0),
        # The normal approximation, corrected for equal values, would give 0.047.
        ([1.0] * 3, [2.0] * 3, 0.1, 0.0), ([math.inf] * 5, [1.0, 2.0, 3.0, 4.0, 5.0], 2 / 252, 1.0),
        ([2.0] * 20, [2.0] * 20, 1.0, 0.5), ([math.inf] * 3, [math.inf] * 3, 1.0, 0.5),
        # Of 3 x 2 pairs one is above and one is equal.
        ([1.0, 2.0, 3.0], [2.0, 4.0], 0.6, (1 + 0.5) / 6),
    ],
)  # fmt: skip
def test_known_p_values_and_shares(a, b, p, share_above):
    assert mann_whitney(a, b) == pytest.approx((p, share_above))
    assert mann_whitney(b, a) == pytest.approx((p, 1 - share_above))


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        # 0.01 x 4; 0.02 x 3; 0.03 x 2; 0.04 x 1 is below the one before it.
        ([0.04, 0.01, 0.03, 0.02], (0.06, 0.04, 0.06, 0.06)), ([0.6, 0.7], (1.0, 1.0)), ([], ()), ([0.03], (0.03,)),
    ],
)  # fmt: skip
def test_holm_by_hand(p_values, adjusted):
    assert holm(p_values) == pytest.approx(adjusted)
