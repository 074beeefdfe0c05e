"""The wheel is all of dlbench: installed into an environment of its own, it works in an empty folder.

Libraries are those of the environment that runs the tests; dlbench itself comes from the wheel alone.
"""

import csv
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
# What a build reads.
FILES = ("pyproject.toml", "README.md")
FOLDERS = ("dlbench", "scenarios")
CACHE = "__pycache__"
QUICK = ["--set", "trainer=numpy", "--set", "epochs=2", "--set", "batch_size=256", "--set", "extend_window=false"]


def call(*argv: object, cwd: Path, code: int = 0) -> str:
    # The checkout must not be found; Open MPI's programs are those beside the Python that runs the tests.
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    variables["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    ended = subprocess.run(
        list(map(str, argv)), cwd=cwd, env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == code, (argv, ended.stdout, ended.stderr)
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel of a copy of the checkout, without a network."""
    folder = tmp_path_factory.mktemp("build")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / "source" / name, symlinks=True, ignore=shutil.ignore_patterns(CACHE))
    for name in FILES:
        shutil.copy(ROOT / name, folder / "source")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder / "dist"]
    call(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", *options, folder / "source", cwd=folder)
    (found,) = (folder / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment with dlbench from the wheel."""
    folder = tmp_path_factory.mktemp("installed") / "a venv"
    venv.create(folder, symlinks=True, with_pip=False)
    options = ["--no-deps", "--no-index", "--no-compile", "--quiet"]
    call(sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", *options, wheel, cwd=folder)
    # A line of a .pth file is a folder of modules; .pth files in it, such as that of an editable dlbench, are not read.
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def test_it_holds_every_file_of_the_package_but_documentation(wheel: Path) -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "dlbench").rglob("*") if path.is_file()}
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith("dlbench-")}
        quickstart = archive.read("dlbench/scenarios/quickstart.yaml")
    assert {name for name in files if CACHE not in name} - names == {"dlbench/records/COLUMNS.md"}
    assert quickstart == (ROOT / "scenarios/quickstart.yaml").read_bytes()


# The test above compares its files, the one below runs a scenario from it.
@pytest.mark.soak
@pytest.mark.mpi
@pytest.mark.slow
def test_it_works_in_an_empty_folder_without_a_checkout(environment: Path, tmp_path: Path) -> None:
    program = environment / "bin/dlbench"
    place = call(environment / "bin/python", "-c", "import dlbench; print(dlbench.__file__)", cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(environment)
    assert "9 runs" in call(program, "check", "quickstart", cwd=tmp_path)
    assert call(program, "run", "quickstart", "--dry-run", cwd=tmp_path).count("-m dlbench.worker") == 9
    assert list(tmp_path.iterdir()) == []
    assert "there are: quickstart" in call(program, "run", "quick", cwd=tmp_path, code=2)

    call(program, "run", "quickstart", *QUICK, "--set", "repeats=1", cwd=tmp_path)
    (study,) = (tmp_path / "studies").glob("quickstart-*")
    with (study / "runs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["strategy"], row["workers"], row["status"]) for row in rows} == {
        ("single", "1", "completed"), ("mpi", "1", "completed"), ("mpi", "2", "completed"),
    }  # fmt: skip
    assert all(float(row["train_time_s"]) > 0 and 0 < float(row["validation_accuracy"]) < 1 for row in rows)
    best = max(rows, key=lambda row: float(row["validation_accuracy"]))
    assert f"{float(best['validation_accuracy']):.3f}" in call(program, "show", cwd=tmp_path)
    call(program, "report", study, "--format", "png", cwd=tmp_path)
    page = (study / "report/report.html").read_text(encoding="utf-8")
    assert "<style>" in page
    assert len(re.findall(r"<script\b", page)) > 0
    assert (study / "report/accuracy.png").stat().st_size > 10_000


@pytest.mark.mpi
def test_init_writes_a_scenario_that_runs(environment: Path, tmp_path: Path) -> None:
    program = environment / "bin/dlbench"
    call(program, "init", "own.yaml", "--data", "digits", "--compare", "batch_size", "--workers", "1", cwd=tmp_path)
    call(program, "run", "own.yaml", *QUICK, "--set", "repeats=1", cwd=tmp_path)
    assert len(list(tmp_path.glob("studies/own-*/runs.csv"))) == 1
