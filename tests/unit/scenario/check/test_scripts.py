"""Scripts of a user's own: what dlbench cannot set in them is warned of before they run for hours."""

from pathlib import Path

import pytest

from dlbench.scenario.check.scripts import script_warnings
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import parse

HOOKED = "import dlbench.worker\n"


def found(text: str) -> str:
    return "\n".join(script_warnings(expand(parse(text, "s.yaml"), this_machine())))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("script", "command", "key", "is_said"),
    [
        (HOOKED, "python train.py", "batch_size: [8, 16]", True),
        (HOOKED + "run.batch_size", "python train.py", "batch_size: [8, 16]", False),
        (HOOKED, "python train.py --batch {batch_size}", "batch_size: [8, 16]", False),
        (HOOKED, "python train.py", "batch_size: [8]", False),
        (HOOKED, "python train.py", "learning_rate: [0.1, 0.2]", True),
        (HOOKED, "python train.py", "cores_per_worker: [0.5, 1]", False),
        (HOOKED, "python {model}.py", "batch_size: [8, 16]", False),
    ],
)
def test_a_setting_that_varies_is_mentioned(here: Path, script: str, command: str, key: str, is_said: bool) -> None:
    (here / "train.py").write_text(script)
    text = found(f'base: {{command: "{command}"}}\nmatrix: {{{key}}}\nbaseline: none\n')
    assert text.startswith(f"`{key.partition(':')[0]}` varies") is is_said
    assert bool(text) is is_said


def test_a_script_without_the_hook_is_named(here: Path) -> None:
    (here / "train.py").write_text("import keras\n")
    assert found("base: {command: python train.py}\n").startswith("train.py never mentions dlbench.worker")
    (here / "train.py").write_text(HOOKED)
    assert found("base: {command: python train.py}\n") == ""
    assert found("base: {command: python elsewhere.py}\n") == ""
    assert found("base: {command: ./train}\n") == ""
