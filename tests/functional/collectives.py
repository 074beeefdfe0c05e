"""Every communicator's collectives on one kind of array, against what NumPy makes of all workers' arrays."""

from typing import Any

import numpy as np

from dlbench.strategies import Communicator


def arrays(communicator: Communicator, dtype: type, count: int) -> dict[str, bool]:
    """Return whether each operation on one kind of array is right."""
    size, rank = communicator.size, communicator.rank
    # Sums that float32 cannot hold would not be found with small numbers.
    large = 2**40 if dtype is np.int64 else 0
    of: list[Any] = [(np.arange(count) % 7 + 3 * other + large).astype(dtype) for other in range(size)]
    mine, out = of[rank].copy(), np.zeros(count, dtype)
    checks = {}
    for name, function in (("sum", np.sum), ("max", np.max), ("min", np.min)):
        communicator.all_reduce(mine, out, name)
        expected = function(np.stack(of), axis=0).astype(dtype)
        checks[name] = np.array_equal(out, expected) and np.array_equal(mine, of[rank])
    in_place = mine.copy()
    communicator.all_reduce(in_place, in_place)
    checks["in place"] = np.array_equal(in_place, np.sum(np.stack(of), axis=0).astype(dtype))
    communicator.broadcast(mine, root=size - 1)
    checks["broadcast"] = np.array_equal(mine, of[-1])
    return checks


def gathers(communicator: Communicator) -> bool:
    """Return whether values of every kind, and of unequal length, arrive everywhere in the order of ranks."""
    everyone = range(communicator.size)
    values = [None if rank == 1 else {"rank": rank, "text": "한글\n" * rank, "list": [1.5, True]} for rank in everyone]
    return communicator.all_gather(values[communicator.rank]) == values
