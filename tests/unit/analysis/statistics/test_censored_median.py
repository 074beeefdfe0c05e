"""Medians with censored values: said only where no value that is not known could change them."""

import numpy as np
import pytest

from dlbench.analysis.statistics.intervals import censored_median, median_interval


def test_without_censored_values_it_is_the_median_of_all_others() -> None:
    assert censored_median([3.0, 1.0, 2.0], []) == median_interval([3.0, 1.0, 2.0])
    assert censored_median(list(range(1, 13)), []) == median_interval(list(range(1, 13)))


@pytest.mark.parametrize(
    ("reached", "ended"),
    [
        ([], []), ([], [5.0]),
        # Half of them or more.
        ([1.0], [9.0]), ([1.0, 2.0], [9.0, 9.0]), ([1.0], [9.0, 8.0]),
        # A run that ended before the median could move it.
        ([1.0, 2.0, 3.0], [1.5]), ([1.0, 2.0, 3.0], [2.5, 2.6]),
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
