"""Gossip: in each step every second worker averages its parameters with a random one of the others.

Lian, Zhang, Zhang and Liu, "Asynchronous Decentralized Parallel Stochastic Gradient Descent" (AD-PSGD), 2018. The graph
is bipartite, as there: workers with even numbers ask, those with odd numbers answer at once, also while they compute.
Gradients are applied to the averaged parameters. So no two wait for each other, and the sum of a pair is kept. Differs
from the paper: a worker asks when its gradient is ready, not while it computes.
"""

import numpy as np

from dlbench.plugins import Options
from dlbench.scenario.needs import Needs
from dlbench.strategies._peers import LocalWorker
from dlbench.strategies._protocol import Gradient, Message, Port, World

OPTIONS = Options
NEEDS = Needs.of_nodes(hands_out=True, agrees=False)


# Apart from what permutations and compute times draw by the same seed.
_STREAM = 0x676F7373


def share_of_gradient(options: Options, workers: int) -> float:
    """Return with which part of it a worker's gradient enters the mean of all workers' parameters."""
    return 1 / workers


class GossipWorker(LocalWorker):
    """Averages with one other worker at a time."""

    def __init__(self, world: World, rank: int, port: Port) -> None:
        super().__init__(world, rank, port)
        self._asks = rank % 2 == 0 and world.num_workers > 1
        self.answers = not self._asks
        self._random = np.random.default_rng([_STREAM, world.seed, rank])
        # What waits for an answer.
        self._gradient: Gradient | None = None

    def may_begin(self) -> bool:
        """Whether it awaits no answer."""
        return self._gradient is None

    def on_gradient(self, gradient: Gradient) -> None:
        """Average with another worker, and apply the gradient to the average; one that answers applies it at once."""
        if not self._asks:
            super().on_gradient(gradient)
            return
        other = 2 * int(self._random.integers(self._world.num_workers // 2)) + 1
        self._gradient = gradient
        self._port.send(other, Message("average", self._rank, gradient.step, body=self.parameters))

    def on_message(self, message: Message) -> None:
        """Average with the worker that asks, and answer; or take the average that was asked for."""
        if message.type == "average":
            self.parameters = (self.parameters + message.numbers) * self.parameters.dtype.type(0.5)
            self._port.send(message.worker, Message("averaged", self._rank, message.step, body=self.parameters))
        else:
            assert self._gradient is not None
            gradient, self._gradient = self._gradient, None
            self.parameters = message.numbers
            super().on_gradient(gradient)


def node(options: Options, world: World, role: str, index: int, port: Port) -> GossipWorker:
    """Return a worker's node."""
    return GossipWorker(world, index, port)
