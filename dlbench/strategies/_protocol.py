"""What strategies that send messages are made of: nodes, messages and the world they know. No MPI, no Keras, no clock.

A strategy of this kind is a state machine for a worker, and one for a server where it has servers. A driver, real or
simulated, gives a node its gradients and messages; the node answers through its `Port`. So the same code trains over
MPI and in a simulator, and a test needs neither.

Parameters and gradients are flat vectors. An array that was given to `send`, or came with a message, is never written
again. A gradient is the mean over the samples of one worker's batch, of which the message says how many there were.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from struct import Struct
from typing import Any, NamedTuple, Protocol

import numpy as np

from dlbench.compressors import Compressor
from dlbench.parts import PIECE, cut, pieces
from dlbench.scenario.needs import SERVER, WORKER
from dlbench.strategies import Array

# Types of strategies' messages.
TYPES = (
    "push", "pull", "parameters", "finished", "block", "move", "average", "averaged", "push_pull", "assign", "done",
    "products",
)  # fmt: skip
# Types of the run's own, which no strategy counts. `ask`: a worker asks for samples; `hand_out`: it gets a batch, whose
# number is `step`, of `samples`, which completes the epoch `version`; `copy`: a node sends the evaluator what it held
# when the epoch `step` ended, of which `samples` numbers are parameters; `is_last`: a worker asks whether the epoch
# `step` was the last; `answer`: it was where `samples` is 1; `close`: hand out no more samples.
RUN_TYPES = ("ask", "hand_out", "copy", "is_last", "answer", "close")
_ALL_TYPES = (*TYPES, *RUN_TYPES)
_TYPE_CODES = {name: code for code, name in enumerate(_ALL_TYPES)}
_WITHOUT_NUMBERS = frozenset(("pull", "finished", "assign", *RUN_TYPES)) - {"copy"}
# How the numbers of a body are encoded, which its message says; 0 stands for no body.
_ENCODINGS = tuple(map(np.dtype, ("float16", "float32", "float64", "uint8", "uint32", "int32", "int64")))
_ENCODING_CODES = {dtype: code for code, dtype in enumerate(_ENCODINGS, 1)}
# What a message takes besides its numbers: type and encoding, shard, worker, step, version, samples.
_HEADER = Struct("<hhiqqqq")
HEADER_BYTES = _HEADER.size


class Message(NamedTuple):
    """One message between two nodes.

    Attributes:
        type: What it says, one of `TYPES` or `RUN_TYPES`: `push` (a gradient or parameters), `pull`, `push_pull`
            (both), `parameters`, `finished`, ...
        worker: The worker it is about.
        step: That worker's step, 1, 2, ...
        version: Updates that the parameters had seen: those it carries, or those its gradient was computed at.
        shard: The part of the parameters.
        samples: Samples behind a gradient.
        body: Numbers [n], of a type that messages can carry, or None.
    """

    type: str
    worker: int
    step: int = 0
    version: int = 0
    shard: int = 0
    samples: int = 0
    body: Array | None = None

    @property
    def numbers(self) -> Array:
        """The body of a message whose type has numbers."""
        assert self.body is not None
        return self.body

    @property
    def num_bytes(self) -> int:
        """Bytes on the wire: header and numbers."""
        return HEADER_BYTES + (0 if self.body is None else self.body.nbytes)


def pack_header(message: Message) -> Array:
    """Return all of a message but its numbers, as bytes [HEADER_BYTES] (uint8).

    Raises:
        ValueError: There is no such message, it lacks numbers or has some against its type, or messages do not carry
            numbers of theirs.
    """
    kind, worker, step, version, shard, samples, body = message
    code, encoding = _TYPE_CODES.get(kind), 0 if body is None else _ENCODING_CODES.get(body.dtype)
    if code is None:
        raise ValueError(f"there is no message of type {kind!r}; strategies send {', '.join(TYPES)}")
    if body is not None and encoding is None:
        raise ValueError(f"messages do not carry {body.dtype}; they carry {', '.join(map(str, _ENCODINGS))}")
    if (body is None) != (kind in _WITHOUT_NUMBERS):
        raise ValueError(f"a message {kind} has {'no ' if body is None else ''}numbers")
    return np.frombuffer(_HEADER.pack(code, encoding, shard, worker, step, version, samples), np.uint8)


def unpack_header(header: Array) -> tuple[Message, np.dtype[Any] | None]:
    """Return the message whose header this is, without its numbers, and their type; None where it has none.

    Raises:
        ValueError: The bytes are no header.
    """
    if header.size != HEADER_BYTES:
        raise ValueError(f"{header.size} bytes are no message's header")
    kind, encoding, shard, worker, step, version, samples = _HEADER.unpack(header.tobytes())
    if not 0 <= kind < len(_ALL_TYPES) or not 0 <= encoding <= len(_ENCODINGS):
        raise ValueError(f"there is no message of type {kind} with numbers of encoding {encoding}")
    message = Message(_ALL_TYPES[kind], worker, step, version, shard, samples)
    return message, _ENCODINGS[encoding - 1] if encoding else None


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

    def updating(self) -> AbstractContextManager[None]:
        """Count the time of the block as that of an update, and not of messages."""

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
    """What every node knows from the start. Nodes are numbered: workers from 0, then those of other roles, in order.

    Attributes:
        num_workers: Workers.
        others: How many nodes there are of each other role, by its name.
        parameters: The common first parameters; not to be written.
        rate: Returns the learning rate of a gradient's step 1, 2, ...
        make_optimizer: Returns the run's optimizer for a vector of parameters.
        seed: The run's seed.
        make_compressor: Makes one node's side of what encodes vectors of a given size, step after step; None where
            gradients travel as they are.
        batches_per_epoch: Batches of one epoch, where samples are handed out or assigned.
        epochs: Epochs of the run.
    """

    num_workers: int
    others: Mapping[str, int]
    parameters: Array
    rate: Callable[[int], float]
    make_optimizer: Callable[[Array], Optimizer]
    seed: int = 0
    make_compressor: Callable[[int], Compressor] | None = None
    batches_per_epoch: int = 0
    epochs: int = 0

    @property
    def num_servers(self) -> int:
        """Servers; the parameters are cut into as many shards."""
        return self.others.get(SERVER.name, 0)

    @property
    def num_nodes(self) -> int:
        """Nodes of all roles."""
        return len(self._places)

    @cached_property
    def shards(self) -> tuple[slice, ...]:
        """The parts of the parameters, of equal bytes (or one number more), one for each server; one without any."""
        return tuple(cut(self.parameters.size, max(1, self.num_servers)))

    def node(self, role: str, index: int) -> int:
        """Return the number of a node."""
        return self._numbers[role, index]

    def server(self, shard: int) -> int:
        """Return the node that holds a shard."""
        return self._numbers[SERVER.name, shard]

    def role(self, node: int) -> tuple[str, int]:
        """Return the role of a node, and its number among those of this role."""
        return self._places[node]

    @cached_property
    def _places(self) -> list[tuple[str, int]]:
        counts = {WORKER: self.num_workers, **self.others}
        return [(role, index) for role, count in counts.items() for index in range(count)]

    @cached_property
    def _numbers(self) -> dict[tuple[str, int], int]:
        return {place: node for node, place in enumerate(self._places)}


class Gradient(NamedTuple):
    """What a worker computed in one step.

    Attributes:
        values: Mean gradient of its samples, flat; zeros without samples. The node may keep it, and must not write it.
        step: Number of its step, 1, 2, ...; where samples are handed out, of all workers' steps together.
        samples: Its samples.
        share: Its samples / samples of all workers in the step; where samples are handed out, 1.
        loss: Mean loss of its samples; None without samples.
    """

    values: Array
    step: int
    samples: int
    share: float
    loss: float | None = None

    @property
    def part(self) -> Array:
        """Its part of the mean over all workers' samples in the step."""
        part: Array = self.values * self.values.dtype.type(self.share)
        return part


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


class AssignedWorkerNode(WorkerNode, Protocol):
    """A worker's side of a strategy that has a node which assigns batches."""

    # The number of its next batch, 1, 2, ...; 0 where there are no more.
    assigned: int


class OtherNode(Protocol):
    """The side of a node that is no worker, such as the server that holds one shard."""

    # What it holds (a server its shard), how many updates that has seen (0 where it counts none), samples behind it.
    parameters: Array
    version: int
    samples: int

    def on_message(self, message: Message) -> None:
        """Take a message."""


def weighted_sum(gradients: Sequence[tuple[Array, float]]) -> Array:
    """Return the sum of gradients times their weights, in float64 in the given order, in the gradients' type."""
    first = gradients[0][0]
    total = np.empty_like(first)
    # In pieces that stay in the processor's cache: twice as fast, with the same bits.
    added, part = np.empty(PIECE), np.empty(PIECE)
    for piece in pieces(len(first)):
        size = piece.stop - piece.start
        sums, weighted = added[:size], part[:size]
        sums.fill(0)
        for values, weight in gradients:
            sums += np.multiply(values[piece], weight, out=weighted, dtype=np.float64)
        total[piece] = sums
    return total
