"""Files of the user's own that runs are made from."""

from pathlib import Path

import pytest

from dlbench.hosts.agent import hashes
from dlbench.hosts.describe import user_files
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings


def run(**settings: object) -> RunSpec:
    return RunSpec(scenario="s", label="l", repeat=0, settings=Settings.model_validate(settings))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine_for_sources.py").write_text("def network(problem): ...\n")
    (tmp_path / "train it.py").write_text("pass\n")
    return tmp_path


def test_modules_and_scripts_are_named_as_from_here() -> None:
    made = [
        run(model="mine_for_sources:network", dataset="mine_for_sources:data"),
        run(command="python 'train it.py' --rate {learning_rate} absent.py"),
        run(command="python 'train it.py"),
        run(),
    ]
    assert user_files(made) == ("mine_for_sources.py", "train it.py")
    # What is installed with dlbench, or not there, is no file of the user's.
    assert user_files([run(dataset="keras:mnist", model="no_such_module_here:x")]) == ()


def test_hashes_differ_with_contents(here: Path) -> None:
    first = hashes(["train it.py", "absent.py"])
    assert first["absent.py"] is None
    (here / "train it.py").write_text("pass \n")
    assert hashes(["train it.py"])["train it.py"] not in (None, first["train it.py"])
