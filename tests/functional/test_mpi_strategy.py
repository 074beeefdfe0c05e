"""The MPI driver and strategy under the real mpirun: sums, bytes as the library counts them, proofs, wrong meetings."""

import re
import sys
from pathlib import Path

import pytest

from dlbench.strategies import mpi
from tests.functional.mpi_programs.launch import MPIRUN, Ended, mpirun, python, run

pytestmark = pytest.mark.mpi

ALGORITHMS = ("auto", "ring", "recursive-doubling", "rabenseifner", "own-ring")
COUNTED = ALGORITHMS[1:]
LENGTHS = (1, 2, 3, 5, 1003)


def reduce(
    folder: Path,
    workers: int,
    algorithm: str,
    *,
    times: int = 1,
    chunk_bytes: int = 0,
    lengths: tuple[int, ...] = LENGTHS,
    mca: dict[str, str] | None = None,
) -> Ended:
    parameters = mpi.mca(algorithm) if mca is None else mca
    return mpirun(folder, workers, "reduce", workers, algorithm, times, chunk_bytes, *lengths, mca=parameters)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_operation_of_the_driver(tmp_path: Path, workers: int) -> None:
    ended = mpirun(tmp_path, workers, "operations", workers)
    assert (ended.code, ended.results) == (0, ([],) * workers), ended.output


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sums_are_right_and_alike_on_all_ranks(tmp_path: Path, workers: int, algorithm: str) -> None:
    ended = reduce(tmp_path, workers, algorithm, lengths=(*LENGTHS, 100_000), chunk_bytes=1 << 16)
    assert ended.code == 0, ended.output
    assert len(ended.results) == workers
    assert max(result["error"] for result in ended.results) < 1e-12
    assert all(result["bits"] == ended.results[0]["bits"] for result in ended.results)
    facts = ended.results[0]["facts"]
    assert facts["collectives"] == "mpi"
    assert re.fullmatch(r"Open MPI \d+\.\d+\.\d+\S*", facts["mpi_version"])
    assert ended.results[0]["thread_level"] == "serialized"


@pytest.mark.parametrize("algorithm", [name for name in COUNTED if name != "own-ring"])
def test_the_library_itself_says_which_algorithm_it_runs(tmp_path: Path, algorithm: str) -> None:
    facts = reduce(tmp_path, 2, algorithm).results[0]["facts"]
    name = algorithm.replace("-", "_")
    assert facts["algorithm_proof"].startswith("component tuned; ")
    assert facts["algorithm_proof"].endswith(f"coll_tuned_allreduce_algorithm = {name}")


def test_auto_says_which_component_the_library_took(tmp_path: Path) -> None:
    assert reduce(tmp_path, 2, "auto").results[0]["facts"]["algorithm_proof"].startswith("component ")


@pytest.mark.parametrize(
    "sabotage",
    [
        {"coll_tuned_allreduce_algorithm": "recursive_doubling"},
        {"coll_tuned_use_dynamic_rules": "0"},
        {"coll_tuned_priority": "5"},
        {"coll": "^tuned"},
        {"coll_base_verbose": "0"},
    ],
    ids=lambda sabotage: "-".join(sabotage),
)
def test_a_selection_that_was_not_asked_for_ends_the_run(tmp_path: Path, sabotage: dict[str, str]) -> None:
    ended = reduce(tmp_path, 2, "ring", mca=mpi.mca("ring") | sabotage)
    assert ended.code != 0
    assert "RuntimeError: the all-reduce was to be ring, but the MPI library says" in ended.output
    assert ended.results == ()


def monitored(folder: Path, workers: int, algorithm: str, times: int) -> tuple[list[int], list[int]]:
    """Return the bytes that each rank sent, as Open MPI's monitoring counts all messages, and as dlbench says."""
    folder.mkdir()
    parameters = {
        "pml": "ob1,monitoring",
        "pml_monitoring_enable": "2",
        "pml_monitoring_enable_output": "3",
        "pml_monitoring_filename": str(folder / "count"),
    }
    ended = reduce(folder, workers, algorithm, times=times, chunk_bytes=1000, mca=mpi.mca(algorithm) | parameters)
    assert ended.code == 0, ended.output
    counted = []
    for rank in range(workers):
        text = (folder / f"count.{rank}.prof").read_text()
        counted.append(sum(int(found) for found in re.findall(rf"^[EI]\t{rank}\t\d+\t(\d+) bytes", text, re.MULTILINE)))
    return counted, [result["bytes_sent"] for result in ended.results]


@pytest.mark.parametrize("workers", [3, 4])
@pytest.mark.parametrize("algorithm", COUNTED)
def test_bytes_are_those_that_the_library_counts(tmp_path: Path, workers: int, algorithm: str) -> None:
    # What is sent besides (starting, ending) is the same in both runs: the difference is four reductions.
    once, said_once = monitored(tmp_path / "once", workers, algorithm, 1)
    often, said_often = monitored(tmp_path / "often", workers, algorithm, 5)
    difference = [many - one for many, one in zip(often, once, strict=True)]
    assert difference == [4 * said for said in said_once]
    assert said_often == [5 * said for said in said_once]


def test_a_ring_sends_fewer_bytes_than_recursive_doubling(tmp_path: Path) -> None:
    sent = {}
    for algorithm in ("ring", "own-ring", "recursive-doubling", "rabenseifner"):
        ended = reduce(tmp_path / algorithm, 4, algorithm, lengths=(1000,))
        sent[algorithm] = {result["bytes_sent"] for result in ended.results}
    n = 8 * 1000
    assert sent["ring"] == sent["own-ring"] == sent["rabenseifner"] == {2 * n * 3 // 4}
    assert sent["recursive-doubling"] == {n * 2}


def test_processes_that_did_not_meet_say_so(tmp_path: Path) -> None:
    ended = run(tmp_path, python("operations", 2))
    assert ended.code != 0
    assert "RuntimeError: 2 MPI ranks were to meet, but 1 did" in ended.output
    assert "No mpirun is seen above this process" in ended.output
    assert re.search(r"The MPI library is Open MPI \S+ at /\S+", ended.output)


def test_a_launcher_that_open_mpi_cannot_join_is_named(tmp_path: Path) -> None:
    """MPICH's mpiexec starts N jobs of size 1 over Open MPI without an error: all that it leaves is its marks."""
    ended = run(tmp_path, python("operations", 2), environ={"PMI_RANK": "0", "PMI_SIZE": "2", "PMI_FD": "9"})
    assert ended.code != 0
    assert "mpiexec of MPICH" in ended.output


def test_too_many_ranks_are_refused(tmp_path: Path) -> None:
    ended = mpirun(tmp_path, 3, "operations", 2)
    assert ended.code != 0
    assert "mpirun started 3 processes: start 2" in ended.output


def test_a_rank_that_fails_ends_the_others(tmp_path: Path) -> None:
    """Without MPI_Finalize at exit: it would wait for ranks that wait in a collective."""
    program = (
        "from dlbench.drivers.mpi import connect; d = connect(2)\n"
        "if d.rank: raise SystemExit(3)\n"
        "d.barrier(); d.barrier()"
    )
    argv = MPIRUN, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-np", 2
    ended = run(tmp_path, [*argv, sys.executable, "-c", program])
    assert ended.code == 3, ended.output
