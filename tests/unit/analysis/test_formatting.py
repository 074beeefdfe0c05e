import math

import pytest

from dlbench.analysis.formatting import SCORE, SECONDS, SHARE, chance, counted, listed, number, one_line, percent
from dlbench.analysis.statistics.intervals import Interval


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"), (1e-12, "1e-12"), (0.51234, "0.512"), (41.44, "41.4"), (99.94, "99.9"), (99.97, "100"),
        (999.6, "1,000"), (1_099_306.0, "1,099,306"), (1e12, "1e+12"), (-1234.5, "-1,234"), (math.inf, "inf"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits(value, said):
    assert number(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0.02, "2.0%"), (0.986, "99%"), (1.0, "100%"), (0.0, "0%"), (0.0004, "0.0%")]
)
def test_shares(value, said):
    assert percent(value) == said


def test_intervals_say_the_unit_once():
    assert SECONDS.with_ends(Interval(41.4, 39.9, 42.7, 5, 0.9375)) == "41.4 s [39.9, 42.7]"
    assert SHARE.with_ends(Interval(0.99, 0.95, 1.0, 3, 0.9)) == "99% [95%, 100%]"
    assert SCORE.with_ends(Interval(0.95, None, None, 1, None)) == "0.9500"
    assert SECONDS.spread([3.0, 1.0, 2.0]) == "2 s [1, 3]"


def test_what_a_terminal_would_obey_is_left_out():
    assert one_line("a\nb\t c\x1b[31m\u202ed") == "a b c [31m d"
    assert one_line("학습률 <script> $x_1$") == "학습률 <script> $x_1$"


def test_lists_count_what_they_leave_out():
    assert listed("abc", most=3) == "a, b, c"
    assert listed("abcde", most=3, separator="; ") == "a; b; c and 2 more"
    assert counted(1, "run") == "1 run"
    assert counted(1000, "run") == "1,000 runs"


def test_chance():
    assert chance(0.00012) == "p < 0.001"
    assert chance(0.0079365) == "p = 0.0079"
