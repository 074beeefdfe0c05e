"""Rules 1 and 2: workers agree, and N workers equal one on the joined batch; each with its sabotage."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.strategies import mpi
from tests.functional.mpi_programs.launch import mpirun
from tests.functional.mpi_programs.train import AGREEING, ALGORITHMS, FAR, NETWORKS, SABOTAGES, TOLERANCES

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(700)]

Case = dict[str, Any]
# Only gradients pass between trainer and strategy: every number of workers with NumPy, two with each engine's memory.
ARMS = [
    *(
        pytest.param(("numpy", workers), id=f"numpy-{workers}", marks=() if workers == 4 else pytest.mark.soak)
        for workers in (2, 3, 4)
    ),
    pytest.param(("keras_tensorflow", 2), id="keras-2", marks=(pytest.mark.tensorflow, pytest.mark.slow)),
    pytest.param(("keras_torch", 2), id="torch-2", marks=pytest.mark.slow),
    pytest.param(("keras_jax", 2), id="jax-2", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=ARMS)
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[list[Case]]:
    """Return the cases of one trainer and number of workers, each as seen by all workers; one mpirun for all."""
    trainer, workers = request.param
    folder: Path = tmp_path_factory.mktemp("train")
    ended = mpirun(folder, workers, "train", trainer, workers, mca=mpi.mca("ring"), timeout_s=600)
    assert ended.code == 0, ended.output
    by_case = [list(seen) for seen in zip(*ended.results, strict=True)]
    assert len(by_case) == len(NETWORKS[trainer]) * len(ALGORITHMS[trainer]) * len(SABOTAGES)
    assert {len(seen) for seen in by_case} == {seen[0]["size"] for seen in by_case} == {workers}
    return by_case


def pick(cases: list[list[Case]], sabotage: str) -> list[list[Case]]:
    return [seen for seen in cases if seen[0]["sabotage"] == sabotage]


def test_workers_agree_and_equal_one_on_the_joined_batch(cases: list[list[Case]]) -> None:
    for seen in pick(cases, ""):
        assert {(case["first"], case["last"]) for case in seen} == {("exact", "exact")}, seen[0]
        assert max(case["difference"] for case in seen) < TOLERANCES[seen[0]["network"][1]], seen[0]


def test_local_gradients_differ(cases: list[list[Case]]) -> None:
    for seen in cases:
        assert len({case["gradient"] for case in seen}) == len(seen)


def test_each_sabotage_is_found(cases: list[list[Case]]) -> None:
    for sabotage in SABOTAGES[1:]:
        for seen in pick(cases, sabotage):
            assert max(case["difference"] for case in seen) > FAR, seen[0]
            verdict = "exact" if sabotage in AGREEING else "no"
            assert {(case["first"], case["last"]) for case in seen} == {(verdict, verdict)}, seen[0]
