import math

import numpy as np
import pytest
from scipy.stats import binom

from dlbench.analysis.statistics.intervals import censored_median, depth_and_coverage, median_interval, ratio_interval


@pytest.mark.parametrize(
    ("values", "value", "low", "high", "coverage"),
    [
        ([3.0], 3.0, None, None, None),
        # Few values lie between the extremes, nine between the narrowest pair that covers 95%.
        ([5.0, 1.0, 3.0, 2.0, 4.0], 3.0, 1.0, 5.0, 0.9375),
        (list(range(1, 10)), 5, 2, 8, 0.9609375),
        ([1.0] * 4 + [math.inf] * 8, math.inf, None, None, None),
        # Equal values have an interval of no width, nearly equal ones too.
        ([2.0] * 12, 2.0, 2.0, 2.0, 1 - 2 * 79 / 4096),
        ([2.0] * 11 + [3.0], 2.0, 2.0, 2.0, 1 - 2 * 79 / 4096),
    ],
)
def test_a_median_lies_between_order_statistics(values, value, low, high, coverage):
    found = median_interval(values)
    assert (found.value, found.low, found.high, found.n) == (value, low, high, len(values))
    assert found.coverage == coverage


def test_many_values():
    assert [depth_and_coverage(n)[0] for n in (2, 5, 9, 20, 100)] == [1, 1, 2, 6, 40]
    for n in (2, 3, 6, 9, 20, 100):
        depth, coverage = depth_and_coverage(n)
        assert coverage == pytest.approx(1 - 2 * binom.cdf(depth - 1, n, 0.5))
    for n in (301, 2_000):
        found = median_interval(np.random.default_rng(3).normal(size=n).tolist())
        assert 0.95 <= found.coverage < 0.96
        # The standard error of a normal sample's median is sqrt(pi / 2 / n).
        assert (found.high - found.low) / 2 / 1.96 == pytest.approx((np.pi / 2 / n) ** 0.5, rel=0.35)


def test_a_ratio_lies_inside_its_interval_where_it_has_one():
    found = ratio_interval([1.8, 1.9, 2.0, 2.1], [1.0, 1.01, 0.99])
    assert found.value == pytest.approx(1.95)
    assert found.low < found.value < found.high
    assert found.n == 3
    equal = ratio_interval([3.0] * 4, [2.0] * 5)
    assert (equal.low, equal.high) == pytest.approx((1.5, 1.5))
    assert ratio_interval([2.0], [1.0]).low is None
    assert ratio_interval([0.0, 1.0, 2.0], [1.0, 1.1, 1.2]).low is None


@pytest.mark.parametrize(("top", "bottom"), [([], [1.0]), ([1.0], []), ([1.0], [0.0])])
def test_no_ratio_without_values(top, bottom):
    with pytest.raises(ValueError, match="ratio"):
        ratio_interval(top, bottom)


def test_a_ratio_of_scattered_values_covers_what_it_says_at_unequal_spreads():
    """The percentile bootstrap of both medians, which said 90% and 95%, covered 81% and 89% here."""
    generator = np.random.default_rng(4)
    for n in (3, 4):
        logs = generator.normal(size=(2, 1000, n)) * np.array([0.08, 0.01])[:, None, None]
        found = [ratio_interval(*pair) for pair in zip(*np.exp(logs).tolist(), strict=True)]
        hits = sum(interval.low <= 1 <= interval.high for interval in found)
        assert {interval.coverage for interval in found} == {0.95}
        assert binom.ppf(0.001, 1000, 0.95) <= hits <= binom.ppf(0.999, 1000, 0.97), n


def test_without_censored_values_it_is_the_median_of_all_others() -> None:
    assert censored_median([3.0, 1.0, 2.0], []) == median_interval([3.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("reached", "ended"),
    [
        ([], []), ([], [5.0]),
        # Half of them or more.
        ([1.0], [9.0]), ([1.0, 2.0], [9.0, 9.0]), ([1.0], [9.0, 8.0]),
        # A run that ended before the median could move it.
        ([1.0, 2.0, 3.0], [1.5]), ([1.0, 2.0, 3.0], [2.5, 2.6]),
        # Nor is it where it is not known when they ended.
        ([1.0], [math.inf] * 2),
    ],
)  # fmt: skip
def test_there_is_no_median_where_censored_values_could_change_it(reached: list[float], ended: list[float]) -> None:
    assert censored_median(reached, ended) is None


def test_an_interval_needs_both_its_ends() -> None:
    five = censored_median([1.0, 2.0, 3.0, 4.0], [9.0])
    assert five is not None
    assert (five.value, five.n, five.low, five.high, five.coverage) == (3.0, 5, None, None, None)
    # Of nine values the second and the eighth are the ends: the ninth may be unknown.
    nine = censored_median([float(value) for value in range(1, 9)], [20.0])
    assert nine is not None
    assert (nine.value, nine.low, nine.high, nine.n) == (5.0, 2.0, 8.0, 9)
    assert nine.coverage == pytest.approx(0.9609375)


def test_whatever_the_censored_runs_would_have_come_to_changes_no_median_that_was_said() -> None:
    generator = np.random.default_rng(3)
    said = 0
    for _ in range(300):
        reached = generator.integers(1, 9, size=generator.integers(0, 7)).astype(float).tolist()
        ended = generator.integers(1, 9, size=generator.integers(1, 4)).astype(float).tolist()
        found = censored_median(reached, ended)
        if found is not None:
            said += 1
            later = [value + generator.choice([0.0, 0.5, 100.0]) for value in ended]
            assert float(np.median([*reached, *later])) == found.value
    assert said > 50
