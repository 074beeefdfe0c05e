"""Every operation of the MPI driver, on several types and lengths; hands in what went wrong."""

import sys

import numpy as np

from dlbench.drivers.mpi import MpiDriver, connect
from tests.functional.collectives import arrays, gathers
from tests.functional.mpi_programs.launch import hand_in

TYPES = (np.float64, np.float32, np.int64, np.int32, np.uint8)


def failures(driver: MpiDriver) -> list[str]:
    """Return the name of each operation with a wrong result."""
    checks: dict[str, bool] = {}
    for dtype in TYPES:
        for count in (0, 1, 5, 70_000):
            checks |= {f"{name} {dtype.__name__} {count}": ok for name, ok in arrays(driver, dtype, count).items()}
            checks[f"exchange {dtype.__name__} {count}"] = exchanges(driver, dtype, count)
    checks["all_gather"] = gathers(driver)
    driver.barrier()
    return [name for name, ok in checks.items() if not ok]


def exchanges(driver: MpiDriver, dtype: type, count: int) -> bool:
    """Return whether each worker's array arrives at the next one."""
    size, rank = driver.size, driver.rank
    of = [(np.arange(count) % 7 + 3 * other).astype(dtype) for other in range(size)]
    out = np.zeros(count, dtype)
    driver.exchange(of[rank], (rank + 1) % size, out, (rank - 1) % size)
    return np.array_equal(out, of[rank - 1])


if __name__ == "__main__":
    mpi_driver = connect(int(sys.argv[1]))
    hand_in(mpi_driver.rank, failures(mpi_driver))
    mpi_driver.close()
    mpi_driver.close()
