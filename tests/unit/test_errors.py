"""Texts that others wrote can be written into files and shown on a terminal."""

import pytest

from dlbench.errors import UserError, nearest, printable, shown


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("of\r\nWindows", "of\nWindows"),
        ("끝 “é” 🙂", "끝 “é” 🙂"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x9b2J\x7f\0", "\\u009b2J\\u007f\\x00"),
        ("\ud800 and \udcff", "\\ud800 and \\udcff"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
    ],
)
def test_what_steers_a_terminal_or_is_no_character_is_spelled_out(text: str, safe: str) -> None:
    assert printable(text) == safe
    assert printable(safe) == safe
    printable(text).encode()


def test_an_error_of_the_users_can_be_shown() -> None:
    error = UserError("\udcff", hint="\x1b[2J", where="a\x07b:1")
    assert str(error) == "a\\x07b:1: \\udcff\n  hint: \\x1b[2J"
    assert str(error).encode()


def test_a_number_too_long_to_write_is_shown_all_the_same() -> None:
    assert shown(10**5000) == "a whole number of thousands of digits"


def test_the_nearest_option_of_a_plugin_is_one_that_is_alike_after_the_dot() -> None:
    options = ["submitter.qos", "submitter.partition", "submitter.memory", "trainer"]
    for word, near in (
        ("submitter.partiton", options[1]),
        ("submitter.nodelist", ""),
        ("trainr", options[3]),
        ("x.y", ""),
    ):
        assert nearest(word, options) == (f"did you mean {near!r}?" if near else ""), word
    assert nearest("train.py", ["trian.py", "other.py"]) == "did you mean 'trian.py'?"
    for word, near in (("lr", "learning_rate"), ("bs", "batch_size"), ("model.nc", "model.num_classes"), ("l", "")):
        names = ["layers", "learning_rate", "batch_size", "model.num_classes"]
        assert nearest(word, names) == (f"did you mean {near!r}?" if near else ""), word
