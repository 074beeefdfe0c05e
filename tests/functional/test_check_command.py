"""`dlbench check` as a user calls it: a process of its own, exit codes, messages, tables."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlbench.scenario.cluster import this_machine
from dlbench.scenario.expand import expand
from dlbench.scenario.read import read
from dlbench.study.folder import Question, create

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


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


def test_every_run_is_a_line_and_the_sum_is_said(grid: Path) -> None:
    done = dlbench("check", str(grid), cwd=grid.parent)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["run", "repeat", "arm", "strategy"]
    assert [line.split()[0] for line in lines[1:13]] == [str(number) for number in range(1, 13)]
    assert lines[-1] == ("12 runs: 6 arms (2 of them base lines) x 2 repeats; no study tells yet how long they take")


def test_exclude_reads_an_option_as_its_plugin_does(tmp_path: Path) -> None:
    text = "base: {model: cnn}\nmatrix: {model.batch_norm: [none, local]}\nbaseline: none\n"
    (tmp_path / "s.yaml").write_text(text + "exclude: [{model.batch_norm: true}]\n")
    done = dlbench("check", "s.yaml", cwd=tmp_path)
    assert done.stdout.splitlines()[-1].startswith("1 run: 1 arm"), done.stdout + done.stderr


def test_only_and_hosts(grid: Path) -> None:
    done = dlbench("check", str(grid), "--only", "workers=2", "--hosts", "localhost:2", cwd=grid.parent)
    assert "4 runs: 2 arms (0 of them base lines) x 2 repeats" in done.stdout
    wrong = dlbench("check", str(grid), "--hosts", "a:2 b:2", cwd=grid.parent)
    assert wrong.returncode == 2
    assert "hint: --hosts a:2,b:2" in wrong.stderr


def test_a_study_of_the_same_scenario_tells_the_time(grid: Path) -> None:
    scenario, cluster = read(grid), this_machine()
    runs = expand(scenario, cluster)
    study = create(grid.parent / "my studies", Question(scenario, GRID, runs, cluster, {}))
    rows = ["run_id,status,wall_time_s"]
    rows += [f"{run.run_id},completed,{10 + 10 * run.repeat}" for run in runs if run.settings.workers == 2]
    (study.path / "runs.csv").write_text("\n".join(rows) + "\n")
    done = dlbench("check", str(grid), "--studies", "my studies", cwd=grid.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" 15 s\n") == 4
    assert "about 60 s for 4 of them; the others are not known" in done.stdout


def test_a_mistake_is_one_message_with_file_and_line(grid: Path) -> None:
    grid.write_text(GRID.replace("batch_size", "batchsize"))
    done = dlbench("check", str(grid), cwd=grid.parent)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"dlbench: {grid}:3: unknown key 'batchsize'\n  hint: did you mean 'batch_size'?\n"


def test_the_ready_lines_can_be_pasted(grid: Path) -> None:
    grid.write_text(GRID.replace("strategy: mpi, ", "").replace("matrix:", "matrix:\n  strategy: [single, mpi]"))
    refused = dlbench("check", str(grid), cwd=grid.parent)
    assert refused.returncode == 2
    assert "2 of 8 points cannot be run" in refused.stderr
    lines = refused.stderr[refused.stderr.index("exclude:\n") :]
    grid.write_text(grid.read_text() + lines)
    mended = dlbench("check", str(grid), cwd=grid.parent)
    assert mended.returncode == 0, mended.stderr
    assert "12 runs: 6 arms (0 of them base lines)" in mended.stdout


def test_warnings_go_to_the_error_stream(grid: Path) -> None:
    grid.write_text(GRID + "exclude:\n  - {workers: 7}\n")
    done = dlbench("check", str(grid), cwd=grid.parent)
    assert done.returncode == 0
    assert f"warning: {grid}:8: exclude {{workers: 7}} matches no point\n" in done.stderr
    assert "warning" not in done.stdout


@pytest.mark.parametrize(
    "name", ["한국어 시나리오.yaml", "with 'quotes\" and spaces.yaml", "two\nlines.yaml", "-x.yaml"]
)
def test_odd_names(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "odd [folder]"
    folder.mkdir()
    (folder / name).write_text(GRID)
    done = dlbench("check", "--", name, cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01\x01\x00\xff\xfe", b"\xff" * 100, b"%PDF-1.7\n%\xe2\xe3"])
def test_files_that_are_no_scenario(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_bytes(content)
    done = dlbench("check", "s.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("dlbench: s.yaml")
    assert "Traceback" not in done.stderr


def test_a_model_of_the_users_own_is_found_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "my_networks.py").write_text('def net(problem, *, width: int = 8):\n    """My net."""\n')
    text = "base: {model: 'my_networks:net', dataset: synthetic}\nmatrix:\n  model.width: [8, 16]\n"
    (tmp_path / "s.yaml").write_text(text)
    done = dlbench("check", "s.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "model.width=16" in done.stdout
    (tmp_path / "s.yaml").write_text(text.replace("model.width", "model.wdth"))
    wrong = dlbench("check", "s.yaml", cwd=tmp_path)
    assert (wrong.returncode, "did you mean 'model.width'?" in wrong.stderr) == (2, True)


def test_a_closed_pipe_is_no_traceback(grid: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "dlbench", "check", str(grid)], stdout=closed, stderr=subprocess.PIPE, timeout=60
        )
    assert b"Traceback" not in done.stderr


def faults(value: Any, schema: dict[str, Any], whole: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a value by the part of JSON Schema that ours is written in."""
    if "$ref" in schema:
        yield from faults(value, whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole)
    if "anyOf" in schema and all(list(faults(value, one, whole)) for one in schema["anyOf"]):
        yield f"{value!r} is none of several"
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        yield f"{value!r} is no {schema['type']}"
        return
    yield from _scalar_faults(value, schema)
    if isinstance(value, list):
        yield from (fault for one in value for fault in faults(one, schema.get("items", {}), whole))
    if isinstance(value, dict):
        yield from _mapping_faults(value, schema, whole)


def _scalar_faults(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"{value!r} is not in {schema['enum']}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_low = value < schema.get("minimum", value) or value <= schema.get("exclusiveMinimum", value - 1)
        is_high = value > schema.get("maximum", value) or value >= schema.get("exclusiveMaximum", value + 1)
        if is_low or is_high:
            yield f"{value!r} is out of range"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{value!r} does not match"
    if isinstance(value, list) and len(value) < schema.get("minItems", 0):
        yield "too short"


def _mapping_faults(value: dict[str, Any], schema: dict[str, Any], whole: dict[str, Any]) -> Iterator[str]:
    yield from (f"{key} is missing" for key in schema.get("required", []) if key not in value)
    for key, inner in value.items():
        found = [schema.get("properties", {}).get(key)]
        found += [one for pattern, one in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
        found = [one for one in found if one is not None]
        if not found and schema.get("additionalProperties") is False:
            yield f"unknown key {key!r}"
        yield from (fault for one in found for fault in faults(inner, one, whole))


TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def test_the_schema_holds_for_every_scenario_here(root: Path, tmp_path: Path) -> None:
    schema = json.loads(dlbench("schema", cwd=tmp_path).stdout)
    paths = sorted((root / "scenarios").glob("*.yaml"))
    assert paths
    for path in paths:
        assert not list(faults(yaml.safe_load(path.read_text()), schema, schema)), path


def test_the_schema_refuses_what_is_wrong(tmp_path: Path) -> None:
    schema = json.loads(dlbench("schema", cwd=tmp_path).stdout)
    assert not list(faults(yaml.safe_load(GRID), schema, schema))
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
        "target: {metric: speed, value: 1}",
        "target: {metric: train_loss}",
    ]:
        assert list(faults(yaml.safe_load(text), schema, schema)), text


def test_help_answers_at_once(tmp_path: Path) -> None:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        done = dlbench("--help", cwd=tmp_path)
        times.append(time.perf_counter() - start)
        assert done.returncode == 0
    # The limit is 0.2 s on a quiet machine; the best of five is what help itself takes.
    assert min(times) < 0.2
