"""Every operation of the MPI driver, on several types and lengths; hands in what went wrong."""

import sys
from typing import Any

import numpy as np

from dlbench.drivers.mpi import MpiDriver, connect
from tests.functional.mpi_programs.launch import hand_in

TYPES = (np.float64, np.float32, np.int64, np.int32, np.uint8)


def failures(driver: MpiDriver) -> list[str]:
    """Return the name of each operation with a wrong result."""
    checks: dict[str, bool] = {}
    for dtype in TYPES:
        for count in (0, 1, 5, 70_000):
            checks |= {f"{name} {dtype.__name__} {count}": ok for name, ok in arrays(driver, dtype, count).items()}
    everyone = range(driver.size)
    values = [None if rank == 1 else {"rank": rank, "text": "한글\n" * rank, "list": [1.5, True]} for rank in everyone]
    checks["all_gather"] = driver.all_gather(values[driver.rank]) == values
    driver.barrier()
    return [name for name, ok in checks.items() if not ok]


def arrays(driver: MpiDriver, dtype: type, count: int) -> dict[str, bool]:
    """Return whether each operation on one kind of array is right."""
    size, rank = driver.size, driver.rank
    of: list[Any] = [(np.arange(count) % 7 + 3 * other).astype(dtype) for other in range(size)]
    mine, out = of[rank].copy(), np.zeros(count, dtype)
    checks = {}
    for name, function in (("sum", np.sum), ("max", np.max), ("min", np.min)):
        driver.all_reduce(mine, out, name)
        expected = function(np.stack(of), axis=0).astype(dtype)
        checks[name] = np.array_equal(out, expected) and np.array_equal(mine, of[rank])
    in_place = mine.copy()
    driver.all_reduce(in_place, in_place)
    checks["in place"] = np.array_equal(in_place, np.sum(np.stack(of), axis=0).astype(dtype))
    driver.exchange(mine, (rank + 1) % size, out, (rank - 1) % size)
    checks["exchange"] = np.array_equal(out, of[rank - 1])
    driver.broadcast(mine, root=size - 1)
    checks["broadcast"] = np.array_equal(mine, of[-1])
    return checks


if __name__ == "__main__":
    mpi_driver = connect(int(sys.argv[1]))
    hand_in(mpi_driver.rank, failures(mpi_driver))
    mpi_driver.close()
    mpi_driver.close()
