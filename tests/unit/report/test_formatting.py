import math

import pandas as pd
import pytest

from dlbench.report.formatting import brief, number, one_line, readable, tick, values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.9721, "0.9721"),
        (0.95, "0.9500"),
        (82.18274, "82.18"),
        (999.94, "999.9"),
        (999.96, "1,000"),
        (1121092.4, "1,121,092"),
        (-0.00012346, "-0.0001235"),
        (9.999e-5, "9.999e-05"),
        (1e-12, "1.000e-12"),
        (1e12, "1.000e+12"),
        (math.inf, "infinite"),
        (-math.inf, "-infinite"),
        (math.nan, "not a number"),
    ],
)
def test_numbers_have_four_digits_at_any_size(value, text):
    assert number(value) == text


@pytest.mark.parametrize("text", ["", "plain", "tab\tand\nline", "한국어 עברית", "<b>&amp;"])
def test_what_can_be_read_stays(text):
    assert readable(text) == text


def test_what_cannot_be_seen_is_shown():
    assert readable("a\x00b\x1b[0m\x7f\x9b\u202e\ud800\ufffe") == "a␀b␛[0m␡[U+009B][U+202E][U+D800][U+FFFE]"
    assert readable("one\r\ntwo\rthree") == "one\ntwo\nthree"
    assert readable("\ud800").encode()


def test_one_line_is_one_and_not_long():
    assert one_line(" a\n\tb  c ") == "a b c"
    assert len(one_line("x" * 100_000)) < 300


@pytest.mark.parametrize(
    ("dtype", "given", "kind"),
    [
        ("Int64", [1, None], int),
        ("float64", [1.5, None], float),
        ("boolean", [True, None], bool),
        ("string", ["a", None], str),
    ],
)
def test_values_are_pythons_own(dtype, given, kind):
    found = values(pd.Series(given, dtype=dtype))
    assert found == given
    assert type(found[0]) is kind


def test_a_cell_has_three_digits_and_a_tick_as_many_as_it_needs():
    for value, cell, at_tick in (
        (0.0, "0", "0"), (0.8512, "0.851", "0.8512"), (12.345, "12.3", "12.345"), (999.6, "1,000", "999.6"),
        (123_456.0, "123,456", "123,456"), (2.0**20, "1,048,576", "1,048,576"), (1e-12, "1e-12", "1e-12"),
        (1e12, "1e+12", "1,000,000,000,000"), (2e-5, "2e-05", "0.00002"), (1e15, "1e+15", "1e+15"),
        (-5.0, "-5", "-5"), (0.1 + 0.2, "0.3", "0.3"),
    ):  # fmt: skip
        assert (brief(value), tick(value)) == (cell, at_tick)
    assert brief(math.nan) == brief(math.inf) == "-"
    assert brief(0.8512, percent=True) == "85.1%"
