"""What strategies with servers share: a worker that pushes and waits for all shards, and a server that answers."""

from collections.abc import Sequence

import numpy as np

from dlbench.strategies import Array
from dlbench.strategies._protocol import Gradient, Message, Port, World


def send_to_servers(
    world: World, port: Port, message: Message, values: Array | None = None, versions: Sequence[int] | None = None
) -> None:
    """Send a message to each server: with its shard, part of a vector and version, where it has them."""
    for shard, part in enumerate(world.shards):
        version = message.version if versions is None else versions[shard]
        body = message.body if values is None else values[part]
        port.send(world.server(shard), message._replace(shard=shard, version=version, body=body))


class PushingWorker:
    """Pushes each gradient, shard by shard; goes on when it has newer parameters of every shard than those."""

    answers = False

    def __init__(self, world: World, rank: int, port: Port) -> None:
        self.parameters = world.parameters
        self._world, self._rank, self._port = world, rank, port
        shards = len(world.shards)
        # Updates that each shard has seen: of what is here, and of what the gradient is computed at.
        self._versions, self._begun = [0] * shards, [0] * shards
        # What came since the step was begun, by shard.
        self._received: dict[int, Array] = {}
        self._awaited: set[int] = set()

    def may_begin(self) -> bool:
        """Whether no shard is awaited."""
        return not self._awaited

    def begin(self) -> Array:
        """Join what has come of each shard, and return it."""
        if len(self._received) == len(self._world.shards) == 1:
            self.parameters = self._received[0]
        elif self._received:
            self.parameters = self.parameters.copy()
            for shard, body in self._received.items():
                self.parameters[self._world.shards[shard]] = body
        self._received = {}
        self._begun = self._versions.copy()
        return self.parameters

    def on_gradient(self, gradient: Gradient) -> None:
        """Push it, and wait for the shards of which nothing newer has come."""
        self.push(gradient)
        self._awaited = {shard for shard, begun in enumerate(self._begun) if self._versions[shard] <= begun}

    def push(self, gradient: Gradient, message_type: str = "push") -> None:
        """Send each server its part of a gradient."""
        message = Message(message_type, self._rank, gradient.step, samples=gradient.samples)
        send_to_servers(self._world, self._port, message, gradient.values, self._begun)

    def await_all(self) -> None:
        """Wait for newer parameters of every shard."""
        self._awaited = set(range(len(self._world.shards)))

    def on_message(self, message: Message) -> None:
        """Take the parameters of one shard."""
        self._versions[message.shard] = message.version
        self._received[message.shard] = message.numbers
        self._awaited.discard(message.shard)

    def finish(self) -> None:
        """Tell the servers not to wait for this worker."""
        send_to_servers(self._world, self._port, Message("finished", self._rank))


class Shard:
    """One server's parameters, with the number of updates they have seen.

    Attributes:
        parameters: Those of now, written in place.
        version: Updates so far.
        samples: Samples in them.
    """

    def __init__(self, world: World, shard: int, port: Port) -> None:
        self.world, self.shard, self._port = world, shard, port
        self.parameters = world.parameters[world.shards[shard]].copy()
        self.version = self.samples = 0
        self._optimizer = world.make_optimizer(self.parameters)
        self._copy: Array | None = None

    def update(self, gradient: Array, rate: float, staleness: Sequence[int], samples: int) -> None:
        """Apply one gradient of the shard's size; the first shard records the update for all."""
        self._optimizer.apply(self.parameters, gradient, rate)
        self.version += 1
        self.samples += samples
        self._copy = None
        if self.shard == 0:
            self._port.updated(staleness, samples)

    def drop(self, samples: int) -> None:
        """Record a gradient that is left out; the first shard does for all."""
        if self.shard == 0:
            self._port.dropped(samples)

    def send(self, worker: int, step: int = 0) -> None:
        """Send a worker the parameters of now, and what `step` means to the strategy."""
        if self._copy is None:
            self._copy = self.parameters.copy()
        message = Message("parameters", worker, step, self.version, self.shard, 0, self._copy)
        self._port.send(worker, message)


class Adagrad:
    """Adagrad (Duchi, Hazan and Singer 2011) on one shard: a parameter's rate falls with its squared gradients."""

    def __init__(self, parameters: Array, epsilon: float = 1e-7) -> None:
        self._squares = np.zeros_like(parameters)
        self._epsilon = epsilon

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        """Take one step: squares += g^2; p -= rate g / (sqrt(squares) + epsilon)."""
        self._squares += gradient * gradient
        parameters -= learning_rate * gradient / (np.sqrt(self._squares) + self._epsilon)
