import math

import numpy as np
import pytest

from dlbench.analysis.intervals import median_interval, order_statistic_coverage, ratio_interval


@pytest.mark.parametrize(("n", "covered"), [(2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.96875), (9, 0.99609375)])
def test_the_extremes_cover_what_the_binomial_says(n, covered):
    assert order_statistic_coverage(n, 1) == covered


def test_one_value_says_nothing_about_spread():
    found = median_interval([3.0])
    assert (found.value, found.low, found.high, found.coverage) == (3.0, None, None, None)


def test_few_values_lie_between_order_statistics():
    found = median_interval([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (found.value, found.low, found.high, found.n) == (3.0, 1.0, 5.0, 5)
    assert found.coverage == 0.9375


def test_nine_values_take_the_narrowest_pair_that_covers():
    found = median_interval(list(range(1, 10)))
    assert (found.low, found.high) == (2, 8)
    assert found.coverage == pytest.approx(0.9609375)


def test_no_value_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        median_interval([])


@pytest.mark.parametrize("n", [5, 8, 20])
def test_intervals_cover_the_true_median_as_often_as_they_say(n):
    draws = np.random.default_rng(1).normal(size=(60, n))
    found = [median_interval(row.tolist()) for row in draws]
    hits = sum(interval.low <= 0 <= interval.high for interval in found)
    expected = found[0].coverage
    assert hits / 60 > expected - 3 * math.sqrt(expected * (1 - expected) / 60) - 0.02


def test_equal_values_have_an_interval_of_no_width():
    found = median_interval([2.0] * 12)
    assert (found.low, found.high) == (2.0, 2.0)


def test_nearly_equal_values_have_an_interval():
    found = median_interval([2.0] * 11 + [3.0])
    assert found.low <= 2.0 <= found.high


def test_the_same_values_give_the_same_interval():
    values = np.random.default_rng(2).random(15).tolist()
    assert median_interval(values) == median_interval(list(reversed(values)))


def test_a_ratio_lies_inside_its_interval():
    found = ratio_interval([1.8, 1.9, 2.0, 2.1], [1.0, 1.01, 0.99])
    assert found.value == pytest.approx(1.95)
    assert found.low < found.value < found.high
    assert found.n == 3


def test_a_ratio_of_single_values_has_no_interval():
    assert ratio_interval([2.0], [1.0]).low is None


@pytest.mark.parametrize(("top", "bottom"), [([], [1.0]), ([1.0], []), ([1.0], [0.0])])
def test_no_ratio_without_values(top, bottom):
    with pytest.raises(ValueError, match="ratio"):
        ratio_interval(top, bottom)


def test_what_overlaps_cannot_be_told_apart():
    low, high = median_interval([1, 2, 3, 4, 5.0]), median_interval([6, 7, 8, 9, 10.0])
    assert low.can_be_told_from(high)
    assert not low.can_be_told_from(median_interval([5, 6, 7.0]))
    assert not low.can_be_told_from(median_interval([100.0]))


@pytest.mark.parametrize(("n", "m", "can"), [(2, 2, False), (2, 7, False), (3, 4, False), (3, 5, True), (4, 4, True)])
def test_few_values_lie_apart_by_chance(n, m, can):
    low, high = median_interval(list(range(n))), median_interval(list(range(10, 10 + m)))
    assert low.can_be_told_from(high) is can


@pytest.mark.parametrize(("n", "coverage"), [(2, 2 / 3), (3, 0.9), (4, 0.95), (20, 0.95)])
def test_a_ratio_of_few_values_claims_no_more_than_it_can(n, coverage):
    values = [1.0 + index / 100 for index in range(n)]
    assert ratio_interval(values, values).coverage == pytest.approx(coverage)
