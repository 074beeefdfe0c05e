"""Gossip: after each local step every second worker averages its parameters with a random one of the others.

Lian, Zhang, Zhang and Liu, "Asynchronous Decentralized Parallel Stochastic Gradient Descent" (AD-PSGD), 2018. The graph
is bipartite, as there: workers with even numbers ask, those with odd numbers answer at once, also while they compute,
and apply the gradient to the averaged parameters. So no two wait for each other, and the sum of a pair is kept.
"""

import numpy as np

from dlbench.plugins import Options
from dlbench.scenario.needs import Needs
from dlbench.strategies import Array
from dlbench.strategies._peers import LocalWorker
from dlbench.strategies._protocol import Gradient, Message, Port, World

OPTIONS = Options
NEEDS = Needs(communicators=("simulated",), hands_out=True, agrees=False)


class GossipWorker(LocalWorker):
    """Averages with one other worker at a time."""

    def __init__(self, world: World, rank: int, port: Port) -> None:
        super().__init__(world, rank, port)
        self._asks = rank % 2 == 0 and world.num_workers > 1
        self._random = np.random.default_rng([world.seed, rank])
        self._is_waiting = False

    def may_begin(self) -> bool:
        """Whether it awaits no answer."""
        return not self._is_waiting

    def on_gradient(self, gradient: Gradient) -> None:
        """Take a local step from the parameters of now, and ask another worker to average."""
        self.apply(gradient.values, gradient.step)
        self._port.updated((), gradient.samples)
        if self._asks:
            other = 2 * int(self._random.integers(self._world.num_workers // 2)) + 1
            self._is_waiting = True
            self._port.send(other, Message("average", self._rank, gradient.step, body=self.parameters))

    def on_message(self, message: Message) -> None:
        """Average with the one who asks, and answer; or take the average that was asked for."""
        assert message.body is not None
        if message.type == "average":
            self.parameters = self._mean(message.body)
            self._port.send(message.worker, Message("averaged", self._rank, message.step, body=self.parameters))
        else:
            self.parameters, self._is_waiting = message.body, False

    def _mean(self, other: Array) -> Array:
        mean: Array = (self.parameters + other) * np.asarray(0.5, other.dtype)
        return mean


def create_worker(options: Options, world: World, rank: int, port: Port) -> GossipWorker:
    """Return one worker's side."""
    return GossipWorker(world, rank, port)
