"""The script `scenarios/from_python.py` runs as it is, but for fewer repeats and batch sizes."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_study_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "scenarios" / "from_python.py").read_text()
    for whole, part in (('"repeats": 5,', '"repeats": 3,'), ("[16, 64, 256]", "[16, 256]")):
        assert whole in text
        text = text.replace(whole, part)
    (tmp_path / "from_python.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    # All figures of a report are drawn in `test_report_command`.
    monkeypatch.setattr("dlbench.report.write._names", lambda request: list(request.figures))
    monkeypatch.setattr(sys, "argv", ["from_python.py", str(tmp_path / "studies")])
    runpy.run_path("from_python.py", run_name="__main__")
    printed = capsys.readouterr().out
    (study,) = (tmp_path / "studies").iterdir()
    assert "completed    6" in printed
    assert "batch 256 against 16: loses" in printed
    assert "of the best: batch" in printed
    assert (study / "learning_curves.png").stat().st_size > 10_000
    assert printed.splitlines()[-1] == str(study / "report" / "report.html")
    assert (study / "report" / "report.html").is_file()
