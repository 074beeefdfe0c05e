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
