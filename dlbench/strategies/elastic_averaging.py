"""Elastic averaging SGD: workers train on their own and are drawn towards a centre, and it towards them.

Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging SGD", 2015, the asynchronous algorithm 1: every
`period` steps a worker and the centre move towards each other by `moving_rate` / workers of their difference. The
centre, held by servers, is what is evaluated. Differs from the paper: the gradient after an exchange is computed at the
moved parameters.
"""

import numpy as np
from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs
from dlbench.strategies import Array
from dlbench.strategies._peers import LocalWorker
from dlbench.strategies._protocol import Gradient, Message, Port, World
from dlbench.strategies._servers import send_to_servers

NEEDS = Needs.of_nodes(SERVER, hands_out=True, agrees=False)


class ElasticOptions(Options):
    """Options of the strategy `elastic_averaging`."""

    period: int = Field(8, ge=1, description="Local steps between two exchanges with the centre.")
    moving_rate: float = Field(
        0.9,
        gt=0,
        le=1,
        description="Beta of the paper: a worker and the centre move by beta / workers of the difference.",
    )


OPTIONS = ElasticOptions


def share_of_gradient(options: ElasticOptions, workers: int) -> float:
    """Return with which part of it a worker's gradient enters the mean of all workers' parameters and the centre."""
    return 1 / (workers + 1)


class ElasticWorker(LocalWorker):
    """Sends its parameters to the centre every `period` steps, and waits for how far it has to move."""

    def __init__(self, world: World, rank: int, port: Port, options: ElasticOptions) -> None:
        super().__init__(world, rank, port)
        self._period, self._steps, self._samples = options.period, 0, 0
        self._awaited: set[int] = set()

    def may_begin(self) -> bool:
        """Whether no shard of the centre is awaited."""
        return not self._awaited

    def on_gradient(self, gradient: Gradient) -> None:
        """Take a local step; exchange where it is due."""
        super().on_gradient(gradient)
        self._steps, self._samples = self._steps + 1, self._samples + gradient.samples
        if self._steps % self._period == 0:
            self._exchange()

    def on_message(self, message: Message) -> None:
        """Move one shard towards the centre."""
        self.parameters = self.parameters.copy()
        self.parameters[self._world.shards[message.shard]] -= message.numbers
        self._awaited.discard(message.shard)

    def finish(self) -> None:
        """Give the centre what was learned since the last exchange."""
        if self._steps % self._period:
            self._exchange()

    def _exchange(self) -> None:
        self._awaited = set(range(len(self._world.shards)))
        message = Message("push", self._rank, self._steps, samples=self._samples)
        send_to_servers(self._world, self._port, message, self.parameters)
        self._samples = 0


class Centre:
    """One shard of the centre."""

    version = 0
    samples = 0

    def __init__(self, world: World, shard: int, port: Port, moving_rate: float) -> None:
        self.parameters: Array = world.parameters[world.shards[shard]].copy()
        self._port = port
        self._alpha = np.asarray(moving_rate / world.num_workers, world.parameters.dtype)

    def on_message(self, message: Message) -> None:
        """Move towards a worker's parameters, and answer with how far it is to move towards these."""
        move = self._alpha * (message.numbers - self.parameters)
        self.parameters += move
        self.samples += message.samples
        self._port.send(message.worker, Message("move", message.worker, message.step, 0, message.shard, 0, move))


def node(options: ElasticOptions, world: World, role: str, index: int, port: Port) -> ElasticWorker | Centre:
    """Return the node of a role."""
    if role == SERVER.name:
        return Centre(world, index, port, options.moving_rate)
    return ElasticWorker(world, index, port, options)
