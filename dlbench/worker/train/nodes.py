"""One node of a strategy in a process of its own: real messages, and a loop that computes while others send.

The node is the same object that a simulation drives (`dlbench.worker.simulate`). Tests start such processes; no
launcher does yet.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from dlbench.strategies import Array
from dlbench.strategies._protocol import Gradient, Message, Port, ServerNode, WorkerNode, pack, unpack
from dlbench.worker.train.schedule import Ticket

# Polling interval: short beside a message's latency, long enough to leave the core to other processes.
_POLL_S = 2e-5


class MessageCommunicator(Protocol):
    """A communicator that carries messages without waiting; see `dlbench.communicators.mpi`."""

    rank: int
    size: int

    def send(self, data: Array, to: int, tag: int = 0) -> None:
        """Send bytes [n] (uint8) without waiting."""

    def probe(self) -> tuple[int, int, int] | None:
        """Return source, tag and bytes of a message that has arrived, if any."""

    def receive(self, source: int, tag: int, num_bytes: int) -> Array:
        """Return that message."""

    def enter_barrier(self) -> Callable[[], bool]:
        """Enter a barrier; what is returned says whether all have."""

    def all_reduce(self, array: Array, out: Array, operation: str = "sum") -> None:
        """Write the sum over all nodes to `out`."""


class NodeProcess:
    """Runs one node.

    Args:
        communicator: Connects all nodes: workers, then servers.
        dtype: Of parameters and gradients.

    Attributes:
        sent: Messages sent; likewise `received`, and `bytes_sent`.
        updates: Updates that this node has made, and `samples` in them.
        staleness: Of each gradient in them.
        num_dropped: Gradients that it has left out.
    """

    def __init__(self, communicator: MessageCommunicator, dtype: np.dtype[np.floating]) -> None:
        self.sent = self.received = self.bytes_sent = self.updates = self.samples = self.num_dropped = 0
        self.staleness: list[int] = []
        self._communicator, self._dtype = communicator, dtype

    @property
    def port(self) -> Port:
        """How its node answers."""
        return self

    def send(self, to: int, message: Message) -> None:
        """Send a message to a node."""
        data = pack(message)
        self.sent += 1
        self.bytes_sent += data.nbytes
        self._communicator.send(data, to)

    def updated(self, staleness: Sequence[int], samples: int) -> None:
        """Count an update."""
        self.updates += 1
        self.samples += samples
        self.staleness += staleness

    def dropped(self, samples: int) -> None:
        """Count a gradient that entered no update."""
        self.num_dropped += 1

    def train(
        self, node: WorkerNode, next_ticket: Callable[[], Ticket | None], gradient: Callable[[Ticket, Array], Array]
    ) -> None:
        """Train a worker until there are no more samples for it, and take part until all have ended; a collective.

        Args:
            node: The worker.
            next_ticket: Returns its next samples, None at the end.
            gradient: Returns the mean gradient of a ticket's samples at some parameters.
        """
        while True:
            self._until(node.may_begin, node)
            ticket = next_ticket()
            if ticket is None:
                break
            share = ticket.share
            values = gradient(ticket, node.begin())
            # What has come meanwhile came before the gradient was ready.
            self._deliver(node)
            node.on_gradient(Gradient(values, ticket.step, len(share.indices), len(share.indices) / share.total))
        node.finish()
        self._until(node.may_begin, node)
        self._end_with_all(node)

    def serve(self, node: ServerNode) -> None:
        """Serve until all workers have ended; a collective."""
        self._end_with_all(node)

    def _until(self, is_so: Callable[[], bool], node: WorkerNode | ServerNode) -> None:
        """Deliver messages until something is so."""
        while self._deliver(node) or not is_so():
            if self._communicator.probe() is None and not is_so():
                time.sleep(_POLL_S)

    def _deliver(self, node: WorkerNode | ServerNode) -> bool:
        """Deliver what has arrived; return whether there was anything."""
        has_any = False
        while (found := self._communicator.probe()) is not None:
            self.received += 1
            has_any = True
            node.on_message(unpack(self._communicator.receive(*found), self._dtype))
        return has_any

    def _end_with_all(self, node: WorkerNode | ServerNode) -> None:
        """Deliver messages until all nodes have come here, and none is on its way.

        Sums of messages sent and received that are equal, and the same twice in a row, say so: what was sent between
        the first and the second sum would be in the second (Mattern, "Algorithms for distributed termination
        detection", 1987: the four counters).
        """
        self._until(self._communicator.enter_barrier(), node)
        before = np.array([-1, -1])
        while True:
            self._deliver(node)
            counts = np.array([self.sent, self.received])
            self._communicator.all_reduce(counts, counts)
            if counts[0] == counts[1] and np.array_equal(counts, before):
                return
            before = counts
