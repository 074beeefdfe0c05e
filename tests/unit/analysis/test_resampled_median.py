"""The bootstrap of a median without draws: against every possible resample, and against scipy's random ones."""

import itertools
from collections import Counter
from statistics import median

import numpy as np
import pytest
from scipy.stats import bootstrap

from dlbench.analysis.resampled_median import MOST_VALUES, bca, ratio, resampled


@pytest.mark.parametrize(
    "values", [[2.0], [1.0, 4.0], [1.0, 2.0, 5.0], [3.0, 1.0, 2.0, 9.0], [1.0, 2.0, 4.0, 8.0, 16.0]]
)
def test_every_resample_counts_once(values):
    counted = Counter(median(drawn) for drawn in itertools.product(values, repeat=len(values)))
    found = resampled(values)
    known = dict.fromkeys(found.values.tolist(), 0.0)
    for value, probability in zip(found.values.tolist(), np.diff(found.cumulative, prepend=0.0).tolist(), strict=True):
        known[value] += probability
    assert known == pytest.approx({value: count / counted.total() for value, count in counted.items()})


def test_equal_values_are_one():
    values = [1.0, 1.0, 2.0, 2.0, 2.0, 7.0]
    counted = Counter(median(drawn) for drawn in itertools.product(values, repeat=6))
    found = resampled(values)
    for value in (0.0, 1.0, 1.5, 2.0, 4.5, 7.0, 9.0):
        below, at = sum(count for one, count in counted.items() if one < value), counted[value]
        assert found.below(value) == pytest.approx((below + at / 2) / counted.total())


@pytest.mark.parametrize("n", [10, 11, 24, 25, 60])
def test_the_interval_is_scipys_where_that_draws_very_often(n):
    values = np.random.default_rng(n).lognormal(size=n)
    ours = bca(values.tolist(), 0.95)
    theirs = bootstrap((values,), np.median, n_resamples=60_000, method="BCa", rng=np.random.default_rng(1))
    # An end may be one value further where a share lies between two values.
    near = np.sort(values)
    for one, other in zip(ours, theirs.confidence_interval, strict=True):
        assert np.sum((near > min(one, other)) & (near < max(one, other))) <= 1
        assert one == pytest.approx(other, rel=0.05)


@pytest.mark.parametrize("n", [301, 1000, 10_000])
def test_many_values(n):
    values = np.random.default_rng(3).normal(size=n)
    low, high = bca(values.tolist(), 0.95)
    assert low < np.median(values) < high
    # The standard error of a normal sample's median is sqrt(pi / 2 / n).
    assert (high - low) / 2 / 1.96 == pytest.approx((np.pi / 2 / n) ** 0.5, rel=0.35)


@pytest.mark.parametrize("values", [[2.0] * 12, [2.0] * 11 + [3.0], [1.0] + [2.0] * 10, [0.0] * 6 + [1.0] * 6])
def test_hardly_any_difference(values):
    low, high = bca(values, 0.95)
    assert min(values) <= low <= median(values) <= high <= max(values)


def test_a_ratio_combines_all_medians_of_both():
    top, bottom = resampled([3.0, 5.0, 6.0]), resampled([1.0, 2.0])
    found = ratio(top, bottom)
    assert found.values.min() == 1.5
    assert found.values.max() == 6.0
    assert found.below(100.0) == pytest.approx(1.0)
    known = dict(zip(found.values.tolist(), np.diff(found.cumulative, prepend=0.0).tolist(), strict=True))
    # P(median of three = 5) is 13 / 27; P(median of two = 1.5) is 1 / 2.
    assert known[5 / 1.5] == pytest.approx(13 / 27 / 2)


def test_a_ratio_of_very_many_medians_stays_small_and_right():
    generator = np.random.default_rng(5)
    top, bottom = generator.normal(10, 1, size=80), generator.normal(5, 0.5, size=90)
    found = ratio(resampled(top.tolist()), resampled(bottom.tolist()))
    assert len(found.values) <= MOST_VALUES**2
    drawn = [np.median(generator.choice(values, size=(20_000, len(values))), axis=1) for values in (top, bottom)]
    expected = np.quantile(drawn[0] / drawn[1], [0.025, 0.5, 0.975])
    assert [found.quantile(share) for share in (0.025, 0.5, 0.975)] == pytest.approx(expected, rel=0.01)
