"""What strategies without a central copy share: workers with an optimizer of their own, and a ring of messages."""

from collections.abc import Callable

import numpy as np

from dlbench.compressors import decode, encode
from dlbench.parts import cut
from dlbench.strategies import Array
from dlbench.strategies._protocol import Gradient, Message, Port, World

# Of a larger ring a step's messages alone would take minutes to simulate.
MOST_IN_A_RING = 1024


def refuse_large_ring(workers: int) -> str:
    """Return why this number of workers is too large for a ring, or ""."""
    if workers <= MOST_IN_A_RING:
        return ""
    return (
        f"a ring of {workers} workers sends {2 * workers * (workers - 1):,} messages; at most {MOST_IN_A_RING} workers"
    )


class LocalWorker:
    """Applies gradients to its own parameters."""

    answers = False

    def __init__(self, world: World, rank: int, port: Port) -> None:
        self.parameters = world.parameters.copy()
        self._world, self._rank, self._port = world, rank, port
        self._optimizer = world.make_optimizer(self.parameters)

    def may_begin(self) -> bool:
        """Whether the next gradient may be computed: always, where nothing is awaited."""
        return True

    def begin(self) -> Array:
        """Return its parameters."""
        return self.parameters

    def on_gradient(self, gradient: Gradient) -> None:
        """Take one step of the optimizer, on a copy: the parameters may be in a message."""
        with self._port.updating():
            self.parameters = self.parameters.copy()
            self._optimizer.apply(self.parameters, gradient.values, self._world.rate(gradient.step))
        self._port.updated((), gradient.samples)

    def finish(self) -> None:
        """Do nothing: others wait for no more than this worker has given."""


class RingSum:
    """Sums vectors of all workers in 2 (p - 1) messages of each: reduce-scatter, then all-gather.

    Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. Every element is
    summed once, along the ring, so that all workers hold the same bits.

    Args:
        world: How many workers there are.
        rank: This one.
        port: Sends its messages.
        done: Called with the sum.
    """

    def __init__(self, world: World, rank: int, port: Port, done: Callable[[Array], None]) -> None:
        self._size, self._rank, self._port, self._done = world.num_workers, rank, port, done
        self._blocks = cut(world.parameters.size, world.num_workers)
        self._own: Array | None = None
        self._round = self._hop = 0
        # What came before it was due: the left neighbour may be a whole sum ahead in its own part of the ring.
        self._early: dict[tuple[int, int], Array] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a sum is under way."""
        return self._own is not None

    def start(self, values: Array) -> None:
        """Begin the next sum with this worker's vector; `done` may be called before this returns."""
        self._own, self._round, self._hop = values.copy(), self._round + 1, 0
        if self._size == 1:
            self._end()
            return
        self._send(self._rank)
        self._take_what_is_here()

    def on_message(self, message: Message) -> None:
        """Take a block from the left neighbour."""
        self._early[message.step, message.version] = message.numbers
        self._take_what_is_here()

    def _take_what_is_here(self) -> None:
        while self._own is not None and (body := self._early.pop((self._round, self._hop), None)) is not None:
            number = (self._rank - 1 - self._hop) % self._size
            block = self._blocks[number]
            if self._hop < self._size - 1:
                self._own[block] += body
            else:
                self._own[block] = body
            self._hop += 1
            if self._hop < 2 * (self._size - 1):
                self._send(number)
            else:
                self._end()

    def _send(self, number: int) -> None:
        assert self._own is not None
        body = self._own[self._blocks[number]].copy()
        right = (self._rank + 1) % self._size
        self._port.send(right, Message("block", self._rank, self._round, self._hop, number, 0, body))

    def _end(self) -> None:
        assert self._own is not None
        total, self._own = self._own, None
        self._done(total)


class EncodedRingSum:
    """Sums vectors of all workers that are sent compressed: each worker adds up all of them in the order of ranks.

    Its arguments are those of `RingSum`.
    """

    def __init__(self, world: World, rank: int, port: Port, done: Callable[[Array], None]) -> None:
        assert world.make_compressor is not None
        self._compressor = world.make_compressor(world.parameters.size)
        self._size, self._rank, self._port, self._done = world.num_workers, rank, port, done
        self._round = 0
        # What has come, by round and worker: the left neighbour may be a whole sum ahead.
        self._payloads: dict[int, dict[int, Array]] = {}
        self._values: Array | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a sum is under way."""
        return self._values is not None

    def start(self, values: Array) -> None:
        """Begin the next sum with this worker's vector; `done` may be called before this returns."""
        self._values, self._round = values, self._round + 1
        self.on_message(Message("block", self._rank, self._round, body=encode(self._compressor, values)))

    def on_message(self, message: Message) -> None:
        """Keep what one worker sent, pass it on unless that is the right neighbour, and end where all are there."""
        right = (self._rank + 1) % self._size
        if message.worker != right:
            self._port.send(right, message)
        self._payloads.setdefault(message.step, {})[message.worker] = message.numbers
        if self._values is not None and len(self._payloads.get(self._round, {})) == self._size:
            payloads, total = self._payloads.pop(self._round), np.zeros_like(self._values)
            for rank in range(self._size):
                decode(self._compressor, payloads[rank], total)
            self._values = None
            self._done(total)
