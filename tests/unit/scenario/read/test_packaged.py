from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.scenario.read import packaged
from dlbench.scenario.read.scenario_file import read, read_with_text

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_each_is_a_file_of_the_checkout_and_no_copy() -> None:
    assert "quickstart" in packaged.names()
    for name in packaged.names():
        assert packaged.located(Path(name)).resolve() == ROOT / "scenarios" / f"{name}.yaml"


def test_a_name_is_read_as_its_file_is() -> None:
    path = ROOT / "scenarios" / "quickstart.yaml"
    found, text = read_with_text(Path("quickstart"), {})
    assert text == path.read_text(encoding="utf-8")
    assert (found.name, found.matrix) == ("quickstart", read(path).matrix)


def test_a_file_of_that_name_comes_first_and_a_folder_does_not() -> None:
    Path("quickstart").write_text("name: mine\nbase: {workers: 1}\n")
    assert read(Path("quickstart")).name == "mine"
    Path("quickstart").unlink()
    Path("quickstart").mkdir()
    assert read(Path("quickstart")).name == "quickstart"


def test_a_name_that_is_neither_gets_those_that_are_and_a_path_does_not() -> None:
    Path("sweep.yaml").touch()
    for name, near in (("quickstrat", "'quickstart'"), ("quickstart.yaml", "'quickstart'"), ("sweep", "'sweep.yaml'")):
        with pytest.raises(UserError) as caught:
            read(Path(name))
        assert (caught.value.where, ", ".join(packaged.names()) in caught.value.message) == (name, True)
        assert near in caught.value.hint
    for path in ("absent.yaml", "folder/absent", "."):
        with pytest.raises(UserError) as caught:
            read(Path(path))
        assert "quickstart" not in str(caught.value), path


def test_what_is_no_scenario_is_answered_with_the_command_that_was_meant() -> None:
    for name, text, said, hint in (
        ("train.py", "import keras\n", "train.py is a script", "dlbench init train.yaml --script train.py"),
        ("hosts", "node1 slots=4\n", "a scenario is a mapping", "dlbench run SCENARIO --hostfile hosts"),
        ("hosts", "node1:4\n", "a scenario is a mapping", "dlbench run SCENARIO --hostfile hosts"),
        ("job.yaml", "apiVersion: v1\nkind: MPIJob\n", "a manifest of Kubernetes ('MPIJob')", "docs/queues.md"),
    ):
        Path(name).write_text(text)
        with pytest.raises(UserError) as caught:
            read(Path(name))
        assert (said in caught.value.message, hint in caught.value.hint) == (True, True), text
