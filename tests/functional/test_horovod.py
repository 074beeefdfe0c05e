"""Horovod over MPI and Gloo under the real launchers: operations, rules 1 and 2, batch norm, and who is connected.

Rule 1: workers agree. Rule 2: N workers equal one on the joined batch. Each with its sabotage.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlbench.strategies import horovod
from tests.functional.horovod_programs.launch import start
from tests.functional.horovod_programs.train import CASES, SABOTAGES
from tests.functional.mpi_programs.train import FAR, TOLERANCES

pytestmark = [pytest.mark.mpi, pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(900)]

# float16 has a mantissa of 11 bits, and a network of ReLUs enlarges what it leaves out.
COARSE = 5e-2
# Collectives, launcher, workers: one start serves all tests. Real runs use Gloo, where the library alone differs.
# More workers than two take turns on two cores: other shares of a batch, and Adasum's pairs of pairs, are for the soak.
LAUNCHES: list[Any] = [
    pytest.param(("mpi", "horovodrun", 2), id="mpi-horovodrun-2"),
    pytest.param(("mpi", "mpirun", 4), id="mpi-mpirun-4", marks=pytest.mark.soak),
    pytest.param(("gloo", "horovodrun", 3), id="gloo-horovodrun-3", marks=pytest.mark.soak),
]

Case = dict[str, Any]


@dataclass(frozen=True)
class Launch:
    """What the workers of one launch handed in, by rank, and Horovod's own timeline."""

    collectives: str
    workers: int
    results: tuple[Any, ...]
    timeline: str

    def cases(self, sabotage: str) -> list[list[Case]]:
        """Return the cases with one sabotage, each as seen by all workers."""
        by_case = [list(seen) for seen in zip(*(result["rules"] for result in self.results), strict=True)]
        assert len(by_case) == len(CASES[self.collectives])
        return [seen for seen in by_case if seen[0]["sabotage"] == sabotage]


@pytest.fixture(scope="module", params=LAUNCHES)
def launch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    collectives, launcher, workers = request.param
    folder: Path = tmp_path_factory.mktemp("horovod")
    timeline, original = folder / "timeline.json", horovod.environment
    with pytest.MonkeyPatch.context() as patch:
        # Between collectives Horovod's processes ask each other in each cycle; one of a millisecond takes a core.
        more = {"HOROVOD_CYCLE_TIME": "5", "HOROVOD_TIMELINE": str(timeline)}
        patch.setattr(horovod, "environment", lambda options, given: original(options, given) | more)
        ended = start(folder, collectives, workers, "worker", workers, launcher=launcher)
    assert ended.code == 0, ended.output
    assert [result["size"] for result in ended.results] == [workers] * workers
    return Launch(collectives, workers, ended.results, timeline.read_text())


def is_coarse(case: Case) -> bool:
    return case["options"].get("compression") == "fp16"


def test_every_operation_is_right(launch: Launch) -> None:
    for result in launch.results:
        assert result["operations"] == []


def test_facts_and_horovods_timeline_name_the_library(launch: Launch) -> None:
    for result in launch.results:
        facts = result["facts"]
        assert (facts["collectives"], facts["horovod_version"]) == (launch.collectives, "0.28.1")
        version = facts.get("mpi_version", "")
        assert bool(re.fullmatch(r"Open MPI \d+\.\d+\.\d+\S*", version)) == (launch.collectives == "mpi")
    moved = set(re.findall(r'"(\w+)_ALLREDUCE"', launch.timeline)) - {"NEGOTIATE"}
    assert {name.removesuffix("_ADASUM") for name in moved} == {launch.collectives.upper()}


def test_other_processes_than_expected_are_refused(launch: Launch) -> None:
    for result in launch.results:
        assert f"started {launch.workers} processes: start {launch.workers + 1}" in result["one_too_few"]


def test_no_variables_value_is_on_a_command_line(launch: Launch) -> None:
    """Horovod's own horovodrun would put the whole environment there."""
    for result in launch.results:
        lines = result["command_lines"]
        assert any("horovod" in line for line in lines)
        assert not [line for line in lines if "DLBENCH_ASSIGNMENT=" in line or '"attempt_id"' in line]


def test_workers_agree_and_equal_one_on_the_joined_batch(launch: Launch) -> None:
    for seen in launch.cases(sabotage=""):
        assert {(case["first"], case["last"]) for case in seen} == {("exact", "exact")}, seen[0]
        tolerance = COARSE if is_coarse(seen[0]) else TOLERANCES[seen[0]["precision"]]
        assert max(case["difference"] for case in seen) < tolerance, seen[0]
        assert len({case["gradient"] for case in seen}) == len(seen), "equal local gradients prove nothing"
        # A difference as small as without compression would show that nothing was compressed.
        assert not is_coarse(seen[0]) or min(case["difference"] for case in seen) > TOLERANCES["float32"]


def test_each_sabotage_is_found(launch: Launch) -> None:
    for sabotage in SABOTAGES:
        (seen,) = launch.cases(sabotage)
        assert max(case["difference"] for case in seen) > FAR, seen[0]
        assert {(case["first"], case["last"]) for case in seen} == {("no", "no")}, seen[0]


def test_synchronized_batch_norm_equals_one_worker_and_local_does_not(launch: Launch) -> None:
    for result in launch.results:
        assert max(result["batch_norm"]["synchronized"]) < 1e-12
        assert min(result["batch_norm"]["local"]) > FAR
