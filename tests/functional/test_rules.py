"""Rules 1 and 2: workers agree, and N workers equal one on the joined batch; each with its sabotage."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.strategies import mpi
from tests.functional.mpi_programs.launch import mpirun
from tests.functional.mpi_programs.train import ALGORITHMS, NETWORKS, SABOTAGES

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(700)]

TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
# A sabotaged run differs by far more than rounding, at least a hundred times the wider tolerance.
FAR = 1e-3

Case = dict[str, Any]
ARMS = [
    pytest.param((trainer, workers), id=f"{trainer}-{workers}", marks=marks)
    for trainer, marks in (("numpy", ()), ("keras_tensorflow", (pytest.mark.tensorflow, pytest.mark.slow)))
    for workers in (2, 3, 4)
]


@pytest.fixture(scope="module", params=ARMS)
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[list[Case]]:
    """Return the cases of one trainer and number of workers, each as seen by all workers; one mpirun for all."""
    trainer, workers = request.param
    folder: Path = tmp_path_factory.mktemp("train")
    ended = mpirun(folder, workers, "train", trainer, workers, mca=mpi.mca("ring"), timeout_s=600)
    assert ended.code == 0, ended.output
    by_case = [list(seen) for seen in zip(*ended.results, strict=True)]
    assert len(by_case) == len(NETWORKS[trainer]) * len(ALGORITHMS) * len(SABOTAGES)
    assert {len(seen) for seen in by_case} == {seen[0]["size"] for seen in by_case} == {workers}
    return by_case


def pick(cases: list[list[Case]], sabotage: str) -> list[list[Case]]:
    return [seen for seen in cases if seen[0]["sabotage"] == sabotage]


def test_workers_agree_after_the_first_step_and_at_the_end(cases: list[list[Case]]) -> None:
    for seen in pick(cases, ""):
        assert {(case["first"], case["last"]) for case in seen} == {("exact", "exact")}, seen[0]


def test_many_workers_equal_one_on_the_joined_batch(cases: list[list[Case]]) -> None:
    for seen in pick(cases, ""):
        assert max(case["difference"] for case in seen) < TOLERANCES[seen[0]["network"][1]], seen[0]


def test_local_gradients_differ_or_nothing_would_be_proven(cases: list[list[Case]]) -> None:
    for seen in cases:
        assert len({case["gradient"] for case in seen}) == len(seen)


@pytest.mark.parametrize("sabotage", ["no-reduction", "no-broadcast"])
def test_without_it_workers_disagree_from_the_first_step(cases: list[list[Case]], sabotage: str) -> None:
    for seen in pick(cases, sabotage):
        assert {(case["first"], case["last"]) for case in seen} == {("no", "no")}, seen[0]


@pytest.mark.parametrize("sabotage", [name for name in SABOTAGES if name])
def test_without_it_many_workers_are_not_one(cases: list[list[Case]], sabotage: str) -> None:
    for seen in pick(cases, sabotage):
        assert max(case["difference"] for case in seen) > FAR, seen[0]


def test_a_mean_of_means_agrees_and_is_wrong(cases: list[list[Case]]) -> None:
    """Agreement alone does not find local batches of unequal size that weigh the same."""
    for seen in pick(cases, "equal-weights"):
        assert {case["last"] for case in seen} == {"exact"}
