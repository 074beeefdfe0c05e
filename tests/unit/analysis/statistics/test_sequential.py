"""The level of tests that are repeated as samples grow."""

import numpy as np
import pytest
from scipy.stats import ttest_ind

from dlbench.analysis.statistics.sequential import nominal_level, pairs_pay, significance_of
from dlbench.scenario.scenario import Repeats


def test_one_look_has_the_whole_level() -> None:
    assert nominal_level(4, 4) == pytest.approx(0.05, rel=0.01)


def test_more_looks_have_smaller_levels() -> None:
    levels = [nominal_level(3, most) for most in (3, 5, 20)]
    assert levels == sorted(levels, reverse=True)
    # 0.0078 where all looks are paired, 0.0100 where none is.
    assert nominal_level(3, 20) == pytest.approx(0.0093, abs=0.0004)


def test_a_difference_is_found_in_a_twentieth_of_growing_samples_without_any() -> None:
    draw = np.random.default_rng(5).standard_normal((1_500, 2, 20))
    level = nominal_level(3, 20)
    smallest = np.min([ttest_ind(*draw[..., :n].swapaxes(0, 1), axis=-1).pvalue for n in range(3, 21)], axis=0)
    assert 0.03 < np.mean(smallest <= level) < 0.065
    assert np.mean(smallest <= 0.05) > 0.15, "what asking again and again costs"


def test_pairs_begin_later_where_a_later_look_can_still_pair() -> None:
    assert next(n for n in range(2, 12) if pairs_pay(n)) == 5
    assert next(n for n in range(2, 20) if pairs_pay(n, nominal_level(3, 20))) == 10
    assert not pairs_pay(1)


def test_the_rule_is_read_from_what_rows_say_of_it() -> None:
    assert significance_of([]) == significance_of(["", ""]) == 0.05
    rule = Repeats(min=3, max=20).rule
    assert significance_of([rule, "", rule]) == nominal_level(3, 20)
    assert significance_of([Repeats(min=3, max=5).rule, rule]) == nominal_level(3, 20)
