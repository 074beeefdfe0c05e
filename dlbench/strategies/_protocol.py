"""What strategies that send messages are made of: nodes, messages and the world they know. No MPI, no Keras, no clock.

A strategy of this kind is a state machine for a worker, and one for a server where it has servers. A driver, real or
simulated, gives a node its gradients and messages; the node answers through its `Port`. So the same code trains over
MPI and in a simulator, and a test needs neither.

Parameters and gradients are flat vectors. An array that was given to `send`, or came with a message, is never written
again. A gradient is the mean over the samples of one worker's batch, of which the message says how many there were.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from struct import Struct
from typing import NamedTuple, Protocol

import numpy as np

from dlbench.strategies import Array

# What messages say.
TYPES = ("push", "pull", "parameters", "finished", "block", "move", "average", "averaged", "push_pull")
_WITH_NUMBERS = frozenset(TYPES) - {"pull", "finished"}
# What a message takes besides its numbers: type and shard, worker, step, version, samples.
_HEADER = Struct("<iiqqqq")
HEADER_BYTES = _HEADER.size
# Numbers that a mean takes at a time.
_PIECE = 2**15


class Message(NamedTuple):
    """One message between two nodes.

    Attributes:
        type: What it says, one of `TYPES`: `push` (a gradient or parameters), `pull`, `push_pull` (both), `parameters`,
            `finished`, ...
        worker: The worker it is about.
        step: That worker's step, 1, 2, ...
        version: Updates that the parameters had seen: those it carries, or those its gradient was computed at.
        shard: The part of the parameters.
        samples: Samples behind a gradient.
        body: Numbers [size of the shard], or None.
    """

    type: str
    worker: int
    step: int = 0
    version: int = 0
    shard: int = 0
    samples: int = 0
    body: Array | None = None

    @property
    def num_bytes(self) -> int:
        """Bytes on the wire: header and numbers."""
        return HEADER_BYTES + (0 if self.body is None else self.body.nbytes)


def pack_header(message: Message) -> Array:
    """Return all of a message but its numbers, as bytes [HEADER_BYTES] (uint8).

    Raises:
        ValueError: It has numbers, and its type has none, or the other way round.
    """
    if (message.body is not None) != (message.type in _WITH_NUMBERS):
        raise ValueError(f"a message {message.type} has {'no ' if message.body is None else ''}numbers")
    kind = TYPES.index(message.type)
    header = _HEADER.pack(kind, message.shard, message.worker, message.step, message.version, message.samples)
    return np.frombuffer(header, np.uint8)


def unpack_header(header: Array) -> tuple[Message, bool]:
    """Return the message whose header this is, without its numbers, and whether it has any.

    Raises:
        ValueError: The bytes are no header.
    """
    if header.size != HEADER_BYTES:
        raise ValueError(f"{header.size} bytes are no message's header")
    kind, shard, worker, step, version, samples = _HEADER.unpack(header.tobytes())
    if not 0 <= kind < len(TYPES):
        raise ValueError(f"there is no message of type {kind}")
    return Message(TYPES[kind], worker, step, version, shard, samples), TYPES[kind] in _WITH_NUMBERS


class Memory(Protocol):
    """Parameters that all workers read and write at any moment, without a lock and without a message (Hogwild)."""

    def read(self) -> tuple[Array, int]:
        """Return the parameters, not to be written, and how many updates had been made before they were read."""

    def subtract(self, change: Array, at: Array | None = None) -> int:
        """Subtract from all parameters, or from those at some places; return how many updates were made before."""


class Port(Protocol):
    """How a node answers: messages to other nodes, and what the records are to say of its updates.

    Attributes:
        memory: What workers share, where the strategy `shares_memory`.
    """

    memory: Memory | None

    def send(self, to: int, message: Message) -> None:
        """Send a message to a node; those between two nodes arrive in the order in which they were sent."""

    def updated(self, staleness: Sequence[int], samples: int) -> None:
        """Record one update of parameters.

        Args:
            staleness: Of each gradient in it, version at the update - version read; empty where there is no server.
            samples: Samples behind them.
        """

    def dropped(self, samples: int) -> None:
        """Record a gradient that entered no update."""


class Optimizer(Protocol):
    """Changes a flat vector in place; see `dlbench.trainers`."""

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Take one step."""


@dataclass(frozen=True)
class World:
    """What every node knows from the start. Nodes are numbered: workers from 0, then servers.

    Attributes:
        num_workers: Workers.
        num_servers: Servers; the parameters are cut into as many shards.
        parameters: The common first parameters; not to be written.
        rate: Returns the learning rate of a gradient's step 1, 2, ...
        make_optimizer: Returns the run's optimizer for a vector of parameters.
        seed: The run's seed.
    """

    num_workers: int
    num_servers: int
    parameters: Array
    rate: Callable[[int], float]
    make_optimizer: Callable[[Array], Optimizer]
    seed: int = 0

    @cached_property
    def shards(self) -> tuple[slice, ...]:
        """The parts of the parameters, of equal bytes (or one number more), one for each server; one without any."""
        return cut(self.parameters.size, max(1, self.num_servers))

    def server(self, shard: int) -> int:
        """Return the node that holds a shard."""
        return self.num_workers + shard


class Gradient(NamedTuple):
    """What a worker computed in one step.

    Attributes:
        values: Mean gradient of its samples, flat; zeros without samples. The node may keep it, and must not write it.
        step: Number of its step, 1, 2, ...; where samples are handed out, of all workers' steps together.
        samples: Its samples.
        share: Its samples / samples of all workers in the step; where samples are handed out, 1.
    """

    values: Array
    step: int
    samples: int
    share: float


class WorkerNode(Protocol):
    """A worker's side of a strategy."""

    # Its parameters of now, flat.
    parameters: Array
    # Whether it answers other workers while it computes.
    answers: bool = False

    def may_begin(self) -> bool:
        """Whether the next gradient may be computed now."""

    def begin(self) -> Array:
        """Begin a step: return what its gradient is computed at, which is not written while it is being computed."""

    def on_gradient(self, gradient: Gradient) -> None:
        """Take the gradient of the step that was begun."""

    def on_message(self, message: Message) -> None:
        """Take a message."""

    def finish(self) -> None:
        """Take part to the end: there are no more samples for this worker."""


class ServerNode(Protocol):
    """The side of the server that holds one shard."""

    # Its shard, how many updates that has seen (0 where it counts none), and the samples behind it.
    parameters: Array
    version: int
    samples: int

    def on_message(self, message: Message) -> None:
        """Take a message."""


def cut(size: int, parts: int) -> tuple[slice, ...]:
    """Return a vector's parts, whose sizes differ by one at most."""
    ends = [size * part // parts for part in range(parts + 1)]
    return tuple(slice(*part) for part in pairwise(ends))


def weighted_mean(gradients: Sequence[tuple[Array, int]]) -> Array:
    """Return the mean of gradients weighted by their samples, in float64 in the given order, in the gradients' type.

    Raises:
        ValueError: There is none with samples.
    """
    total = sum(samples for _, samples in gradients)
    if not total:
        raise ValueError("a mean needs samples")
    first = gradients[0][0]
    mean = np.empty_like(first)
    # In pieces that stay in the processor's cache: twice as fast, with the same bits.
    added, part = np.empty(_PIECE), np.empty(_PIECE)
    for start in range(0, len(first), _PIECE):
        piece = slice(start, min(start + _PIECE, len(first)))
        sums, weighted = added[: piece.stop - start], part[: piece.stop - start]
        sums.fill(0)
        for values, samples in gradients:
            sums += np.multiply(values[piece], samples / total, out=weighted, dtype=np.float64)
        mean[piece] = sums
    return mean
