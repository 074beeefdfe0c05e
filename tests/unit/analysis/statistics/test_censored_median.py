"""Medians with censored values: said only where no value that is not known could change them."""

import numpy as np
import pytest

from dlbench.analysis.statistics.intervals import censored_median, median_interval


def test_without_censored_values_it_is_the_median_of_all_others() -> None:
    assert censored_median([3.0, 1.0, 2.0], []) == median_interval([3.0, 1.0, 2.0])
    assert censored_median(list(range(1, 13)), []) == median_interval(list(range(1, 13)))


def test_nothing_has_no_median() -> None:
    assert censored_median([], []) is None
    assert censored_median([], [5.0]) is None


def test_a_run_that_ended_early_counts_as_later_than_all_others() -> None:
    found = censored_median([1.0, 2.0, 3.0, 4.0], [9.0])
    assert found is not None
    assert (found.value, found.n) == (3.0, 5)


@pytest.mark.parametrize(("reached", "ended"), [([1.0], [9.0]), ([1.0, 2.0], [9.0, 9.0]), ([1.0], [9.0, 8.0])])
def test_half_of_them_or_more_leave_no_median(reached: list[float], ended: list[float]) -> None:
    assert censored_median(reached, ended) is None


def test_a_run_that_ended_before_the_median_could_move_it() -> None:
    assert censored_median([1.0, 2.0, 3.0], [1.5]) is None
    assert censored_median([1.0, 2.0, 3.0], [2.5, 2.6]) is None


def test_an_interval_needs_both_its_ends() -> None:
    five = censored_median([1.0, 2.0, 3.0, 4.0], [9.0])
    assert five is not None
    assert (five.low, five.high, five.coverage) == (None, None, None)
    # Of nine values the second and the eighth are the ends: the ninth may be unknown.
    nine = censored_median([float(value) for value in range(1, 9)], [20.0])
    assert nine is not None
    assert (nine.value, nine.low, nine.high, nine.n) == (5.0, 2.0, 8.0, 9)
    assert nine.coverage == pytest.approx(0.9609375)


def test_many_runs_of_which_one_was_censored_have_an_exact_interval_too() -> None:
    found = censored_median([float(value) for value in range(1, 30)], [40.0])
    assert found is not None
    assert found.value == 15.5
    assert found.low is not None
    assert found.high is not None
    assert found.low < 15.5 < found.high
    assert found.coverage is not None
    assert 0.95 <= found.coverage < 0.99


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
