"""Messages of bytes between workers, of any length, over a communicator's point-to-point messages."""

from collections.abc import Sequence

import numpy as np

from dlbench.strategies import Array, Communicator


class PayloadExchange:
    """Sends and receives payloads, uint8 [n], and counts what leaves this worker.

    Attributes:
        bytes_sent: Payloads, those that are passed on, and the lengths that go before them.
    """

    def __init__(self, communicator: Communicator) -> None:
        self.rank, self.size = communicator.rank, communicator.size
        self._communicator = communicator
        self.bytes_sent = 0

    def swap(self, payload: Array, to: int, source: int, num_bytes: int | None = None) -> Array:
        """Send bytes to one rank and return those that another sends.

        Args:
            payload: Bytes to send.
            to: Who gets them.
            source: Who sends others.
            num_bytes: How many these are, where both sides know it; else a length of 8 bytes goes before each payload.
        """
        if num_bytes is None:
            length, coming = np.array([payload.size]), np.zeros(1, np.int64)
            self._communicator.sendrecv(length, to, coming, source)
            self.bytes_sent += length.nbytes
            num_bytes = int(coming[0])
        received = np.empty(num_bytes, np.uint8)
        self._communicator.sendrecv(payload, to, received, source)
        self.bytes_sent += payload.size
        return received

    def gather(self, payload: Array) -> list[Array]:
        """Return all workers' bytes by rank: each passes on what comes from its left."""
        gathered = {self.rank: payload}
        for step in range(self.size - 1):
            payload = self.swap(payload, (self.rank + 1) % self.size, (self.rank - 1) % self.size)
            gathered[(self.rank - 1 - step) % self.size] = payload
        return [gathered[rank] for rank in range(self.size)]

    def all_to_all(self, payloads: Sequence[Array], num_bytes: Sequence[int] | None = None) -> list[Array]:
        """Send payload i to rank i and return what each rank has sent here, by rank.

        Args:
            payloads: For each rank, this one included.
            num_bytes: How many bytes come from each rank, where that is known; see `swap`.
        """
        received = {self.rank: payloads[self.rank]}
        for step in range(1, self.size):
            to, source = (self.rank + step) % self.size, (self.rank - step) % self.size
            known = None if num_bytes is None else num_bytes[source]
            received[source] = self.swap(payloads[to], to, source, known)
        return [received[rank] for rank in range(self.size)]
