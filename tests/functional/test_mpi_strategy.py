"""MPI under the real mpirun: sums, bytes as the library counts them, proofs, other processes than expected."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dlbench.strategies import mpi
from tests.functional.mpi_programs.launch import MPIRUN, Ended, mpirun, python, run

pytestmark = pytest.mark.mpi

ALGORITHMS = mpi.NEEDS.algorithms
LENGTHS = (1, 2, 3, 5, 1000, 1003)


def reduce(
    folder: Path, workers: int, *algorithms: str, times: int = 1, lengths: tuple[int, ...] = LENGTHS, **mca: str
) -> Ended:
    """Run the program `reduce`; the library is asked for the first algorithm that is its own."""
    asked = next((name for name in algorithms if name in mpi.NAMES), algorithms[0])
    words = (workers, times, ",".join(map(str, lengths)), *algorithms)
    return mpirun(folder, workers, "reduce", *words, mca=mpi.mca(asked) | mca)


# Two workers are those of nearly every other test over MPI; of three, blocks are unequal, and two fold into one.
NUMBERS = [1, pytest.param(2, marks=pytest.mark.soak), 3, pytest.param(4, marks=pytest.mark.soak)]


@pytest.fixture(scope="module", params=NUMBERS, ids=lambda workers: f"{workers}-workers")
def reduced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, tuple[Any, ...]]:
    """Return a number of workers and what each of them found with every algorithm; one mpirun for all."""
    workers: int = request.param
    ended = reduce(tmp_path_factory.mktemp("reduce"), workers, *ALGORITHMS, lengths=(*LENGTHS, 100_000))
    assert ended.code == 0, ended.output
    assert len(ended.results) == workers
    return workers, ended.results


def test_every_operation_of_the_communicator(reduced: tuple[int, tuple[Any, ...]]) -> None:
    assert {tuple(result["failures"]) for result in reduced[1]} == {()}
    assert {result["thread_level"] for result in reduced[1]} == {"serialized"}


def test_sums_are_right_and_alike_on_all_ranks(reduced: tuple[int, tuple[Any, ...]]) -> None:
    for algorithm in ALGORITHMS:
        found = [result[algorithm] for result in reduced[1]]
        assert max(one["error"] for one in found) < 1e-12, algorithm
        assert all(one["bits"] == found[0]["bits"] for one in found), algorithm
        assert found[0]["facts"]["collectives"] == "mpi"
        assert re.fullmatch(r"Open MPI \d+\.\d+\.\d+\S*", found[0]["facts"]["mpi_version"])


def test_the_library_itself_reports_its_algorithm(reduced: tuple[int, tuple[Any, ...]]) -> None:
    workers, results = reduced
    for algorithm in ALGORITHMS:
        proof = results[0][algorithm]["facts"].get("algorithm_proof", "")
        if workers == 1 or algorithm == "own-ring":
            assert proof == "", algorithm
        else:
            assert proof.startswith("component "), algorithm
            assert (f"{mpi.ALGORITHM} = {mpi.NAMES.get(algorithm)}" in proof) == (algorithm in mpi.NAMES), algorithm


def test_another_algorithm_than_asked_for_is_refused(reduced: tuple[int, tuple[Any, ...]]) -> None:
    workers, results = reduced
    for result in results:
        assert ("should be ring, but the MPI library reports" in result["contradiction"]) == (workers > 1)


def test_a_selection_that_was_not_asked_for_ends_the_run(tmp_path: Path) -> None:
    # Another algorithm of the component, and another component; what is printed otherwise, unit tests have.
    for name, value in {"coll_tuned_use_dynamic_rules": "0", "coll": "^tuned"}.items():
        ended = reduce(tmp_path / name, 2, "ring", **{name: value})
        assert ended.code != 0, name
        assert "RuntimeError: the all-reduce should be ring, but the MPI library reports" in ended.output, name
        assert ended.results == (), name


def monitored(folder: Path, workers: int, times: int) -> tuple[list[int], list[int]]:
    """Return the bytes that each rank sent, as Open MPI's monitoring counts all messages, and as dlbench says."""
    folder.mkdir(parents=True)
    ended = reduce(
        folder,
        workers,
        *ALGORITHMS[1:],
        times=times,
        pml="ob1,monitoring",
        pml_monitoring_enable="2",
        pml_monitoring_enable_output="3",
        pml_monitoring_filename=str(folder / "count"),
    )
    assert ended.code == 0, ended.output
    counted = []
    for rank in range(workers):
        text = (folder / f"count.{rank}.prof").read_text()
        counted.append(sum(int(found) for found in re.findall(rf"^[EI]\t{rank}\t\d+\t(\d+) bytes", text, re.MULTILINE)))
    return counted, [sum(result[name]["bytes_sent"] for name in ALGORITHMS[1:]) for result in ended.results]


def test_bytes_are_those_that_the_library_counts(tmp_path: Path) -> None:
    """With 3 ranks blocks are unequal and two ranks fold into one."""
    # What is sent besides (starting, other operations, ending) is the same in both runs, but for the digits of process
    # ids: the difference is four reductions by each algorithm; one number more in each would be 32 bytes.
    once, claimed_once = monitored(tmp_path / "once", 3, 1)
    often, claimed_often = monitored(tmp_path / "often", 3, 5)
    difference = [many - one for many, one in zip(often, once, strict=True)]
    assert difference == pytest.approx([4 * claimed for claimed in claimed_once], rel=0, abs=31)
    assert claimed_often == [5 * claimed for claimed in claimed_once]


def test_other_processes_than_expected_are_refused(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", python("operations", 2))
    assert alone.code != 0
    assert "RuntimeError: 2 MPI ranks were expected to connect, but 1 did" in alone.output
    assert "No mpirun started this process" in alone.output
    assert re.search(r"The MPI library is Open MPI \S+ at /\S+", alone.output)
    many = mpirun(tmp_path / "many", 2, "operations", 1)
    assert many.code != 0
    assert "mpirun started 2 processes: start 1" in many.output


def test_a_rank_that_fails_ends_the_others(tmp_path: Path) -> None:
    """Without MPI_Finalize at exit: it would wait for ranks that wait in a collective."""
    program = (
        "from dlbench.communicators.mpi import connect; d = connect(2)\n"
        "if d.rank: raise SystemExit(3)\n"
        "d.barrier(); d.barrier()"
    )
    argv = MPIRUN, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-np", 2
    ended = run(tmp_path, [*argv, sys.executable, "-c", program])
    assert ended.code == 3, ended.output
