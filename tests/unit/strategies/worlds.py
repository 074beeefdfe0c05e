"""A world for nodes in which anything may happen next that messages and gradients allow: no clock, no links."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlbench import plugins
from dlbench.scenario.needs import SERVER
from dlbench.strategies._encoded_messages import make_node
from dlbench.strategies._protocol import Gradient, Message, Port, World
from dlbench.worker.simulate.world import SimulatedMemory

Array = np.ndarray
SIZE = 6


class Sgd:
    """p -= rate x gradient."""

    def __init__(self, parameters: Array) -> None:
        self._dtype = parameters.dtype

    def apply(self, parameters: Array, gradient: Array, learning_rate: float) -> None:
        parameters -= self._dtype.type(learning_rate) * gradient


def gradient_of(rank: int, step: int, parameters: Array) -> Array:
    """Return the gradient of a quadratic that differs between workers and steps."""
    random = np.random.default_rng([rank, step])
    return random.uniform(0.5, 1.5, parameters.size) * (parameters - random.normal(size=parameters.size))


def loss_of(rank: int, step: int, parameters: Array) -> float:
    """Return the quadratic."""
    random = np.random.default_rng([rank, step])
    curvature = random.uniform(0.5, 1.5, parameters.size)
    return float(curvature @ (parameters - random.normal(size=parameters.size)) ** 2) / 2


@dataclass
class Record:
    """What nodes said of their updates."""

    staleness: list[int] = field(default_factory=list)
    updates: list[tuple[int, ...]] = field(default_factory=list)
    samples: int = 0
    dropped: int = 0


class NodePort:
    """Queues what one node sends."""

    def __init__(self, world: "FuzzedWorld", node: int) -> None:
        self._world, self._node = world, node
        self.memory, self.updating = world.memory, nullcontext

    def send(self, to: int, message: Message) -> None:
        if message.body is not None:
            message.body.flags.writeable = False  # an array in a message is never written again
        self._world.channels.setdefault((self._node, to), deque()).append(message)
        self._world.sent.append((self._node, to, message))

    def updated(self, staleness: Sequence[int], samples: int) -> None:
        self._world.record.updates.append(tuple(staleness))
        self._world.record.staleness += staleness
        self._world.record.samples += samples

    def dropped(self, samples: int) -> None:
        self._world.record.dropped += 1


class FuzzedWorld:
    """All nodes of a strategy, driven in a random order.

    Messages between two nodes keep their order; everything else may happen in any.

    Args:
        strategy: Its name.
        workers: Workers.
        steps: Steps of each worker.
        seed: Of the order of events.
        servers: Servers, where it has any.
        options: Of the strategy.
        rate: The learning rate.
        dtype: Of the parameters.
        speeds: How likely each worker is to get on; equal where none are given.
        samples: Samples of a worker's step.
        gradient: Of a worker's step at some parameters; of batches that are assigned, of a batch 0, 1, ... in step 1.
        loss: The same.
        batches: In an epoch, where they are assigned; otherwise one for each worker.
        size: Numbers of the parameters.
        memory: What workers share, where they do.
        make_compressor: Of the world.
    """

    def __init__(
        self,
        strategy: str,
        workers: int,
        steps: int,
        seed: int = 0,
        servers: int = 1,
        options: dict[str, Any] | None = None,
        rate: float = 0.1,
        dtype: type = np.float64,
        speeds: Sequence[float] = (),
        samples: Callable[[int, int], int] = lambda rank, step: 1,
        gradient: Callable[[int, int, Array], Array] = gradient_of,
        loss: Callable[[int, int, Array], float] = loss_of,
        batches: int | None = None,
        size: int = SIZE,
        memory: Callable[[Array], Any] = SimulatedMemory,
        make_compressor: Callable[[int], Any] | None = None,
    ) -> None:
        self._gradient, self._loss = gradient, loss
        plugin = plugins.load("strategies", strategy)
        given, needs = plugin.options(**(options or {})), plugin.get("NEEDS")
        num_servers = servers if SERVER in needs.roles else 0
        first = np.random.default_rng(99).normal(size=size).astype(dtype)
        others = {role.name: num_servers if role is SERVER else 1 for role in needs.roles}
        self._batches, self._is_assigned = batches or workers, bool(needs.assigned_by)
        self.world = World(workers, others, first, lambda _: rate, Sgd, seed, make_compressor, self._batches, steps)
        self.record, self.channels, self.sent = Record(), {}, []
        self.memory = memory(first) if needs.shares_memory else None
        self._random = random.Random(seed)
        self._steps, self._speeds, self._samples = steps, speeds or [1.0] * workers, samples
        self._hands_out = needs.hands_out
        self.done, self.begun = [0] * workers, [None] * workers
        self._finished = [False] * workers
        self.handed_out = 0

        def made(node: int) -> Any:
            port: Port = NodePort(self, node)
            return make_node(plugin.get("node"), given, self.world, *self.world.role(node), port)

        self.workers = [made(rank) for rank in range(workers)]
        self.others = [made(node) for node in range(workers, self.world.num_nodes)]
        self.servers = [self.others[self.world.server(shard) - workers] for shard in range(num_servers)]
        self.on_event: Callable[[], None] = lambda: None

    def run(self) -> "FuzzedWorld":
        """Let events happen until there are none; every worker must have made all its steps."""
        while choices := self._choices():
            weights = [weight for weight, _ in choices]
            self._random.choices(choices, weights)[0][1]()
            self.on_event()
        assert all(self._finished), f"workers wait for ever after {self.done} steps"
        return self

    @property
    def parameters(self) -> Array:
        """What the servers hold."""
        return np.concatenate([server.parameters for server in self.servers])

    def _choices(self) -> list[tuple[float, Callable[[], None]]]:
        found: list[tuple[float, Callable[[], None]]] = []
        for (source, to), queue in self.channels.items():
            if queue:
                found.append((1.0, lambda source=source, to=to: self._deliver(source, to)))
        for rank, worker in enumerate(self.workers):
            if self.begun[rank] is not None:
                found.append((self._speeds[rank], lambda rank=rank: self._compute(rank)))
            elif not self._finished[rank] and worker.may_begin():
                found.append((1.0, lambda rank=rank: self._begin(rank)))
        return found

    def _deliver(self, source: int, to: int) -> None:
        message = self.channels[source, to].popleft()
        nodes = [*self.workers, *self.others]
        nodes[to].on_message(message)

    def _begin(self, rank: int) -> None:
        total = self._steps * len(self.workers)
        is_over = self.handed_out >= total if self._hands_out else self.done[rank] == self._steps
        if self._is_assigned:
            is_over = not self.workers[rank].assigned
        if is_over:
            self._finished[rank] = True
            self.workers[rank].finish()
            return
        self.handed_out += 1
        step = self.handed_out if self._hands_out else self.done[rank] + 1
        step = self.workers[rank].assigned if self._is_assigned else step
        self.begun[rank] = step, self.workers[rank].begin()

    def _compute(self, rank: int) -> None:
        step, parameters = self.begun[rank]
        self.begun[rank] = None
        self.done[rank] += 1
        # A batch that is assigned is the same whoever computes it, and in each epoch.
        whose, when = ((step - 1) % self._batches, 1) if self._is_assigned else (rank, step)
        samples = self._samples(whose, when)
        values = self._gradient(whose, when, parameters).astype(parameters.dtype) * (samples > 0)
        total = sum(self._samples(other, when) for other in range(len(self.workers)))
        share = 1.0 if self._hands_out else samples / total
        loss = self._loss(whose, when, parameters)
        self.workers[rank].on_gradient(Gradient(values, step, samples, share, loss))


def synchronous(workers: int, steps: int, rate: float = 0.1, samples: Callable[[int, int], int] = lambda rank, step: 1):
    """Return what one worker on the joined batch comes to, in float64."""
    found = np.random.default_rng(99).normal(size=SIZE)
    for step in range(1, steps + 1):
        counts = [samples(rank, step) for rank in range(workers)]
        gradients = [gradient_of(rank, step, found) * count for rank, count in enumerate(counts)]
        found = found - rate * np.sum(gradients, axis=0) / sum(counts)
    return found
