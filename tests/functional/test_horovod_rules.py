"""Rules 1 and 2 on Horovod: workers agree, and N workers equal one on the joined batch; each with its sabotage."""

from pathlib import Path
from typing import Any

import pytest

from tests.functional.horovod_programs.launch import start
from tests.functional.horovod_programs.train import CASES, SABOTAGES

pytestmark = [pytest.mark.mpi, pytest.mark.tensorflow, pytest.mark.slow, pytest.mark.timeout(900)]

TOLERANCES = {"float64": 1e-12, "float32": 1e-5}
# float16 has a mantissa of 11 bits, and a network of ReLUs enlarges what it leaves out.
COARSE = 5e-2
# A sabotaged run differs by far more than rounding.
FAR = 1e-3

Case = dict[str, Any]
ARMS = [
    pytest.param((library, workers), id=f"{library}-{workers}") for library in ("mpi", "gloo") for workers in (2, 3, 4)
]


@pytest.fixture(scope="module", params=ARMS)
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[list[Case]]:
    """Return the cases of one library and number of workers, each as seen by all workers; one launch for all."""
    collectives, workers = request.param
    folder: Path = tmp_path_factory.mktemp("train")
    ended = start(folder, collectives, workers, "train", workers)
    assert ended.code == 0, ended.output
    by_case = [list(seen) for seen in zip(*ended.results, strict=True)]
    assert len(by_case) == len(CASES)
    assert {len(seen) for seen in by_case} == {seen[0]["size"] for seen in by_case} == {workers}
    return by_case


def pick(cases: list[list[Case]], sabotage: str) -> list[list[Case]]:
    return [seen for seen in cases if seen[0]["sabotage"] == sabotage]


def is_coarse(case: Case) -> bool:
    return case["options"].get("compression") == "fp16"


def test_workers_agree_after_the_first_step_and_at_the_end(cases: list[list[Case]]) -> None:
    for seen in pick(cases, ""):
        assert {(case["first"], case["last"]) for case in seen} == {("exact", "exact")}, seen[0]


def test_many_workers_equal_one_on_the_joined_batch(cases: list[list[Case]]) -> None:
    for seen in pick(cases, ""):
        tolerance = COARSE if is_coarse(seen[0]) else TOLERANCES[seen[0]["precision"]]
        assert max(case["difference"] for case in seen) < tolerance, seen[0]


def test_compression_does_round(cases: list[list[Case]]) -> None:
    """A difference as small as without it would show that nothing was compressed."""
    (coarse,) = [seen for seen in cases if is_coarse(seen[0])]
    assert min(case["difference"] for case in coarse) > TOLERANCES["float32"]


def test_local_gradients_differ_or_nothing_would_be_proven(cases: list[list[Case]]) -> None:
    for seen in cases:
        assert len({case["gradient"] for case in seen}) == len(seen)


@pytest.mark.parametrize("sabotage", ["no-reduction", "no-broadcast"])
def test_without_it_workers_disagree_from_the_first_step(cases: list[list[Case]], sabotage: str) -> None:
    for seen in pick(cases, sabotage):
        assert {(case["first"], case["last"]) for case in seen} == {("no", "no")}, seen[0]


@pytest.mark.parametrize("sabotage", SABOTAGES)
def test_without_it_many_workers_are_not_one(cases: list[list[Case]], sabotage: str) -> None:
    for seen in pick(cases, sabotage):
        assert max(case["difference"] for case in seen) > FAR, seen[0]
