"""Rules 1 and 2, over MPI and under DDP: workers agree, and N equal one on the joined batch; each with its sabotage."""

from typing import Any

import pytest

from dlbench.strategies import mpi
from tests.functional.mpi_programs.launch import mpirun
from tests.functional.mpi_programs.train import AGREEING, ALGORITHMS, FAR, NETWORKS, SABOTAGES, STEPS, TOLERANCES

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(700)]

Case = dict[str, Any]
Launch = tuple[str, int, tuple[Any, ...]]
# Only gradients pass between trainer and strategy: every number of workers with NumPy, two with each engine's memory.
# With torch, DDP is tried in the same processes; JAX's gradients also pass over MPI in `test_parallax`.
TORCH = "keras_torch"
with_torch = pytest.param((TORCH, 2), id="torch-2", marks=pytest.mark.slow)
ARMS = [
    *(
        pytest.param(("numpy", workers), id=f"numpy-{workers}", marks=() if workers == 4 else pytest.mark.soak)
        for workers in (2, 3, 4)
    ),
    pytest.param(("keras_tensorflow", 2), id="keras-2", marks=(pytest.mark.tensorflow, pytest.mark.slow)),
    with_torch,
    pytest.param(("keras_jax", 2), id="jax-2", marks=pytest.mark.soak),
]
under_ddp = pytest.mark.parametrize("launch", [with_torch], indirect=True)


@pytest.fixture(scope="module", params=ARMS)
def launch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    """Return a trainer, a number of workers, and what each of them handed in; one mpirun for all."""
    trainer, workers = request.param
    folder, program = tmp_path_factory.mktemp("train"), "ddp" if trainer == TORCH else "train"
    ended = mpirun(folder, workers, program, trainer, workers, mca=mpi.mca("ring"), timeout_s=600)
    assert ended.code == 0, ended.output
    return trainer, workers, ended.results


@pytest.fixture(scope="module")
def cases(launch: Launch) -> list[list[Case]]:
    """Return the cases over MPI, each as seen by all workers."""
    trainer, workers, results = launch
    by_case = [list(seen) for seen in zip(*(of_rank["rules"] for of_rank in results), strict=True)]
    assert len(by_case) == len(NETWORKS[trainer]) * len(ALGORITHMS[trainer]) * len(SABOTAGES)
    assert {len(seen) for seen in by_case} == {seen[0]["size"] for seen in by_case} == {workers}
    return by_case


@pytest.fixture(scope="module")
def ddp_cases(launch: Launch) -> dict[str, list[Case]]:
    """Return the cases under DDP, each as seen by all workers."""
    by_rank = [of_rank["ddp"] for of_rank in launch[2]]
    assert len(by_rank) == 2
    return {name: [cases[name] for cases in by_rank] for name in by_rank[0]}


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


@under_ddp
def test_workers_under_ddp_agree_and_equal_one(ddp_cases: dict[str, list[dict[str, float]]]) -> None:
    """Also where an epoch's last step leaves workers without samples, and where batch norm sums over workers."""
    for name in ("plain", "float32", "parts", "static", "synchronized"):
        assert {case["verdict"] for case in ddp_cases[name]} == {"exact"}, name
        tolerance = TOLERANCES["float32" if name == "float32" else "float64"]
        assert max(case["difference"] for case in ddp_cases[name]) < tolerance, name
        assert max(case["statistics"] for case in ddp_cases[name]) < tolerance, name


@under_ddp
def test_parts_of_a_batch_are_reduced_once(ddp_cases: dict[str, list[dict[str, int]]]) -> None:
    assert {case["reductions"] for case in ddp_cases["parts"]} == {len(STEPS)}


@under_ddp
def test_a_hook_sends_less_and_its_workers_agree(ddp_cases: dict[str, list[dict[str, float]]]) -> None:
    for name, most in (("fp16", 0.05), ("power-sgd", 1.0)):
        assert {case["verdict"] for case in ddp_cases[name]} == {"exact"}, name
        assert TOLERANCES["float32"] < max(case["difference"] for case in ddp_cases[name]) < most, name


@under_ddp
def test_each_sabotage_of_ddp_is_found(ddp_cases: dict[str, list[dict[str, float]]]) -> None:
    for name, verdict in (("no-reduction", "no"), ("full-weights", "exact")):
        assert {case["verdict"] for case in ddp_cases[name]} == {verdict}
        assert max(case["difference"] for case in ddp_cases[name]) > FAR
