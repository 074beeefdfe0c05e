"""Welch's error with one degree of freedom less, steps of values, the studentised range, and moderated variances."""

import math

import numpy as np
import pytest
from scipy import stats

from dlbench.analysis.statistics.welch import (
    MOST_BORROWED,
    Difference,
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


@pytest.mark.parametrize("k", [2, 3, 20, 100])
def test_the_studentised_range_is_scipys(k):
    for freedom in (2.0, 4.5, 18.0, 200.0):
        q = np.array([0.5, 3.0, 4.0, 6.0, 20.0])
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
