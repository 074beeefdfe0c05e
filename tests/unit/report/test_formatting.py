import pytest

from dlbench.report.formatting import one_line, readable


@pytest.mark.parametrize("text", ["", "plain", "tab\tand\nline", "한국어 עברית", "<b>&amp;"])
def test_what_can_be_read_stays(text):
    assert readable(text) == text


def test_what_cannot_be_seen_is_shown():
    assert readable("a\x00b\x1b[0m\x7f\x9b\u202e\ud800\ufffe") == r"a\x00b\x1b[0m\u007f\u009b\u202e\ud800\ufffe"
    assert readable("one\r\ntwo\rthree") == "one\ntwo\nthree"
    assert readable("\ud800").encode()


def test_one_line_is_one_and_not_long():
    assert one_line(" a\n\tb  c ") == "a b c"
    assert len(one_line("x" * 100_000)) < 300
