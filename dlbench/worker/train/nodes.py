"""One node of a strategy in its own process: real messages, and a loop that computes while others send.

The node is the same object that a simulation drives (`dlbench.worker.simulate`). Beside the strategy's messages there
are the run's own (`dlbench.strategies._protocol.RUN_TYPES`), which hand out samples and serve the evaluator; they are
not counted.
"""

import contextlib
import ctypes
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import perf_counter
from typing import Protocol

import numpy as np

from dlbench.strategies import Array, Communicator
from dlbench.strategies._protocol import (
    RUN_TYPES,
    Gradient,
    Memory,
    Message,
    OtherNode,
    WorkerNode,
    pack_header,
    unpack_header,
)
from dlbench.worker.train.schedule import HandedOut, Ticket

# Polling intervals: at first short beside a message's latency, then this share of the time waited so far, which leaves
# the core to other processes. To look once takes a core 30 us: a server between two steps would take a tenth of it at
# 0.2 ms, and takes 3% at 1 ms.
_LEAST_POLL_S, _MOST_POLL_S, _POLL_SHARE = 2e-5, 1e-3, 0.05
# The same while this process computes: it takes the core from itself.
_POLL_COMPUTING_S = 1e-3
# And while it waits for others to arrive at the same place.
_MEETING_POLL_S = 1e-3
# Parameters of mallopt(3), the largest block that it can keep, and how much it keeps.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_KEPT_BYTES, _MOST_KEPT_BYTES = 2**25, 2**30
# Tags: messages, and their numbers.
_MESSAGES, _NUMBERS = range(2)


class ComputingNode(Protocol):
    """A node that answers messages, and may have something to compute between them, such as the evaluator."""

    def on_message(self, message: Message) -> None:
        """Take a message."""

    def is_due(self) -> bool:
        """Whether it has something to compute."""

    def compute(self) -> None:
        """Compute it, without sending; messages are received in another thread."""

    def on_computed(self) -> None:
        """Send what follows from it."""


class SharedMemory(Memory, Protocol):
    """Parameters that all workers share, and the bytes that this one has moved one-sidedly for them."""

    bytes_moved: int


class NodeCommunicator(Communicator, Protocol):
    """A communicator that carries messages, too, without waiting; see `dlbench.communicators.mpi`."""

    def send(self, data: Array, to: int, tag: int = 0) -> None:
        """Send bytes [n] (uint8) without waiting."""

    def is_sending(self) -> bool:
        """Whether a message is still on its way: a large one gets on only while this process calls."""

    def probe(self) -> tuple[int, int, int] | None:
        """Return source, tag and bytes of a message that has arrived, if any."""

    def receive(self, source: int, tag: int, num_bytes: int | None = None) -> Array:
        """Return that message; without a length the next one, for which it waits."""

    def enter_barrier(self) -> Callable[[], bool]:
        """Enter a barrier; what is returned says whether all have."""

    def share(self, first: Array, num_ranks: int) -> SharedMemory | None:
        """Return a vector that the first ranks read and write, None for others; a collective."""


def keep_memory() -> None:
    """Let the C library keep the memory of messages for the next ones: new pages cost more than what is in them.

    glibc gives back what is larger than 128 kB (mallopt(3)). A server of 270,000 parameters took 6.9 ms for an
    update of two gradients without this, and 3.1 ms with it.
    """
    with contextlib.suppress(AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)


def meet(communicator: NodeCommunicator) -> None:
    """Wait for all nodes without taking a core from those that still work; a collective."""
    is_over = communicator.enter_barrier()
    while not is_over():
        time.sleep(_MEETING_POLL_S)


def _nothing() -> None:
    """Do nothing."""


class NodeProcess:
    """Runs one node, and is the port through which it answers.

    Args:
        communicator: Connects all nodes: workers, then those of other roles, then the evaluator.
        memory: What workers share, where they do.

    Attributes:
        sent: Messages sent; likewise `received`, `bytes_sent` and `bytes_received`.
        links: By receiver, messages and bytes sent.
        moments: When this node has made each of its updates, on `perf_counter`, and the samples in each.
        staleness: How many gradients in them had which staleness.
        num_dropped: Gradients that it has left out.
        update_time_s: In which it has applied gradients itself since it took the last one.
        active_at: When it last computed, or a message came.
        closed_after: Whole epochs that it had handed out when it was told to hand out no more; else None.
        last_answer: Whether an epoch was the last, as the evaluator has answered; None before it has.
        found_no_more_at: When it was told that there are no more samples for it; None before, and for a server.
    """

    def __init__(self, communicator: NodeCommunicator, memory: Memory | None = None) -> None:
        self.memory = memory
        self.sent = self.received = self.bytes_sent = self.bytes_received = self.num_dropped = 0
        self.links: dict[int, tuple[int, int]] = {}
        self.moments, self.samples_of = array("d"), array("q")
        self.staleness: Counter[int] = Counter()
        self.update_time_s = 0.0
        self.active_at = perf_counter()
        self.found_no_more_at: float | None = None
        self._communicator = communicator
        # Of the node that hands out samples: what there is. Of a worker that asks for them: whom, and the answer.
        self._stock: HandedOut | None = None
        self._is_ending = False
        self._asked = -1
        self._offered: tuple[int, int, int] | None = None
        self._node: WorkerNode | OtherNode | ComputingNode | None = None
        # Messages of the run's own, sent and received.
        self._run_messages_sent = self._run_messages_received = 0
        self.last_answer: bool | None = None
        self.closed_after: int | None = None
        self._after_message: Callable[[], None] = _nothing
        self._pool = ThreadPoolExecutor(1)

    @property
    def samples(self) -> int:
        """Samples in its updates."""
        return sum(self.samples_of)

    def send(self, to: int, message: Message) -> None:
        """Send a message to a node; count it unless it is one of the run's own."""
        if message.type in RUN_TYPES:
            self._run_messages_sent += 1
        else:
            self.sent += 1
            self.bytes_sent += message.num_bytes
            messages, num_bytes = self.links.get(to, (0, 0))
            self.links[to] = messages + 1, num_bytes + message.num_bytes
        self._communicator.send(pack_header(message), to, _MESSAGES)
        if message.body is not None:
            # By themselves: to put them behind the header would be a copy of all of them.
            self._communicator.send(np.ascontiguousarray(message.body).view(np.uint8), to, _NUMBERS)

    @contextlib.contextmanager
    def updating(self) -> Iterator[None]:
        """Count the time of the block as that of an update."""
        began = perf_counter()
        yield
        self.update_time_s += perf_counter() - began

    def updated(self, staleness: Sequence[int], samples: int) -> None:
        """Count an update."""
        self.moments.append(perf_counter())
        self.samples_of.append(samples)
        self.staleness.update(staleness)

    def dropped(self, samples: int) -> None:
        """Count a gradient that entered no update; hand out as many samples more while all workers train."""
        self.num_dropped += 1
        if self._stock is not None and not self._is_ending:
            self._stock.give_back(samples)

    def hand_out(self, stock: HandedOut) -> None:
        """Let this node hand out samples to all workers."""
        self._stock = stock

    def ask(self, node: int) -> None:
        """Ask the node that hands out samples for the first ones of this worker."""
        self._asked = node
        self.send(node, Message("ask", self._communicator.rank))

    def next_handed_out(self, schedule: HandedOut) -> Ticket | None:
        """Return the samples that were handed out to this worker, and ask for those after them; None at the end."""
        if self._stock is not None:
            offered = self._take()
        else:
            self._until(lambda: self._offered is not None)
            assert self._offered is not None
            offered, self._offered = self._offered, None
            if offered[1]:
                self.ask(self._asked)
        return schedule.ticket(*offered) if offered[1] else None

    def start(self, node: WorkerNode) -> None:
        """Take part as a worker, whose samples, gradients and steps the caller makes; wait until it may begin."""
        self._node = node
        self._until(node.may_begin)

    @contextlib.contextmanager
    def computing(self, node: WorkerNode) -> Iterator[None]:
        """Compute a gradient in the block; messages are answered while it does, where any may come."""
        # A message that is still leaving would otherwise wait, and its receiver with it.
        is_busy = node.answers or self._stock is not None or self._communicator.is_sending()
        with self._answering() if is_busy else contextlib.nullcontext():
            yield

    def take_gradient(self, node: WorkerNode, ticket: Ticket, values: Array, loss: float | None = None) -> None:
        """Give the worker mean gradient and loss over a ticket's samples, and wait until it may begin again."""
        share = ticket.share
        # What has arrived since came before the gradient was ready.
        self._deliver()
        self.update_time_s = 0.0
        samples = len(share.indices)
        node.on_gradient(Gradient(values, ticket.step, samples, samples / share.total, loss))
        self._until(node.may_begin)
        self.active_at = perf_counter()

    def finish(self, node: WorkerNode) -> None:
        """Take part without further samples until all workers have ended; a collective."""
        self.found_no_more_at = perf_counter()
        node.finish()
        self._until(node.may_begin)
        self._end_with_all()

    def is_last(self, epoch: int, evaluator: int) -> bool:
        """Ask the evaluator whether training ends with an epoch; all who ask are told the same."""
        self.last_answer = None
        self.send(evaluator, Message("is_last", self._communicator.rank, epoch))
        self._until(lambda: self.last_answer is not None)
        return bool(self.last_answer)

    def serve_and_compute(self, node: ComputingNode) -> None:
        """Serve, and compute what is due, until all workers have ended; a collective."""
        self._node = node
        is_over = self._communicator.enter_barrier()
        while True:
            self._until(lambda: node.is_due() or is_over())
            if not node.is_due():
                break
            with self._answering():
                node.compute()
            node.on_computed()
        self.deliver_all()

    def serve(self, node: OtherNode, after_message: Callable[[], None] = _nothing) -> None:
        """Serve until all workers have ended; a collective. `after_message` is called after each message."""
        self._node, self._after_message = node, after_message
        self._end_with_all()

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        """Deliver messages in another thread while the block computes, and nothing else."""
        over = Event()

        def deliver() -> None:
            while not over.wait(_POLL_COMPUTING_S):
                self._deliver()

        delivering = self._pool.submit(deliver)
        try:
            yield
        finally:
            over.set()
            delivering.result()

    def _until(self, is_so: Callable[[], bool]) -> None:
        """Deliver messages until something is so."""
        since = perf_counter()
        while True:
            has_any = self._deliver()
            if is_so():
                return
            now = perf_counter()
            if has_any:
                since = now
            else:
                # Also where messages are on their way: without a pause their receiver might find no core to take them.
                share = 0.0 if self._communicator.is_sending() else _POLL_SHARE
                time.sleep(min(_MOST_POLL_S, max(_LEAST_POLL_S, share * (now - since))))

    def _deliver(self) -> bool:
        """Deliver what has arrived; return whether there was anything."""
        has_any = False
        while (envelope := self._communicator.probe()) is not None:
            has_any = True
            self._take_message(envelope[0], self._communicator.receive(*envelope))
        return has_any

    def _take_message(self, source: int, header: Array) -> None:
        message, dtype = unpack_header(header)
        if dtype is not None:
            message = message._replace(body=self._communicator.receive(source, _NUMBERS).view(dtype))
        if message.type in RUN_TYPES:
            self._run_messages_received += 1
            self._take_of_run(message)
            return
        assert self._node is not None
        self.received += 1
        self.bytes_received += message.num_bytes
        self._node.on_message(message)
        self.active_at = perf_counter()
        self._after_message()

    def _take_of_run(self, message: Message) -> None:
        if message.type == "ask":
            number, size, completes = self._take()
            self.send(message.worker, Message("hand_out", message.worker, number, completes, samples=size))
        elif message.type == "hand_out":
            self._offered = message.step, message.samples, message.version
        elif message.type == "answer":
            self.last_answer = bool(message.samples)
        elif message.type == "close" and self._stock is not None:
            if not self._is_ending:  # else it had nothing more to hand out by itself
                self.closed_after, self._is_ending = self._stock.close(), True
        else:
            assert self._node is not None
            self._node.on_message(message)

    def _take(self) -> tuple[int, int, int]:
        """Hand out the next samples, as `HandedOut.take`; none once a worker was told that there are none."""
        assert self._stock is not None
        offered = self._stock.take()
        self._is_ending |= not offered[1]
        return offered

    def _end_with_all(self) -> None:
        """Deliver messages until all nodes have come here, and none is on its way; a collective."""
        self._until(self._communicator.enter_barrier())
        self.deliver_all()

    def deliver_all(self) -> None:
        """Deliver messages until none is on its way, and none is sent any more; a collective.

        Sums of messages sent and received that are equal, and the same twice in a row, say so: what was sent between
        the first and the second sum would be in the second (Mattern, "Algorithms for distributed termination
        detection", 1987: the four counters).
        """
        # Whoever is late, such as an evaluator that scores, is waited for without taking a core.
        self._until(self._communicator.enter_barrier())
        before = np.array([-1, -1])
        while True:
            self._deliver()
            counts = np.array([self.sent + self._run_messages_sent, self.received + self._run_messages_received])
            self._communicator.all_reduce(counts, counts)
            if counts[0] == counts[1] and np.array_equal(counts, before):
                return
            before = counts
