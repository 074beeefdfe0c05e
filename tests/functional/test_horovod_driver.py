"""The Horovod driver under the real launchers: operations, which library moves bytes, wrong meetings."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlbench.strategies import horovod
from tests.functional.horovod_programs.launch import start
from tests.functional.mpi_programs.launch import run

pytestmark = [pytest.mark.mpi, pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(900)]

COLLECTIVES = ("mpi", "gloo")
WAYS = [
    ("mpi", "mpirun", 3),
    ("gloo", "horovodrun", 3),
    ("mpi", "horovodrun", 2),
    ("gloo", "horovodrun", 1),
    ("mpi", "mpirun", 4),
]


@pytest.mark.parametrize(("collectives", "launcher", "workers"), WAYS)
def test_every_operation_and_what_carries_it(tmp_path: Path, collectives: str, launcher: str, workers: int) -> None:
    ended = start(tmp_path, collectives, workers, "operations", workers, launcher=launcher)
    assert ended.code == 0, ended.output
    assert [result["failures"] for result in ended.results] == [[]] * workers
    for result in ended.results:
        facts = result["facts"]
        assert result["size"] == workers
        assert (facts["collectives"], facts["horovod_version"]) == (collectives, "0.28.1")
        assert ("mpi_version" in facts) == (collectives == "mpi")
        assert collectives != "mpi" or re.fullmatch(r"Open MPI \d+\.\d+\.\d+\S*", facts["mpi_version"])


@pytest.mark.parametrize("collectives", COLLECTIVES)
def test_a_meeting_of_too_many_is_refused(tmp_path: Path, collectives: str) -> None:
    ended = start(tmp_path, collectives, 2, "operations", 3)
    assert ended.code != 0
    assert ended.results == ()
    launcher = {"mpi": "mpirun", "gloo": "horovodrun"}[collectives]
    assert f"{launcher} started 2 processes: start 3" in ended.output


def test_without_a_launcher_the_missing_one_is_named(tmp_path: Path) -> None:
    argv: list[object] = [sys.executable, "-m", "tests.functional.horovod_programs.operations", 2]
    variables = {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}
    ended = run(tmp_path, argv, environ=variables, timeout_s=240)
    assert ended.code != 0
    assert "2 workers were to meet over Gloo, but 1 did" in ended.output
    assert "start it with `horovodrun --gloo -np 2`" in ended.output


@pytest.mark.parametrize("collectives", COLLECTIVES)
def test_horovods_own_timeline_names_the_same_library(
    tmp_path: Path, collectives: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = tmp_path / "timeline.json"
    monkeypatch.setattr("dlbench.strategies.horovod.environment", with_timeline(timeline))
    ended = start(tmp_path, collectives, 2, "operations", 2)
    assert ended.code == 0, ended.output
    moved = set(re.findall(r'"(\w+)_ALLREDUCE"', timeline.read_text())) - {"NEGOTIATE"}
    assert {name.removesuffix("_ADASUM") for name in moved} == {collectives.upper()}


def with_timeline(path: Path) -> Callable[[Any, Any], dict[str, str]]:
    original = horovod.environment
    return lambda options, assignment: original(options, assignment) | {"HOROVOD_TIMELINE": str(path)}


def test_no_variables_value_is_on_a_command_line(tmp_path: Path) -> None:
    """horovodrun itself would put the whole environment there."""
    ended = start(tmp_path, "gloo", 2, "command_lines")
    assert ended.code == 0, ended.output
    for lines in ended.results:
        assert any("horovod" in line for line in lines)
        assert not [line for line in lines if "DLBENCH_ASSIGNMENT=" in line or '"attempt_id"' in line]


def test_what_autotuning_settled_on_is_a_fact_once_it_has_ended(tmp_path: Path) -> None:
    ended = start(tmp_path, "mpi", 2, "autotune", 2, options={"autotune": True})
    assert ended.code == 0, ended.output
    assert not [name for result in ended.results for name in result["before"] if name.startswith("autotuned_")]
    assert ended.results[0]["after"]["autotuned_cycle_time_ms"] > 0
    assert 0 <= ended.results[0]["after"]["autotuned_fusion_threshold_mb"] <= 64
