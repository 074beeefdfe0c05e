"""Ranks that all write the same parameters at once, on shared memory and one-sidedly; hands in what is there then."""

from typing import Any

import numpy as np

from dlbench.communicators._mpi_memory import MpiMemory
from dlbench.communicators.mpi import connect
from tests.functional.mpi_programs.launch import hand_in

SIZE, WRITES = 12, 500

HOW = ("shared", "one-sided")


def write(communicator: Any, *, is_on_one_host: bool) -> dict[str, Any]:
    """Write as the other ranks do; return what was read before, meanwhile and afterwards."""
    from mpi4py import MPI  # only here: to import it starts MPI, also in the test that reads the numbers above

    rank = communicator.rank
    memory = MpiMemory(MPI, communicator.comm.Dup(), np.arange(float(SIZE)), is_on_one_host=is_on_one_host)
    first, _ = memory.read()
    found, before, versions = first.tolist(), [], []
    communicator.barrier()
    own = np.arange(rank, SIZE, 3)
    for _ in range(WRITES):
        # One-sidedly no write may be lost where all ranks write; on shared memory where each writes its own part.
        before.append(memory.subtract(np.ones(len(own)), own))
        if not is_on_one_host:
            before.append(memory.subtract(np.ones(SIZE)))
        before.append(memory.subtract(np.empty(0), np.empty(0, np.int64)))
        versions.append(memory.read()[1])
    communicator.barrier()
    last, version = memory.read()
    numbers, moved = last.tolist(), memory.bytes_moved
    del first, last
    memory.close()
    return {"first": found, "last": numbers, "version": version, "before": before, "versions": versions, "moved": moved}


if __name__ == "__main__":
    world = connect(3)
    hand_in(world.rank, {how: write(world, is_on_one_host=how == "shared") for how in HOW})
    world.close()
