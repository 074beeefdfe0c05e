"""Every operation of the MPI communicator, on several types and lengths; hands in what went wrong."""

import sys

import numpy as np

from dlbench.communicators.mpi import MpiCommunicator, MpiGroup, connect
from tests.functional.collectives import arrays, gathers
from tests.functional.mpi_programs.launch import hand_in

TYPES = (np.float64, np.float32, np.int64, np.int32, np.uint8)


def failures(communicator: MpiCommunicator) -> list[str]:
    """Return the name of each operation with a wrong result."""
    checks: dict[str, bool] = {}
    for dtype in TYPES:
        for count in (0, 1, 5, 70_000):
            checks |= {
                f"{name} {dtype.__name__} {count}": ok for name, ok in arrays(communicator, dtype, count).items()
            }
            checks[f"sendrecv {dtype.__name__} {count}"] = arrives(communicator, dtype, count)
            checks |= {f"{name} {dtype.__name__} {count}": ok for name, ok in rows(communicator, dtype, count).items()}
    checks["all_gather"] = gathers(communicator)
    communicator.barrier()
    return [name for name, ok in checks.items() if not ok]


def rows(communicator: MpiGroup, dtype: type, count: int) -> dict[str, bool]:
    """Return whether what a rank's rows become is right: gathered, summed and scattered, exchanged; in groups, too."""
    size, rank = communicator.size, communicator.rank
    # Of each rank one row for each other one.
    of = [(np.arange(size * count) % 5 + 7 * other).astype(dtype).reshape(size, count) for other in range(size)]
    gathered, summed, exchanged = np.zeros((size, count), dtype), np.zeros(count, dtype), np.zeros((size, count), dtype)
    communicator.all_gather_array(of[rank][0], gathered)
    communicator.reduce_scatter(of[rank], summed)
    communicator.all_to_all(of[rank], exchanged)
    group = communicator.split(rank % 2)
    total = of[rank][0].copy()
    group.all_reduce(total, total)
    members = range(rank % 2, size, 2)
    checks = {
        "all_gather_array": np.array_equal(gathered, [others[0] for others in of]),
        "reduce_scatter": np.array_equal(summed, sum(others[rank] for others in of)),
        "all_to_all": np.array_equal(exchanged, [others[rank] for others in of]),
        "split": (group.rank, group.size) == (members.index(rank), len(members))
        and np.array_equal(total, sum(of[member][0] for member in members)),
    }
    group.close()
    return checks


def arrives(communicator: MpiCommunicator, dtype: type, count: int) -> bool:
    """Return whether each worker's array arrives at the next one."""
    size, rank = communicator.size, communicator.rank
    of = [(np.arange(count) % 7 + 3 * other).astype(dtype) for other in range(size)]
    out = np.zeros(count, dtype)
    communicator.sendrecv(of[rank], (rank + 1) % size, out, (rank - 1) % size)
    return np.array_equal(out, of[rank - 1])


if __name__ == "__main__":
    found = connect(int(sys.argv[1]))
    hand_in(found.rank, failures(found))
    found.close()
