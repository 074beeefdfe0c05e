"""What the README and docs/ show works: files are taken out of the pages, commands are called."""

import csv
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from dlbench.cli import report
from tests.functional.mpi_programs.launch import BASE
from tests.functional.studies import Bench, rows
from tests.functional.worker_runs import MPI

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# `name`: and then a block of code.
FILES = re.compile(r"^`([\w.-]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+?)(?:#[^)]*)?\)")
# The README's study, and what is added to its command so that it ends soon: one run, after its search.
README_RUN = ("run", "pays.yaml", "--report")
SOON = ("--set", "extend_window=false", "--set", "epochs=2")
ONE_RUN = (
    *("--repeats", "1", "--only", "batch_size=256", "--only", "workers=1"),
    *("--set", "baseline=none", "--set", "tune.learning_rate=[0.1]", *SOON),
)


def write_files(folder: Path) -> None:
    """Write the files of all pages."""
    for page in PAGES:
        for name, content in FILES.findall(page.read_text(encoding="utf-8")):
            assert not (folder / name).exists(), f"{name} is on two pages"
            (folder / name).write_text(content, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that holds the files of all pages."""
    write_files(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    return tmp_path


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of studies with the README's, made once for all pages: other commands look at it."""
    folder = tmp_path_factory.mktemp("looked-at")
    write_files(folder)
    with pytest.MonkeyPatch.context() as patch:  # all figures are drawn in `test_report_command`
        patch.setattr("dlbench.cli.run.draw", partial(report.draw, figures=("learning_curves",)))
        dlbench(folder, *README_RUN, *ONE_RUN)
    (study,) = (folder / "studies").iterdir()
    assert (study / "report" / "learning_curves.svg").exists()
    return folder / "studies"


def call(folder: Path, *argv: str) -> None:
    # Open MPI leaves the segment of a process that mpirun has not started.
    variables = BASE | {"OMPI_MCA_btl_sm_backing_directory": str(folder)}
    ended = subprocess.run(
        argv, cwd=folder, env=os.environ | variables, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, (argv, ended.stdout, ended.stderr)


def dlbench(folder: Path, command: str, *words: str, code: int = 0) -> str:
    return Bench(folder).call(*words, command=command, code=code)


def test_links_lead_somewhere() -> None:
    dead = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in [*PAGES, *(ROOT / "results").glob("**/README.md"), *(ROOT / "scenarios").glob("**/README.md")]
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert dead == []


def test_files_are_found_and_valid(folder: Path) -> None:
    found = {path.name for path in folder.iterdir() if path.is_file()}
    assert found == {
        "pays.yaml", "first.yaml", "cluster.yaml", "slurm.yaml", "kubernetes.yaml",
        "mine.py", "mine.yaml", "train.py", "own-script.yaml", "printing.yaml", "ddp.py",
        "ddp.yaml", "keras_fit.py", "keras-fit.yaml",
    }  # fmt: skip
    for name in found:
        if name.endswith(".py"):
            compile((folder / name).read_text(encoding="utf-8"), name, "exec")
        else:
            assert yaml.safe_load((folder / name).read_text(encoding="utf-8")), name
    assert "runs:" in dlbench(folder, "check", "first.yaml", "--cluster", "cluster.yaml")


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if SHELL.search(page.read_text())], ids=lambda page: page.stem)
def test_commands_work(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    """Every command of a page's `sh` blocks, in order; a run that is not made short is only rehearsed."""
    blocks = SHELL.findall(page.read_text(encoding="utf-8"))
    for line in (line for block in blocks for line in block.splitlines()):
        program, command, *words = shlex.split(line, comments=True)
        assert program == "dlbench", line
        words = [path for word in words for path in (map(str, folder.glob(word)) if "*" in word else [word])]
        if "--resume" in words:  # there is nothing to continue
            continue
        if (command, *words) == README_RUN:
            request.getfixturevalue("studies")
            continue
        if (command in ("show", "logs", "export") or words == ["studies"]) and not (folder / "studies").exists():
            shutil.copytree(request.getfixturevalue("studies"), folder / "studies", symlinks=True)
        if words == ["mine.yaml"]:  # it is trained below; the model that `check` would build, `test_check_command` has
            command = "run"
        words = ["mlp-mpi" if word == "RUN" else word for word in words]
        if command == "run" and "--dry-run" not in words:
            words.append("--dry-run")
        if command == "fit":
            words += ["--workers", "24"]  # each has few samples, so few sizes are tried
        if command == "report" and "--figure" not in words:
            words += ["--figure", "efficiency"]
        # Hosts of these names do not exist, as the doctor says; it may find fault with this machine as well.
        if command == "doctor":
            dlbench(folder, command, *(words or ["--help"]), code=1 if words else 0)
        else:
            dlbench(folder, command, *words)


@pytest.mark.soak  # that the hook then does nothing is tested with other scripts
@pytest.mark.mpi
@pytest.mark.tensorflow
def test_the_scripts_work_outside_dlbench(folder: Path) -> None:
    call(folder, *MPI, "2", sys.executable, "train.py")
    call(folder, sys.executable, "keras_fit.py")


@pytest.mark.mpi
@pytest.mark.slow
def test_the_script_is_a_run(folder: Path) -> None:
    # Importing scikit-learn takes longer than all else here: its file of the digits is read without.
    package = importlib.util.find_spec("sklearn")
    assert package
    assert package.origin
    digits = str(Path(package.origin).with_name("datasets") / "data" / "digits.csv.gz")
    (folder / "digits_file.py").write_text(
        "import numpy\n\ndef load_digits(return_X_y):\n"
        f"    rows = numpy.loadtxt({digits!r}, delimiter=',')\n"
        "    return rows[:, :-1], rows[:, -1].astype(int)\n"
    )
    text, line = (folder / "train.py").read_text(encoding="utf-8"), "from sklearn.datasets import load_digits"
    assert line in text
    (folder / "train.py").write_text(text.replace(line, "from digits_file import load_digits"), "utf-8")
    scenario = folder / "own-script.yaml"
    scenario.write_text(scenario.read_text().replace("epochs: 2000", "epochs: 8"))
    dlbench(folder, "run", "own-script.yaml", "--only", "workers=2", "--only", "batch_size=16")
    (row,) = rows(folder)
    assert (row["status"], row["workers_agree"], row["epochs_completed"]) == ("completed", "exact", "8")
    assert float(row["validation_accuracy"]) > 0.9
    assert float(row["communication_time_s"]) > 0


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_model_and_a_data_set_of_ones_own_are_trained(folder: Path) -> None:
    dlbench(
        folder, "run", "mine.yaml", "--only", "model.width=16", "--set", "strategy=single", "--set", "workers=1", *SOON
    )
    (row,) = rows(folder)
    assert (row["status"], row["model"], row["dataset"]) == ("completed", "mine:network", "mine:moons")
    assert float(row["validation_accuracy"]) > 0.8


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_script_that_calls_fit_is_a_run(folder: Path) -> None:
    path = folder / "keras_fit.py"
    script = path.read_text(encoding="utf-8")
    path.write_text(script.replace("callbacks=[", "callbacks=[keras.callbacks.CSVLogger('told.csv'), "), "utf-8")
    dlbench(folder, "run", "keras-fit.yaml", "--set", "epochs=3", "--set", "repeats=1", "--only", "batch_size=256")
    (row,) = rows(folder)
    steps, epochs = rows(folder, "steps"), rows(folder, "epochs")
    assert (row["status"], row["epochs_completed"], row["samples_seen"]) == ("completed", "3", str(3 * 1437))
    assert row["num_parameters"] == str(64 * 32 + 32 + 32 * 10 + 10)
    assert [int(step["num_samples"]) for step in steps] == 3 * [*5 * [256], 157]
    # What Keras itself writes of each epoch: mean loss and scores.
    with (folder / "told.csv").open(newline="") as file:
        told_by_keras = list(csv.DictReader(file))
    for epoch, told in zip(epochs, told_by_keras, strict=True):
        own = [step for step in steps if step["epoch"] == epoch["epoch"]]
        total = sum(float(step["loss"]) * int(step["num_samples"]) for step in own)
        assert total / 1437 == pytest.approx(float(told["loss"]), rel=1e-4)
        assert float(epoch["validation_loss"]) == pytest.approx(float(told["val_loss"]), rel=1e-4)
        assert float(epoch["validation_accuracy"]) == pytest.approx(float(told["val_accuracy"]), abs=1.5 / 360)
