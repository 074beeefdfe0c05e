import sys

import pytest

from dlbench.cli import tables


def test_columns_are_aligned_by_the_width_of_letters() -> None:
    text = tables.plain(("name", "n"), [("한국어", "1"), ("a", "22")])
    assert text == "name    n\n한국어  1\na       22"


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show("title", ("a", "b"), [("x" * 300, "[bold]y[/bold]")])
    assert capsys.readouterr().out == f"a{' ' * 299}  b\n{'x' * 300}  [bold]y[/bold]\n"


def test_a_terminal_gets_a_drawn_table_with_brackets_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    tables.show("my [title]", ("arm", "b"), [("model.hidden=[64]", "1")])
    shown = capsys.readouterr().out
    assert "my [title]" in shown
    assert "model.hidden=[64]" in shown


def test_durations() -> None:
    cases = {
        None: "", 0.12: "0.1 s", 9.94: "9.9 s", 9.96: "10 s", 42.4: "42 s", 59.6: "1 min 00 s", 61: "1 min 01 s",
        3599: "59 min 59 s", 3725: "1 h 02 min",
    }  # fmt: skip
    assert {seconds: tables.duration(seconds) for seconds in cases} == cases
