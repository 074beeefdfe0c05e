"""A file in the working folder never stands in for a library, whatever command is given and whoever reads it."""

import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.functional.studies import study

TRAP = "from pathlib import Path\nPath({mark!r}).open('a').write({name!r} + ' ')\nraise ImportError('a trap')\n"
SCENARIO = """\
name: trapped
baseline: none
base: {{trainer: numpy, model: softmax, dataset: '{dataset}', epochs: 1, batch_size: 8, cores_per_worker: 0.5}}
zip: {{strategy: [single, mpi], launcher: [local, mpirun], workers: [1, 2]}}
"""
OWN = """\
import numpy as np
import helper


def images():
    rng = np.random.default_rng(0)
    return rng.random((64, 4), dtype=np.float32), rng.integers(0, 2, 64) * helper.ONE
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trap under the name of each module that is installed or of Python's own."""
    found = tmp_path / "work"
    found.mkdir()
    # A file of dlbench's own name is no trap: whoever makes one starts what he means.
    names = {*sys.stdlib_module_names, *packages_distributions()} - {"dlbench", "tests"}
    for name in sorted(name for name in names if name.isidentifier() and name not in sys.builtin_module_names):
        if name not in ("__main__", "site", "sitecustomize", "usercustomize") and PathFinder.find_spec(name):
            (found / f"{name}.py").write_text(TRAP.format(mark=str(tmp_path / "sprung"), name=name))
    assert (found / "json.py").exists()
    assert (found / "numpy.py").exists()
    return found


def dlbench(folder: Path, *words: object) -> str:
    """Run the command `dlbench` as a user types it; return what it says."""
    argv = [str(Path(sys.executable).with_name("dlbench")), *map(str, words)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.mpi
def test_no_command_imports_from_the_working_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "s.yaml").write_text(SCENARIO.format(dataset="digits"))
    dlbench(folder, "check", "s.yaml")
    dlbench(folder, "run", "s.yaml")
    dlbench(folder, "report", study(folder))
    assert not (tmp_path / "sprung").exists(), (tmp_path / "sprung").read_text()


@pytest.mark.mpi
def test_a_users_own_module_comes_after_every_library(folder: Path, tmp_path: Path) -> None:
    (folder / "s.yaml").write_text(SCENARIO.format(dataset="mine:images"))
    (folder / "mine.py").write_text(OWN)
    (folder / "helper.py").write_text("ONE = 1\n")
    dlbench(folder, "run", "s.yaml")
    assert not (tmp_path / "sprung").exists(), (tmp_path / "sprung").read_text()


def test_doctor_imports_nothing_from_the_working_folder(folder: Path, tmp_path: Path) -> None:
    argv = [str(Path(sys.executable).with_name("dlbench")), "doctor"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert not (tmp_path / "sprung").exists(), (tmp_path / "sprung").read_text()
