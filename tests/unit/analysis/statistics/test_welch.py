"""Welch's t with one degree of freedom less, the studentised range, and what is said of the best arm."""

import math

import numpy as np
import pytest
from scipy import stats

from dlbench.analysis.statistics.welch import (
    from_best,
    paired,
    smallest_step,
    studentized_range_p,
    studentized_range_quantile,
    welch,
)


def test_welchs_t_is_scipys_but_for_one_degree_of_freedom():
    a, b = np.random.default_rng(1).normal(size=(2, 6))
    theirs = stats.ttest_ind(a, b, equal_var=False)
    found = welch(a, b)
    assert found.t == pytest.approx(abs(theirs.statistic))
    assert found.freedom == pytest.approx(theirs.df - 1)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(theirs.statistic), theirs.df - 1))
    # Never fewer than the shorter group has, nor more than two of its length have.
    assert welch([1.0, 2.0, 3.0], 1e-6 * b).freedom == 2
    assert welch([1.0, 2.0, 3.0], np.arange(20) / 2.0).freedom <= 4


def test_pairs_are_scipys():
    a, b = np.random.default_rng(2).normal(size=(2, 7))
    assert paired(a, b).p == pytest.approx(stats.ttest_rel(a, b).pvalue)


def test_equal_and_constant_values():
    assert welch([1.0] * 4, [1.0] * 4).p == 1
    assert welch([1.0] * 4, [2.0] * 4).p == 0
    assert welch([1.0] * 3, [2.0] * 3, 1.0).p > 0.05
    # 0.1 + 0.2 is 0.3 but for rounding.
    assert paired([0.1 + 0.2] * 4, [0.3] * 4).p == 1


def test_a_step_is_seen_where_values_are_equal():
    assert smallest_step([0.3, 0.1, 0.2]) == 0
    assert smallest_step([0.3, 0.1, 0.3, 0.25]) == pytest.approx(0.05)
    assert smallest_step([0.1 + 0.2, 0.3, 0.9]) == pytest.approx(0.6)
    assert smallest_step([2.0, 2.0, math.inf, math.inf]) == 0


@pytest.mark.parametrize("k", [2, 3, 20, 100])
def test_the_studentised_range_is_scipys(k):
    for freedom in (2.0, 4.5, 18.0, 200.0):
        q = np.array([0.5, 3.0, 4.0, 6.0, 20.0])
        expected = stats.studentized_range.sf(q, k, freedom)
        assert studentized_range_p(q, k, freedom) == pytest.approx(expected, abs=2e-6)
    assert studentized_range_p([0.0, math.inf], k, 3.0) == pytest.approx([1.0, 0.0], abs=1e-6)
    assert studentized_range_quantile(0.05, k, 8.0) == pytest.approx(
        stats.studentized_range.ppf(0.95, k, 8.0), rel=1e-4
    )


def test_two_arms_are_one_pair():
    a, b = np.random.default_rng(3).normal(size=(2, 5))
    found = from_best(a, [b])
    assert found.p == pytest.approx(found.p_alone, abs=1e-6)
    assert found.p_alone == pytest.approx([float(welch(a, b).p)])


def test_many_studies_at_once_are_those_one_by_one():
    draws = np.random.default_rng(4).normal(size=(6, 4, 5))
    draws[0] = np.round(draws[0])
    draws[1, 2, 0] = math.inf
    together = from_best(draws[:, 0], list(draws[:, 1:].swapaxes(0, 1)))
    for place, study in enumerate(draws):
        assert from_best(study[0], list(study[1:])).p == pytest.approx(together.p[place])
