"""The bootstrap of a median without draws: against every possible resample, and against scipy's random ones."""

import itertools
from collections import Counter
from statistics import median

import numpy as np
import pytest
from scipy.stats import bootstrap

from dlbench.analysis.resampled_median import bca, ratio_quantile, resampled


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


def test_infinite_values_have_an_interval_without_a_warning():
    low, high = bca([1.0] * 4 + [np.inf] * 8, 0.95)
    assert low == 1.0
    assert high == np.inf


@pytest.mark.parametrize("share", [0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.999, 1.0])
@pytest.mark.parametrize(
    ("top", "bottom"), [([3.0, 5.0, 6.0], [1.0, 2.0]), ([2.0] * 3, [0.5] * 4), ([-3.0, 0.0, 4.0, 9.0], [1.0, 3.0, 7.0])]
)
def test_a_ratio_combines_all_medians_of_both(top, bottom, share):
    resamples = [[median(drawn) for drawn in itertools.product(values, repeat=len(values))] for values in (top, bottom)]
    ratios = sorted(one / other for one, other in itertools.product(*resamples))
    expected = ratios[max(0, int(np.ceil(share * len(ratios) - 1e-6)) - 1)]
    assert ratio_quantile(resampled(top), resampled(bottom), share) == pytest.approx(expected)


def test_ratios_of_many_values_are_as_exact():
    generator = np.random.default_rng(5)
    top, bottom = generator.normal(10, 1, size=80), generator.normal(5, 0.5, size=90)
    drawn = [np.median(generator.choice(values, size=(100_000, len(values))), axis=1) for values in (top, bottom)]
    shares = (0.0005, 0.025, 0.5, 0.975, 0.9995)
    found = [ratio_quantile(resampled(top.tolist()), resampled(bottom.tolist()), share) for share in shares]
    below = [float(np.mean(drawn[0] / drawn[1] <= one)) for one in found]
    assert below == pytest.approx(shares, abs=0.004)
    assert below[0] == pytest.approx(0.0005, abs=0.0005)
