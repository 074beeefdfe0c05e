"""Rules 1 and 2 for the replicas of one process: they agree, and equal one worker; each with its sabotage."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functional.mpi_programs.launch import run

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(700)]

TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
# A sabotaged run differs by far more than rounding.
FAR = 1e-3

Case = dict[str, Any]


@pytest.fixture(scope="module", params=[2, 3, 4], ids=lambda workers: f"{workers}-workers")
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """Return what was found with so many replicas; one process for all cases."""
    folder: Path = tmp_path_factory.mktemp("replicas")
    program = [sys.executable, "-m", "tests.functional.replica_programs.train", request.param]
    ended = run(folder, program, timeout_s=600)
    assert ended.code == 0, ended.output
    (found,) = ended.results
    assert {case["num_replicas"] for case in found} == {request.param}
    return list(found)


def sound(cases: list[Case]) -> list[Case]:
    """Return the cases in which nothing is left out and TensorFlow's sums are right."""
    odd = cases[0]["num_replicas"] % 2 == 1
    found = [c for c in cases if not c["sabotage"] and not (odd and c["cross_device_ops"] == "hierarchical_copy")]
    assert len(found) == 7 - odd
    return found


def sabotaged(cases: list[Case], sabotage: str) -> Case:
    (found,) = (case for case in cases if case["sabotage"] == sabotage)
    return found


def test_replicas_agree_after_the_first_step_and_at_the_end(cases: list[Case]) -> None:
    for case in sound(cases):
        assert (case["first"], case["last"]) == ("exact", "exact"), case


def test_many_replicas_equal_one_worker_on_the_joined_batch(cases: list[Case]) -> None:
    """Also with momentum, Adam, a batch in parts, synchronised batch norm, and each way of summing."""
    for case in sound(cases):
        assert case["difference"] < TOLERANCES[case["precision"]], case


def test_losses_and_correct_predictions_are_those_of_all_replicas(cases: list[Case]) -> None:
    for case in sound(cases):
        for one, many in (*case["sums"], *case["scores"]):
            assert many[0] == pytest.approx(one[0], rel=TOLERANCES[case["precision"]])
            assert many[1] == one[1]


def test_gradients_outside_the_step_are_summed_over_replicas(cases: list[Case]) -> None:
    for case in sound(cases):
        assert case["gradient_difference"] < TOLERANCES[case["precision"]], case


def test_the_state_comes_back_and_statistics_are_those_of_every_replica(cases: list[Case]) -> None:
    assert all(case["state_comes_back"] for case in cases)
    many, one = next(case["statistics"] for case in cases if case["statistics"][0])
    assert many == one * cases[0]["num_replicas"]


def test_without_the_reduction_replicas_disagree_and_are_not_one(cases: list[Case]) -> None:
    case = sabotaged(cases, "no-reduction")
    assert (case["first"], case["last"]) == ("no", "no")
    assert case["difference"] > FAR


def test_a_second_reduction_agrees_and_is_wrong(cases: list[Case]) -> None:
    """What Keras's optimizer would do by itself; agreement alone does not find it."""
    case = sabotaged(cases, "second-reduction")
    assert (case["first"], case["last"]) == ("exact", "exact")
    assert case["difference"] > FAR


def test_a_replica_that_is_not_the_first_is_looked_at(cases: list[Case]) -> None:
    assert sabotaged(cases, "other-replica")["first"] == "no"


def test_sums_by_hierarchical_copy_are_wrong_for_odd_numbers(cases: list[Case]) -> None:
    """Why `mirrored` refuses them: TensorFlow 2.21 leaves one device out, and all agree."""
    (case,) = (case for case in cases if case["cross_device_ops"] == "hierarchical_copy")
    assert case["last"] == "exact"
    assert (case["difference"] > FAR) == (case["num_replicas"] % 2 == 1)
