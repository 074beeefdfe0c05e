"""A strategy with a role of its own: a coordinator sums what workers computed in a step, and sends the sum to all."""

from typing import Any

from dlbench.plugins import Options
from dlbench.scenario.needs import Needs, Role
from dlbench.strategies._peers import LocalWorker
from dlbench.strategies._protocol import Gradient, Message, Port, World

COORDINATOR = Role(name="coordinator")


class Worker(LocalWorker):
    """Sends its part of the step's mean gradient, and applies the sum."""

    waits_for = 0

    def may_begin(self) -> bool:
        """Whether the last step is over."""
        return not self.waits_for

    def on_gradient(self, gradient: Gradient) -> None:
        """Send its part."""
        self.waits_for, self.samples = gradient.step, gradient.samples
        part = (gradient.values * gradient.share).astype(gradient.values.dtype)
        message = Message("push", self._rank, gradient.step, samples=gradient.samples, body=part)
        self._port.send(self._world.node(COORDINATOR.name, 0), message)

    def on_message(self, message: Message) -> None:
        """Apply the sum."""
        assert message.body is not None
        super().on_gradient(Gradient(message.body, message.step, self.samples, 1.0))
        self.waits_for = 0


class Coordinator:
    """Waits for all workers, and sums in their order."""

    version = samples = 0

    def __init__(self, world: World, port: Port) -> None:
        self.parameters = world.parameters[:0]
        self._world, self._port = world, port
        self._parts: dict[int, Any] = {}

    def on_message(self, message: Message) -> None:
        """Take one worker's part; the last one of a step answers all."""
        self._parts[message.worker] = message.body
        if len(self._parts) == self._world.num_workers:
            total = sum(self._parts[worker] for worker in sorted(self._parts))
            self._parts = {}
            for worker in range(self._world.num_workers):
                self._port.send(worker, Message("averaged", worker, message.step, body=total))


class Coordinated:
    """Synchronous SGD through a coordinator."""

    OPTIONS = Options
    NEEDS = Needs.of_nodes(COORDINATOR, as_one_worker={})

    @staticmethod
    def node(options: Options, world: World, role: str, index: int, port: Port) -> Worker | Coordinator:
        """Return the node of a role."""
        return Coordinator(world, port) if role == COORDINATOR.name else Worker(world, index, port)
