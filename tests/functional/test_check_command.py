"""`dlbench check` as a user calls it: a process of its own, exit codes, messages, tables."""

import contextlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from dlbench.cli import group
from dlbench.scenario.cluster import this_machine
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import read
from dlbench.study.folder import StudyPlan, create

GRID = """\
base: {trainer: numpy, strategy: mpi, epochs: 20}
matrix:
  batch_size: [8, 16]
  workers: [1, 2]
order: written
repeats: 2
"""


def dlbench(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dlbench", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def check(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Call `dlbench check` in this process, which saves the start of one, with the same answers."""
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(group, ["check", *arguments])
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


@pytest.fixture(autouse=True)
def path_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back the folder that the command line adds, the one it is started in."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_every_run_is_a_line_and_the_last_line_counts_them(grid: Path) -> None:
    done = dlbench("check", str(grid), cwd=grid.parent)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["run", "repeat", "arm", "strategy"]
    assert [line.split()[0] for line in lines[1:13]] == [str(number) for number in range(1, 13)]
    assert lines[-1] == ("12 runs: 6 arms (2 of them base lines) x 2 repeats; no study shows yet how long they take")


def test_exclude_reads_an_option_as_its_plugin_does(tmp_path: Path) -> None:
    text = "base: {model: cnn}\nmatrix: {model.batch_norm: [none, local]}\nbaseline: none\n"
    (tmp_path / "s.yaml").write_text(text + "exclude: [{model.batch_norm: true}]\n")
    done = check("s.yaml", cwd=tmp_path)
    assert done.stdout.splitlines()[-1].startswith("1 run: 1 arm"), done.stdout + done.stderr


def test_only_and_hosts(grid: Path) -> None:
    done = check(str(grid), "--only", "workers=2", "--hosts", "localhost:2", cwd=grid.parent)
    assert "4 runs: 2 arms (0 of them base lines) x 2 repeats" in done.stdout
    away = check(str(grid), "--hosts", "a:2", cwd=grid.parent)
    assert {line.split()[-1] for line in away.stdout.splitlines() if "mpirun" in line} == {"?"}, away.stderr
    wrong = check(str(grid), "--hosts", "a:2 b:2", cwd=grid.parent)
    assert wrong.returncode == 2
    assert "hint: --hosts a:2,b:2" in wrong.stderr


def test_a_study_of_the_same_scenario_gives_the_time(grid: Path) -> None:
    scenario, cluster = read(grid), this_machine()
    runs = expand(scenario, cluster)
    study = create(grid.parent / "my studies", StudyPlan(scenario, GRID, runs, cluster, {}))
    rows = ["run_id,status,wall_time_s"]
    rows += [f"{run.run_id},completed,{10 + 10 * run.repeat}" for run in runs if run.settings.workers == 2]
    (study.path / "runs.csv").write_text("\n".join(rows) + "\n")
    done = check(str(grid), "--studies", "my studies", cwd=grid.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" 15 s\n") == 4
    assert "about 1 min 00 s for 4 of them; the others are not known" in done.stdout


def test_a_mistake_is_one_message_with_file_and_line(grid: Path) -> None:
    grid.write_text(GRID.replace("batch_size", "batchsize"))
    done = check(str(grid), cwd=grid.parent)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"dlbench: {grid}:3: unknown key 'batchsize'\n  hint: did you mean 'batch_size'?\n"


def test_the_lines_of_exclude_can_be_pasted(grid: Path) -> None:
    grid.write_text(GRID.replace("strategy: mpi, ", "").replace("matrix:", "matrix:\n  strategy: [single, mpi]"))
    refused = check(str(grid), cwd=grid.parent)
    assert refused.returncode == 2
    assert "2 of 8 points cannot be run" in refused.stderr
    lines = refused.stderr[refused.stderr.index("exclude:\n") :]
    grid.write_text(grid.read_text() + lines)
    fixed = check(str(grid), cwd=grid.parent)
    assert fixed.returncode == 0, fixed.stderr
    assert "12 runs: 6 arms (0 of them base lines)" in fixed.stdout


def test_warnings_go_to_the_error_stream(grid: Path) -> None:
    grid.write_text(GRID + "exclude:\n  - {workers: 7}\n")
    done = check(str(grid), cwd=grid.parent)
    assert done.returncode == 0
    assert f"warning: {grid}:8: exclude {{workers: 7}} matches no point\n" in done.stderr
    assert "warning" not in done.stdout


def test_odd_names_and_files_that_are_no_scenario(subtests: pytest.Subtests, tmp_path: Path) -> None:
    folder = tmp_path / "odd [folder]"
    folder.mkdir()
    for name in ["한국어 시나리오.yaml", "with 'quotes\" and spaces.yaml", "two\nlines.yaml", "-x.yaml"]:
        with subtests.test(name=name):
            (folder / name).write_text(GRID)
            done = check("--", name, cwd=folder)
            assert done.returncode == 0, done.stderr
    for content in [b"", b"\x7fELF\x02\x01\x01\x00\xff\xfe", b"\xff" * 100, b"%PDF-1.7\n%\xe2\xe3"]:
        with subtests.test(content=content):
            (folder / "s.yaml").write_bytes(content)
            done = check("s.yaml", cwd=folder)
            assert done.returncode == 2
            assert done.stderr.startswith("dlbench: s.yaml")
            assert "Traceback" not in done.stderr


OWN = """\
def network(problem, *, width: int = 8):
    from keras import Sequential, layers

    hidden = [layers.Flatten(), layers.Dense(width)]
    return Sequential([layers.Input(problem.input_shape), *hidden, layers.Dense(problem.num_classes)])


def typo(problem):
    from keras import layers

    return layers.Dens(3)


def softmax(problem):
    from keras import Sequential, layers

    return Sequential([layers.Input(problem.input_shape), layers.Dense(problem.num_classes, "softmax")])


def data(*, size: int = 20):
    import numpy as np

    print("a library says something")
    return np.zeros((size, 4), "float32"), np.arange(size) % 2


def broken(*, size: int = 20):
    return data(siz=size)


def nested(problem):
    from keras import Input, Model

    samples = Input(problem.input_shape)
    return Model(samples, softmax(problem)(samples))


def computed(problem):
    from keras import Input, Model, layers, ops

    samples = Input(problem.input_shape)
    return Model(samples, ops.sigmoid(layers.Dense(problem.num_classes)(samples)))


def bounded(problem):
    from keras import Sequential, constraints, layers

    last = layers.Dense(problem.num_classes, kernel_constraint=constraints.MaxNorm(1), name="kernel_of_mine")
    return Sequential([layers.Input(problem.input_shape), last])


def own(problem, *, has_gate: bool = False):
    from keras import Model, activations, layers

    class Own(Model):
        def __init__(self):
            super().__init__()
            self.end = layers.Dense(problem.num_classes, None if has_gate else "softmax")
            self.gate = layers.Dense(4, "softmax" if has_gate else "relu")
            self.activation = activations.get("sigmoid")

        def call(self, samples, training=False):
            return self.end(self.activation(self.gate(samples)))

    return Own()


def gated(problem):
    return own(problem, has_gate=True)
"""


def test_a_closed_pipe_is_no_traceback(grid: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "dlbench", "check", str(grid)], stdout=closed, stderr=subprocess.PIPE, timeout=60
        )
    assert b"Traceback" not in done.stderr


def test_the_schema_holds_for_every_scenario_here_and_refuses_what_is_wrong(root: Path) -> None:
    schema = Draft202012Validator(json.loads(CliRunner().invoke(group, ["schema"]).stdout))
    paths = sorted((root / "scenarios").glob("*.yaml"))
    assert paths
    for path in paths:
        assert schema.is_valid(yaml.safe_load(path.read_text())), path
    assert schema.is_valid(yaml.safe_load(GRID))
    assert schema.is_valid(yaml.safe_load("tune: {learning_rate: auto, epochs: 3, repeats: 2}"))
    for text in [
        "bas: {}",
        "base: {worker: 1}",
        "base: {workers: 0}",
        "base: {workers: two}",
        "base: {strategy: mpii}",
        "base: {batch_scope: globl}",
        "base: {model.hidden: 64}",
        "matrix: {workers: 2}",
        "matrix: {workers: []}",
        "matrix: {batch_scope: [global, locl]}",
        "zip: {workers: 1}",
        "include: {workers: 1}",
        "repeats: 0",
        "target: {metric: 5, value: 1}",
        "target: {metric: train_loss}",
        "tune: {learning_rate: [0.1], epochs: [3, 4]}",
        "tune: {momentum: auto}",
    ]:
        assert not schema.is_valid(yaml.safe_load(text)), text


def cpu_seconds(*arguments: str) -> float:
    """Return the least CPU time of three calls of Python."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_help_takes_little_more_than_its_library() -> None:
    assert cpu_seconds("-m", "dlbench", "--help") < 3 * cpu_seconds("-c", "import click, importlib.metadata")


@pytest.mark.tensorflow
def test_models_of_ones_own_are_built_once_before_any_run(tmp_path: Path) -> None:
    (tmp_path / "tried.py").write_text(OWN + "def bare(): pass\n")
    (tmp_path / "s.yaml").write_text(
        "base: {epochs: 1, batch_size: 4, dataset: tried:data}\n"
        "matrix: {model: [tried:network, tried:typo, tried:softmax, tried:nested, tried:computed, tried:own]}\n"
        "include: [{model: tried:network, model.width: 16}, {model: tried:gated}, {model: tried:bare},\n"
        "          {model: tried:gated, dataset: tried:broken},\n"
        "          {model: tried:bounded}, {model: tried:bounded, strategy: ring, workers: 2}]\n"
    )
    wrong = check("s.yaml", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "8 mistakes" in wrong.stderr
    assert "tried.py:11: AttributeError: module 'keras.layers' has no attribute 'Dens'" in wrong.stderr
    for name, kind in {"softmax": "softmax", "nested": "softmax", "computed": "sigmoid", "own": "softmax"}.items():
        assert f"'tried:{name}' ends with a {kind}" in wrong.stderr
    assert "tried:network" not in wrong.stderr.partition("dlbench: ")[2]
    assert "tried.py:28: TypeError" in wrong.stderr
    assert "has a constraint on weights, which strategies that send messages, and simulations," in wrong.stderr
    assert wrong.stderr.count("while tried:bounded") == 1
    assert wrong.stderr.count("def build(problem):") == 1
