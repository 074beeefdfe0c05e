import math

import pytest

from dlbench.analysis.formatting import (
    Unit,
    accuracy,
    chance,
    chosen,
    counted,
    difference,
    duration,
    listed,
    number,
    one_line,
    percent,
    quantity,
    readable,
    rounded,
    unit_of,
)
from dlbench.analysis.statistics.intervals import Interval
from dlbench.scenario.metrics import BUILT_IN, TRAIN_TIME, MetricDeclaration


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"), (-0.0, "0"), (8, "8"), (8.0, "8"), (1.003, "1.00"), (0.5, "0.500"), (0.00097212, "0.000972"),
        (9.7212e-5, "9.72e-05"), (0.51234, "0.512"), (12.34, "12.3"), (41.96, "42.0"), (99.94, "99.9"), (99.97, "100"),
        (999.6, "1,000"), (1_099_306.2, "1,099,306"), (2.5e12, "2.5e+12"), (-1234.5, "-1,234"), (-0.25, "-0.250"),
        (math.inf, "infinite"), (-math.inf, "-infinite"), (math.nan, "not a number"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits(value, said):
    assert number(value) == said


def test_settings_have_no_zeros_at_the_end_and_shares_are_percent():
    values = (0.05, 0.5, 1.0, 64.0, 1.25, 2048.0, 1e-12)
    assert [chosen(value) for value in values] == ["0.05", "0.5", "1", "64", "1.25", "2,048", "1e-12"]
    assert [percent(value) for value in (0.02, 0.986, 1.0, 0.0, 0.0004)] == ["2.0%", "99%", "100%", "0%", "0.0%"]


def test_intervals_say_the_unit_once():
    assert unit_of(TRAIN_TIME).with_ends(Interval(41.4, 39.9, 42.7, 5, 0.9375)) == "41.4 s [39.9, 42.7]"
    assert Unit(percent).with_ends(Interval(0.99, 0.95, 1.0, 3, 0.9)) == "99% [95%, 100%]"
    assert Unit(accuracy).with_ends(Interval(0.95, None, None, 1, None)) == "0.950"


def test_what_a_terminal_would_obey_is_spelled_out():
    assert one_line(" a\nb\t c\x1b[31m\u202ed") == r"a b c\x1b[31m\u202ed"
    assert one_line("학습률 <script> $x_1$") == "학습률 <script> $x_1$"
    assert len(one_line("x" * 100_000, 300)) < 300
    assert len(one_line("x" * 100_000)) == 100_000


def test_lists_count_what_they_leave_out():
    assert listed("abc", most=3) == "a, b, c"
    assert listed("abcde", most=3, separator="; ") == "a; b; c and 2 more"
    assert counted(1, "run") == "1 run"
    assert counted(1000, "run") == "1,000 runs"


def test_chance():
    assert chance(0.00012) == "p < 0.001"
    assert chance(0.0079365) == "p = 0.0079"


def test_durations() -> None:
    cases = {
        None: "", 0.12: "0.1 s", 9.94: "9.9 s", 9.96: "10 s", 42.4: "42 s", 59.6: "1 min 00 s", 61: "1 min 01 s",
        3599: "59 min 59 s", 3725: "1 h 02 min",
    }  # fmt: skip
    assert {seconds: duration(seconds) for seconds in cases} == cases


ACCURACY = BUILT_IN["validation_accuracy"]
BLEU = MetricDeclaration.model_validate({"better": "higher", "matters": 0.5, "unit": "BLEU"}).metric("bleu")


@pytest.mark.parametrize(
    ("metric", "value", "text", "unsigned"),
    [
        (ACCURACY, -0.005, "-0.5 points", "-0.5 points"), (ACCURACY, 0.01, "+1 point", "1 point"),
        (ACCURACY, 0.134, "+13 points", "13 points"), (TRAIN_TIME, -0.0123, "-1.2%", "-1.2%"),
        (TRAIN_TIME, 0.5, "+50%", "50%"), (TRAIN_TIME, 1e304, ">+1,000%", ">1,000%"),
        (TRAIN_TIME, -12.0, "<-1,000%", "<-1,000%"), (BLEU, 0.3, "+0.3 BLEU", "0.3 BLEU"),
    ],
)  # fmt: skip
def test_differences_are_points_percent_or_in_the_metrics_unit(metric, value, text, unsigned):
    assert difference(metric, value) == text
    assert difference(metric, value, signed=False) == unsigned


def test_quantities_have_their_unit():
    assert quantity(ACCURACY, 0.96123) == "0.961"
    assert quantity(TRAIN_TIME, 41.44) == "41.4 s"
    assert quantity(BLEU, 31.25) == "31.2 BLEU"


def test_two_digits_and_a_prefix() -> None:
    found = [rounded(value) for value in (0.034, 40.5, 99.6, 999, 2375, 12_345, 999_900, 1.98e6, 1.2e9)]
    assert found == ["0.034", "40", "100", "1.0 k", "2.4 k", "12 k", "1.0 M", "2.0 M", "1.2 G"]


def test_a_margin_is_never_narrower_than_the_interval() -> None:
    seconds = unit_of(TRAIN_TIME)
    assert seconds.with_margin(Interval(100.0, 98.9, 100.5, 5, 0.93)) == "100 s ±2%"
    assert seconds.with_margin(Interval(100.0, 99.95, 100.51, 5, 0.93)) == "100 s ±0.6%"
    assert seconds.with_margin(Interval(100.0, None, None, 1, None)) == "100 s"


def test_what_cannot_be_seen_is_shown():
    assert readable("a\x00b\x1b[0m\x7f\x9b\u202e\ud800\ufffe") == r"a\x00b\x1b[0m\u007f\u009b\u202e\ud800\ufffe"
    assert readable("one\r\ntwo\rthree") == "one\ntwo\nthree"
    for text in ("", "plain", "tab\tand\nline", "한국어 עברית", "<b>&amp;"):
        assert readable(text) == text
