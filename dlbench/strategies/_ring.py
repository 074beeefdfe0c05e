"""The ring all-reduce on point-to-point messages: reduce-scatter, then all-gather, 2(p-1) steps.

Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009). The vector is cut
into p blocks. In the first p-1 steps every rank sends one block to its right neighbour and adds the one it receives
from its left; then each rank holds one finished block, and p-1 more steps pass those round. Every block is summed
once, along one path, and copied: all ranks end with the same bits.
"""

from typing import Any

import numpy as np

from dlbench.parts import cut
from dlbench.strategies import Array, Communicator

# Longest message, unless another is asked for.
CHUNK_BYTES = 1 << 20


class Ring:
    """One rank's side of the ring; counts exactly what it sends.

    A block longer than `chunk_bytes` travels in equal pieces, each added while it is still in the cache; the number
    of pieces is the same in all steps and on all ranks, so that every send has its receive.

    Args:
        communicator: Carries the messages.
        chunk_bytes: Longest message; 0 sends whole blocks.
    """

    def __init__(self, communicator: Communicator, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.communicator = communicator
        self.chunk_bytes = chunk_bytes
        self.bytes_sent = 0
        self._scratch: Array = np.empty(0)
        self._blocks: list[list[slice]] = []
        self._shape: tuple[int, np.dtype[Any]] | None = None

    def all_reduce(self, array: Array) -> Array:
        """Overwrite a flat vector with the sum of all ranks' vectors of that length and type, and return it."""
        self._prepare(array)
        rank, steps = self.communicator.rank, self.communicator.size - 1
        for step in range(steps):
            self._pass_on(array, rank - step, add=True)
        for step in range(steps):
            self._pass_on(array, rank + 1 - step, add=False)
        return array

    def _prepare(self, array: Array) -> None:
        """Cut the vector and make room for one message, once for each length and type."""
        if self._shape == (array.size, array.dtype):
            return
        size = self.communicator.size
        longest = -(-array.size // size)
        limit = max(1, self.chunk_bytes // array.itemsize) if self.chunk_bytes else max(1, longest)
        pieces = max(1, -(-longest // limit))
        self._blocks = [cut(block.stop - block.start, pieces, block.start) for block in cut(array.size, size)]
        self._scratch = np.empty(-(-longest // pieces), array.dtype)
        self._shape = (array.size, array.dtype)

    def _pass_on(self, array: Array, block: int, *, add: bool) -> None:
        """Send one block to the right and take the block before it from the left, adding or replacing."""
        communicator, size = self.communicator, self.communicator.size
        right, left = (communicator.rank + 1) % size, (communicator.rank - 1) % size
        for outgoing, incoming in zip(self._blocks[block % size], self._blocks[(block - 1) % size], strict=True):
            send, mine = array[outgoing], array[incoming]
            received = self._scratch[: mine.size] if add else mine
            communicator.sendrecv(send, right, received, left)
            if add:
                np.add(mine, received, out=mine)
            self.bytes_sent += send.nbytes
