"""`dlbench report` as a user calls it, on studies that were really run."""

import contextlib
import csv
import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import psutil
import pytest
from click.testing import CliRunner

import dlbench
from dlbench.cli import group
from dlbench.errors import UserError
from tests.functional.waiting import wait_until

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
FIXTURE = ROOT / "tests" / "fixtures" / "study-v3"
STUDIES = [RESULTS / "kim2018-four-hosts-small", RESULTS / "kim2018-two-hosts-small"]


def report(*words: object) -> tuple[int, str, str]:
    """Call the command in this process, which saves a start of it."""
    done = CliRunner().invoke(group, ["report", *map(str, words)])
    assert "Traceback" not in done.stderr, done.stderr
    return done.exit_code, done.stdout, done.stderr


def test_one_figure_in_one_format_and_its_table_of_what_was_measured(tmp_path: Path) -> None:
    study = tmp_path / "a study"
    shutil.copytree(RESULTS / "digits-batch-workers", study)
    code, output, errors = report(study, "--figure", "throughput", "--format", "png", "--style", "dark")
    assert (code, errors) == (0, ""), output + errors
    assert {path.name for path in (study / "report").iterdir()} == {"throughput.png", "throughput.csv"}
    assert matplotlib.image.imread(study / "report" / "throughput.png").shape[0] > 200
    with (study / "report" / "throughput.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    runs = dlbench.load_study(study).runs
    rates = runs["samples_per_s"].dropna()
    shown = [float(row["value"]) for row in rows if row["role"] == "measured"]
    assert shown
    assert all(rates.min() <= value <= rates.max() for value in shown)


def test_mistakes(subtests: pytest.Subtests, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for study, output, words, message in [
        (FIXTURE, "report", ["--figure", "thruput"], "throughput"),
        (FIXTURE, "report", ["--format", "gif", "--figure", "learning-curves"], "there are: png, svg"),
        (FIXTURE, "report", ["--style", "neon", "--figure", "learning-curves"], "light"),
        (FIXTURE, "file/report", ["--figure", "learning-curves"], "cannot be written"),
        (tmp_path / "empty", "report", ["--figure", "learning-curves"], "runs.csv"),
    ]:
        with subtests.test(output=output, words=words):
            code, said, errors = report(study, "--output", tmp_path / output, *words)
            assert code == 2, said
            assert message in errors
            assert not (tmp_path / "report").exists()


def test_figures_and_arms_from_python(tmp_path: Path) -> None:
    study = dlbench.load_study(ROOT / "results" / "dividing")
    assert study.record is None
    assert study.machine["cpu"]["model"]
    arms = study.arms
    assert set(arms["metric"]) >= {"samples_per_s", "validation_accuracy", "efficiency"}
    assert (arms["n"] <= 5).all()
    figure = study.figure("learning-curves")
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    with pytest.raises(UserError, match="cannot be drawn"):
        study.figure("up-against-out")


def test_ctrl_c_ends_it_and_its_drawing_processes(tmp_path: Path) -> None:
    study, folder = STUDIES[0], tmp_path / "report"
    argv = [sys.executable, "-m", "dlbench", "report", str(study), "--output", str(folder)]
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            wait_until(folder.exists)
            drawing = psutil.Process(process.pid).children()
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    # Where it struck in an `exec`, as dataclasses are made, Python ends itself by the signal: 130 to a shell, too.
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors
    assert psutil.wait_procs(drawing, timeout=60)[1] == []


def test_progress_of_several_studies_is_one_line_on_a_terminal(tmp_path: Path) -> None:
    figures = ("--figure", "throughput", "--figure", "training_time", "--format", "svg")
    shown = on_terminal(*STUDIES, *figures, "--output", tmp_path)
    assert "drawing 2 of 2 figures" in shown
    left = shown.replace("\r\n", "\n").split("\n")
    assert sum("drawing" in line for line in left) == 1  # each state replaces the one before it
    assert left[-2].endswith(f"4 files in {tmp_path}")
    with (tmp_path / "throughput.csv").open(newline="") as file:
        panels = {row["panel"] for row in csv.DictReader(file)}
    assert {panel.split("cores_per_worker=")[1].split(",")[0] for panel in panels} == {"0.5", "1"}, "of both studies"


def on_terminal(*words: object) -> str:
    """Return what `dlbench report` writes to a terminal."""
    mine, its = os.openpty()
    with io.FileIO(mine) as terminal:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200"}
        core = str(min(os.sched_getaffinity(0)))  # on one core one process draws
        argv = ["taskset", "-c", core, sys.executable, "-m", "dlbench", "report", *map(str, words)]
        with subprocess.Popen(argv, stdout=its, stderr=its, env=environment, cwd=ROOT) as process:
            os.close(its)
            found = bytearray()
            with contextlib.suppress(OSError):  # the terminal ends with the program
                while part := terminal.read(4096):
                    found += part
        assert process.returncode == 0
    return found.decode()
