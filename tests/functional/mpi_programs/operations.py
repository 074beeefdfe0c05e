"""Every operation of the MPI communicator, on several types and lengths; hands in what went wrong."""

import sys

import numpy as np

from dlbench.communicators.mpi import MpiCommunicator, connect
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
    checks["all_gather"] = gathers(communicator)
    communicator.barrier()
    return [name for name, ok in checks.items() if not ok]


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
