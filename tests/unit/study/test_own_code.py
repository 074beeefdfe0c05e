"""The checksum of a user's own code."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.study.own_code import code_checksum


def of(**settings: Any) -> str:
    return code_checksum(RunSpec(scenario="s", label="x", repeat=0, settings=Settings(**settings), options={}))


@pytest.mark.parametrize(
    "settings",
    [
        {"command": "python train.py --bs {batch_size}"},
        {"command": "bash start.sh"},
        {"command": "bash -c 'cd . && python train.py unused.py'"},
        {"model": "mine:build"},
        {"dataset": "mine:images.load"},
    ],
)
def test_it_changes_with_the_code_and_the_modules_beside_it(
    settings: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"train.py": "import layers\n", "start.sh": "python train.py\n", "mine.py": "import layers\n"}
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("layers.py").write_text("width = 1\n")
    Path("unused.py").write_text("width = 1\n")
    first = of(**settings)
    Path("unused.py").write_text("width = 2\n")
    assert len(first) == 16
    assert of(**settings, batch_size=7) == first
    Path("layers.py").write_text("width = 2\n")
    assert of(**settings) != first


@pytest.mark.parametrize(
    "settings",
    [{}, {"command": "./train --fast"}, {"command": "python {trainer}.py"}, {"command": "bash -c 'python gone.py'"}],
)
def test_there_is_none_without_own_code_that_can_be_read(settings: dict[str, str]) -> None:
    assert of(**settings) == ""
