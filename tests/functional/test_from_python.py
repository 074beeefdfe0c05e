"""The script `scenarios/from_python.py` runs as it is, but for fewer repeats and batch sizes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_a_study_from_python(tmp_path: Path) -> None:
    text = (ROOT / "scenarios" / "from_python.py").read_text()
    for whole, part in (('"repeats": 5,', '"repeats": 3,'), ("[16, 64, 256]", "[16, 256]")):
        assert whole in text
        text = text.replace(whole, part)
    (tmp_path / "from_python.py").write_text(text)
    argv = [sys.executable, "from_python.py", str(tmp_path / "studies")]
    done = subprocess.run(argv, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    (study,) = (tmp_path / "studies").iterdir()
    assert "completed    6" in done.stdout
    assert "batch 256 against 16: loses" in done.stdout
    assert "of the best: batch" in done.stdout
    assert (study / "learning_curves.png").stat().st_size > 10_000
    assert done.stdout.splitlines()[-1] == str(study / "report" / "report.html")
    assert (study / "report" / "report.html").is_file()
