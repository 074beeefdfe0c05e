"""What the README shows runs as it stands there: its files are taken out of it, and its commands are called."""

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.mpi_programs.launch import BASE
from tests.functional.worker_runs import MPI

# `name`: and then a block of code.
FILES = re.compile(r"^`([\w.-]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    """Return a folder that holds the README's files."""
    for name, content in FILES.findall((root / "README.md").read_text(encoding="utf-8")):
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "results").symlink_to(root / "results")
    return tmp_path


def call(folder: Path, *argv: str, code: int = 0) -> str:
    ended = subprocess.run(
        argv, cwd=folder, env=os.environ | BASE, capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == code, (argv, ended.stdout, ended.stderr)
    return ended.stdout


def dlbench(folder: Path, *words: str, code: int = 0) -> str:
    return call(folder, sys.executable, "-m", "dlbench", *words, code=code)


def rows(folder: Path) -> list[dict[str, str]]:
    (table,) = folder.glob("studies/*/runs.csv")
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_file_is_found(folder: Path) -> None:
    assert {path.name for path in folder.iterdir() if path.is_file()} == {
        "first.yaml", "mine.py", "mine.yaml", "train.py", "own-script.yaml", "cluster.yaml",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["first.yaml", "mine.yaml", "own-script.yaml"])
def test_scenarios_are_valid(folder: Path, name: str) -> None:
    assert "runs:" in dlbench(folder, "check", name)


def test_the_cluster_file_is_valid(folder: Path) -> None:
    assert "runs:" in dlbench(folder, "check", "first.yaml", "--cluster", "cluster.yaml")


@pytest.mark.timeout(900)
def test_commands_exist(root: Path, folder: Path) -> None:
    blocks = SHELL.findall((root / "README.md").read_text(encoding="utf-8"))
    commands = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert len(commands) >= 5
    for program, command, *words in commands:
        assert program == "dlbench"
        rehearsal = ["--dry-run"] if command == "run" and "--dry-run" not in words else []
        # Hosts of that name are not there, as the doctor says; of this machine it may find fault as well.
        if command == "doctor":
            dlbench(folder, command, *(words or ["--help"]), code=1 if words else 0)
        elif "--resume" not in words:
            dlbench(folder, command, *words, *rehearsal)


@pytest.mark.mpi
def test_the_script_works_outside_dlbench(folder: Path) -> None:
    call(folder, sys.executable, "train.py")
    call(folder, *MPI, "2", sys.executable, "train.py")


@pytest.mark.mpi
@pytest.mark.slow
def test_the_script_is_a_run(folder: Path) -> None:
    scenario = folder / "own-script.yaml"
    scenario.write_text(scenario.read_text().replace("epochs: 2000", "epochs: 20"))
    dlbench(folder, "run", "own-script.yaml", "--only", "workers=2", "--only", "batch_size=16")
    (row,) = rows(folder)
    assert (row["status"], row["workers_agree"], row["epochs_completed"]) == ("completed", "exact", "20")
    assert float(row["validation_accuracy"]) > 0.9
    assert float(row["communication_time_s"]) > 0


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_model_and_a_data_set_of_ones_own_are_trained(folder: Path) -> None:
    dlbench(folder, "run", "mine.yaml", "--only", "model.width=16", "--only", "workers=2")
    (row,) = rows(folder)
    assert (row["status"], row["model"], row["dataset"]) == ("completed", "mine:network", "mine:moons")
    assert float(row["validation_accuracy"]) > 0.8
