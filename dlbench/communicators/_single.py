"""The communicator of a single worker, without any library."""

from typing import Any

import numpy as np

from dlbench.strategies import Array


class SingleCommunicator:
    """A world of one process: every collective is the identity."""

    rank = 0
    size = 1
    library = ""  # none carries messages

    def barrier(self) -> None:
        """Return at once."""

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Leave the array as it is."""

    def all_reduce(self, array: Array, out: Array, operation: str = "sum") -> None:
        """Copy: the sum, maximum and minimum over one worker are its own values."""
        if out is not array:
            np.copyto(out, array)

    def all_gather(self, value: Any) -> list[Any]:
        """Return the one value in a list."""
        return [value]

    def sendrecv(self, send: Array, to: int, receive: Array, source: int) -> None:
        """Copy from this worker to itself, the only peer there is."""
        np.copyto(receive, send)

    def close(self) -> None:
        """Return at once: nothing was opened."""


def connect(num_workers: int) -> SingleCommunicator:
    """Return the communicator of one worker.

    Raises:
        RuntimeError: More than one worker was asked for.
    """
    if num_workers != 1:
        raise RuntimeError(f"{num_workers} workers need a communicator such as `mpi`")
    return SingleCommunicator()
