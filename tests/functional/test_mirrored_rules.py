"""Rules 1 and 2 for the replicas of one process: they agree, and equal one worker; each with its sabotage."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functional.mpi_programs.launch import run
from tests.functional.mpi_programs.train import FAR, TOLERANCES
from tests.functional.replica_programs.train import MASKED

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(700)]

Case = dict[str, Any]


# Three replicas on TensorFlow, for which its own sums may be wrong, and two on JAX also train in `test_replica_runs`.
# JAX compiles a minute for more than one network.
@pytest.fixture(
    scope="module",
    params=[
        (MASKED, "tensorflow"),
        *(pytest.param(soaked, marks=pytest.mark.soak) for soaked in ((3, "tensorflow"), (3, "jax"), (2, "jax"))),
    ],
    ids=lambda param: f"{param[0]}-workers-{param[1]}",
)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what was found with so many replicas; one process for all."""
    folder: Path = tmp_path_factory.mktemp("replicas")
    program = [sys.executable, "-m", "tests.functional.replica_programs.train", *request.param]
    ended = run(folder, program, timeout_s=600)
    assert ended.code == 0, ended.output
    (found,) = ended.results
    assert {case["num_replicas"] for case in found["cases"]} == {request.param[0]}
    return dict(found)


@pytest.fixture(scope="module")
def cases(program: dict[str, Any]) -> list[Case]:
    """Return the cases that were trained."""
    return list(program["cases"])


def sound(cases: list[Case]) -> list[Case]:
    """Return the cases in which nothing is left out and TensorFlow's sums are right."""
    odd = cases[0]["num_replicas"] % 2 == 1
    found = [c for c in cases if not c["sabotage"] and not (odd and c["cross_device_ops"] == "hierarchical_copy")]
    assert found
    return found


def test_replicas_agree_and_equal_one_worker_on_the_joined_batch(cases: list[Case]) -> None:
    """Also with momentum, Adam, a batch in parts, synchronised batch norm, and each way of summing."""
    for case in sound(cases):
        assert (case["first"], case["last"]) == ("exact", "exact"), case
        assert max(case["difference"], *case["statistics_difference"], 0.0) < TOLERANCES[case["precision"]], case


def test_evaluation_gradient_and_state_are_those_of_one_worker(cases: list[Case]) -> None:
    for case in sound(cases):
        for one, many in (*case["sums"], *case["scores"]):
            assert many[0] == pytest.approx(one[0], rel=TOLERANCES[case["precision"]]), case
            assert many[1] == one[1], case
        assert case["gradient_difference"] < TOLERANCES[case["precision"]], case
        assert case["state_comes_back"], case
        assert case["statistics"][0] == case["statistics"][1] * case["num_replicas"], case


def test_sabotages_are_found(cases: list[Case]) -> None:
    # A second reduction is what Keras's optimizer would do by itself: agreement alone does not find it, nor local
    # batch norm. A change in a replica that is not the first is found although the first is right.
    verdicts = {"no-reduction": "no"}
    for case in cases:
        if case["sabotage"]:
            assert case["first"] == verdicts.get(case["sabotage"], "exact"), case
            assert min(case["difference"], *case["statistics_difference"], 1.0) > FAR, case
        else:
            assert case["changed"] == "no", case


@pytest.mark.parametrize("program", [(MASKED, "tensorflow")], indirect=True)
def test_each_replica_drops_what_its_worker_drops_in_a_process_of_its_own(program: dict[str, Any]) -> None:
    found = program["masks"]
    assert found["replicas"] == found["processes"]
    # Were all workers' generators alike, it would be seen; so would it, did a step without samples draw.
    assert found["all the first"][0] != found["replicas"][0]
    assert found["following"] == found["restored"] != found["replicas"]
    steps = [{*step} for step in found["replicas"]]
    assert steps == [{True, False}] * 3


def test_sums_by_hierarchical_copy_are_wrong_for_odd_numbers(cases: list[Case]) -> None:
    """Why `mirrored` refuses them: TensorFlow 2.21 leaves one device out, and all agree."""
    for case in cases:
        if case["cross_device_ops"] == "hierarchical_copy":
            assert case["last"] == "exact"
            assert (case["difference"] > FAR) == (case["num_replicas"] % 2 == 1)
