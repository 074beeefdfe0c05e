"""Reduce vectors of several lengths with each algorithm; hands in sums, bytes and the library's report."""

import sys
from typing import Any

import numpy as np

from dlbench.communicators.mpi import MpiCommunicator, connect
from dlbench.strategies import mpi
from tests.functional.mpi_programs.launch import hand_in
from tests.functional.mpi_programs.operations import failures
from tests.functional.mpi_programs.switch import communicator_with

CHUNK_BYTES = 1000


def main(workers: int, times: int, lengths: list[int], algorithms: list[str]) -> None:
    """Reduce with each algorithm; of several, each has a communicator of its own."""
    world = connect(workers)
    found: dict[str, Any] = {}
    for algorithm in algorithms:
        communicator = world if len(algorithms) == 1 else communicator_with(algorithm)
        found[algorithm] = reduce(communicator, algorithm, times, lengths)
    if len(algorithms) > 1:
        found["failures"] = failures(world)
        found["contradiction"] = contradiction()
        found["thread_level"] = thread_level()
    hand_in(world.rank, found)
    world.close()
    world.close()


def reduce(communicator: MpiCommunicator, algorithm: str, times: int, lengths: list[int]) -> dict[str, Any]:
    """Reduce so many times; the error is relative to the largest sum, over all lengths."""
    strategy = mpi.create(mpi.OPTIONS(chunk_bytes=CHUNK_BYTES), communicator, algorithm)
    errors, bits = [0.0], []
    for length in lengths:
        of = [np.random.default_rng([length, rank]).normal(size=length) for rank in range(communicator.size)]
        expected = np.sum(of, axis=0)
        for _ in range(times):
            result = strategy.all_reduce(of[communicator.rank].copy())
            errors.append(float(np.max(np.abs(result - expected)) / np.max(np.abs(expected))))
        bits.append(result.tobytes().hex()[:64])
    return {"error": max(errors), "bits": bits, "facts": strategy.facts(), "bytes_sent": strategy.bytes_sent}


def contradiction() -> str:
    """Return the error of a strategy that asks for another algorithm than the library runs."""
    try:
        mpi.create(mpi.OPTIONS(), communicator_with("recursive-doubling"), "ring")
    except RuntimeError as error:
        return str(error)
    return ""


def thread_level() -> str:
    """Return the level of threads that MPI gave."""
    from mpi4py import MPI

    return {MPI.THREAD_SERIALIZED: "serialized", MPI.THREAD_MULTIPLE: "multiple"}.get(MPI.Query_thread(), "other")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [int(text) for text in sys.argv[3].split(",")], sys.argv[4:])
