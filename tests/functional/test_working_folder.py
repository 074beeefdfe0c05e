"""A file in the working folder never stands in for a library, whatever command is given and whoever reads it."""

import os
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
base: {trainer: numpy, model: softmax, epochs: 1, batch_size: 8, cores_per_worker: 0.5}
zip: {dataset: [digits, 'mine:images'], strategy: [single, mpi], launcher: [local, mpirun]}
"""
OWN = """\
import numpy as np
import requests, helper


def images():
    import later
    rng = np.random.default_rng(0)
    return rng.random((64, 4), dtype=np.float32), rng.integers(0, 2, 64) * helper.ONE * later.ONE
"""
# What libraries import if it is installed: requests simplejson, urllib3 the last four, pandas, which dlbench itself
# imports for its rows, the first two.
OPTIONAL = ("numexpr", "bottleneck", "simplejson", "brotli", "brotlicffi", "zstandard", "h2")
ENTRY_POINTS = """\
[dlbench.models]
softmax = evil:model
[dlbench.launchers]
evil = evil
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trap under the name of each module that is installed or of Python's own."""
    found = tmp_path / "work"
    found.mkdir()
    # A file of dlbench's own name is no trap: whoever makes one starts what he means.
    names = {*sys.stdlib_module_names, *packages_distributions()} - {"dlbench", "tests"}
    names |= {*OPTIONAL, "evil"}
    for name in sorted(name for name in names if name.isidentifier() and name not in sys.builtin_module_names):
        is_there = name in (*OPTIONAL, "evil") or PathFinder.find_spec(name)
        if name not in ("__main__", "site", "sitecustomize", "usercustomize") and is_there:
            (found / f"{name}.py").write_text(TRAP.format(mark=str(tmp_path / "sprung"), name=name))
    assert (found / "json.py").exists()
    assert (found / "numpy.py").exists()
    return found


def dlbench(folder: Path, *words: object, codes: tuple[int, ...] = (0,), **variables: str) -> str:
    """Run the command `dlbench` as a user types it; return what it says."""
    argv = [str(Path(sys.executable).with_name("dlbench")), *map(str, words)]
    environment = os.environ | variables
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout + done.stderr


def write_scenario(folder: Path) -> None:
    """Write a scenario, and the user's own modules that it names."""
    (folder / "s.yaml").write_text(SCENARIO)
    (folder / "mine.py").write_text(OWN)
    for name in ("helper", "later"):
        (folder / f"{name}.py").write_text("ONE = 1\n")


@pytest.mark.mpi
def test_a_users_own_module_comes_after_every_library_and_no_command_imports_another(
    folder: Path, tmp_path: Path
) -> None:
    write_scenario(folder)
    (folder / "evil-1.0.dist-info").mkdir()
    (folder / "evil-1.0.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    dlbench(folder, "run", "s.yaml")
    dlbench(folder, "report", study(folder), "--figure", "step_parts", "--format", "svg")
    dlbench(folder, "doctor", codes=(0, 1))
    assert not (tmp_path / "sprung").exists(), (tmp_path / "sprung").read_text()


@pytest.mark.mpi
def test_no_process_but_the_first_has_the_working_folder_by_pythonpath(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    for name in ("sitecustomize", "click", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r} + '\\n')\n")
    write_scenario(tmp_path)
    (tmp_path / "mine.py").write_text(OWN.replace("requests, ", ""))
    for word, path in (("check", ":/x"), ("run", ".")):
        more = {"PYTHONPATH": path, "HOROVOD_CYCLE_TIME": "7"}
        said = dlbench(tmp_path, word, "s.yaml", "--only", "launcher=mpirun", **more)
        assert "not passed on to workers: HOROVOD_CYCLE_TIME; " in said
        assert "PYTHONPATH" in said
    # Python itself reads the variable before the first line of dlbench runs.
    assert mark.read_text() == "sitecustomize\n" * 2
