"""The driver of a single worker, with no library at all."""

from typing import Any

import numpy as np

from dlbench.strategies import Array


class Alone:
    """Everything is already where it belongs."""

    rank = 0
    size = 1

    def barrier(self) -> None:
        """Return: everyone is here."""

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Leave the root's array as it is."""

    def all_reduce(self, array: Array, out: Array, operation: str = "sum") -> None:
        """Copy: the sum, largest and smallest over one worker are its own."""
        if out is not array:
            np.copyto(out, array)

    def all_gather(self, value: Any) -> list[Any]:
        """Return the one value there is."""
        return [value]

    def exchange(self, send: Array, to: int, receive: Array, source: int) -> None:
        """Copy from this worker to itself, the only peer there is."""
        if (to, source) != (0, 0):
            raise ValueError(f"a single worker has no peer {to if to else source}")
        np.copyto(receive, send)

    def close(self) -> None:
        """Leave: nothing was opened."""


def connect(num_workers: int) -> Alone:
    """Return the driver of one worker.

    Raises:
        RuntimeError: More than one worker was asked for.
    """
    if num_workers != 1:
        raise RuntimeError(f"{num_workers} workers cannot meet without a driver such as `mpi`")
    return Alone()
