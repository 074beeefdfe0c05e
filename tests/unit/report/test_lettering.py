"""Lines are no wider than they may be, nothing is lost by wrapping, and what is cut says so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlbench.report.lettering import ELLIPSIS, cut, families, width, wrapped
from dlbench.report.written import one_line
from tests.unit.report.charts import HOSTILE

SIZE = 9.0


def test_width_grows_with_text_and_size() -> None:
    assert width("", SIZE) == 0
    assert 0 < width("i", SIZE) < width("W", SIZE) < width("WW", SIZE)
    assert width("W", 18.0) == pytest.approx(2 * width("W", SIZE), rel=0.05)
    assert width("WWW", SIZE, "bold") > width("WWW", SIZE)


def test_a_wide_letter_counts_with_its_height_whatever_fonts_are_installed() -> None:
    assert width("한글", SIZE) == 2 * SIZE


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("most", [1.0, 40.0, 150.0, 700.0])
def test_nothing_is_wider_than_it_may_be_and_nothing_is_lost(text: str, most: float) -> None:
    lines = wrapped(text, most, SIZE).split("\n")
    assert all(width(line, SIZE) <= most or len(line) == 1 for line in lines)
    whole = "".join(one_line(part, 20_000) for part in text.split("\n"))
    assert "".join(lines).replace(" ", "") == whole.replace(" ", "")


def test_words_stay_whole_where_they_fit() -> None:
    assert wrapped("alpha beta", 1000.0, SIZE) == "alpha beta"
    assert wrapped("alpha beta", width("alpha ", SIZE), SIZE) == "alpha\nbeta"
    assert wrapped("one\ntwo", 1000.0, SIZE) == "one\ntwo"
    assert wrapped("", 10.0, SIZE) == ""


def test_lines_beyond_the_last_are_cut_visibly() -> None:
    text = wrapped("word " * 100, 100.0, SIZE, most_lines=2)
    assert text.count("\n") == 1
    assert text.endswith(ELLIPSIS)
    assert all(width(line, SIZE) <= 100.0 for line in text.split("\n"))


@settings(deadline=None, max_examples=50)
@given(text=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=300), most=st.floats(30, 400))
def test_a_cut_text_fits_and_keeps_both_ends(text: str, most: float) -> None:
    found, line = cut(text, most, SIZE), one_line(text)
    assert width(found, SIZE) <= most
    assert found == line or (ELLIPSIS in found and found[0] == line[0])


def test_a_label_is_cut_in_its_middle() -> None:
    found = cut("model=resnet, optimizer=adam, batch=4096", 100.0, SIZE)
    assert found.startswith("model")
    assert found.endswith("4096")


def test_the_first_family_comes_along_with_the_drawing_library() -> None:
    assert families()[0] == "DejaVu Sans"
