"""Where a script's process is among all: torchrun's variables, on one host and on several."""

import json
from pathlib import Path

import pytest

from dlbench.records.assignment import Assignment
from dlbench.worker.script.command import mentions_hook, process_group
from tests.unit.launch import fakes

HOSTS = ("a", "a", "b")


def assignment(*addresses: str, tf_config: bool = False) -> Assignment:
    made = fakes.assignment(3, command="./train", strategy="mpi")
    run = made.run.model_copy(update={"tf_config": tf_config})
    return made.model_copy(update={"run": run, "layout": fakes.layout(*HOSTS), "addresses": addresses})


def test_every_process_knows_its_place() -> None:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    given = assignment("a:1000", "a:1001", "b:1000")
    seen = [[process_group(given, rank)[name] for name in names] for rank in range(3)]
    assert seen == [["0", "3", "0", "2", "0"], ["1", "3", "1", "2", "0"], ["2", "3", "0", "1", "1"]]
    assert {process_group(given, rank)["MASTER_ADDR"] for rank in range(3)} == {"a"}
    assert {process_group(given, rank)["MASTER_PORT"] for rank in range(3)} == {"1000"}
    assert "TF_CONFIG" not in process_group(given, 0)
    assert "MASTER_ADDR" not in process_group(assignment(), 0)


def test_the_port_that_torchrun_holds_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    variables = process_group(assignment("a:1000"), 1)
    assert "MASTER_ADDR" not in variables
    assert variables["RANK"] == "1"


def test_accelerate_and_keras_connect_workers_on_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    given, name = assignment("a:1000", "a:1001", "b:1000"), "ACCELERATE_USE_CPU"
    monkeypatch.delenv(name, raising=False)
    for has_gpu, devices, value in ((True, (), None), (False, ("nul[l]",), None), (False, (), "true")):
        monkeypatch.setattr("dlbench.worker.script.command.nvml.available", lambda it=has_gpu: it)
        monkeypatch.setattr("dlbench.worker.script.command._DEVICES", devices)
        assert process_group(given, 1).get(name) == value
    places = {"layout": fakes.layout("a")}
    assert name not in process_group(given.model_copy(update=places), 0)
    monkeypatch.setenv(name, "false")
    assert name not in process_group(given, 1)
    of_keras = {key: value for key, value in process_group(given, 1).items() if key.startswith("KERAS_DISTRIBUTION_")}
    assert [*of_keras.values()] == ["a:1000", "3", "1"]


def test_an_address_of_ipv6_stands_in_brackets_only_beside_a_port() -> None:
    assert process_group(assignment("[fd00::1]:1000"), 0)["MASTER_ADDR"] == "fd00::1"


def test_tensorflow_gets_all_addresses() -> None:
    given = assignment("a:1000", "a:1001", "b:1000", tf_config=True)
    assert json.loads(process_group(given, 2)["TF_CONFIG"]) == {
        "cluster": {"worker": ["a:1000", "a:1001", "b:1000"]},
        "task": {"type": "worker", "index": 2},
    }


def test_a_script_that_names_the_hook_reports_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("with.py").write_text("import dlbench.worker\n")
    Path("without.py").write_text("import keras\n")
    Path("run.sh").write_text("exec python with.py\n")
    for words, is_so in (
        (("python", "with.py", "--lr", "1"), True),
        (("python", "without.py"), False),
        (("bash", "run.sh"), True),
        (("bash", "-c", "python with.py; true"), True),
        (("python", "-m", "with"), False),
        (("./train",), False),
    ):
        assert mentions_hook(words) is is_so, words
