"""Downpour SGD: workers train on their own, fetch parameters every `n_fetch` and push what has gathered every `n_push`.

Dean et al., "Large Scale Distributed Deep Networks", 2012, algorithm 1.1. Servers use Adagrad by default, and one
worker may train alone for a while before the others begin. Differs from the paper: a fetch is awaited, so that one
worker that pushes and fetches at every step is plain SGD.
"""

import numpy as np
from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import is_plain_sgd
from dlbench.strategies._protocol import Gradient, Message, Port, World
from dlbench.strategies._servers import Adagrad, PushingWorker, Shard, send_to_servers

NEEDS = Needs.of_nodes(SERVER, hands_out=True, agrees=False, compresses=True)


class DownpourOptions(Options):
    """Options of the strategy `downpour`."""

    n_push: int = Field(1, ge=1, description="Steps between two pushes of the gathered gradient.")
    n_fetch: int = Field(1, ge=1, description="Steps between two fetches of the parameters.")
    adagrad: bool = Field(
        True, description="Whether servers use Adagrad; else they use the run's optimizer. Workers use plain SGD."
    )
    warm_start_steps: int = Field(0, ge=0, description="Steps that the first worker makes before the others begin.")


OPTIONS = DownpourOptions


class DownpourWorker(PushingWorker):
    """Trains on its own parameters between fetches."""

    def __init__(self, world: World, rank: int, port: Port, options: DownpourOptions) -> None:
        super().__init__(world, rank, port)
        self._options, self._steps = options, 0
        self._gathered, self._samples, self._last_step = np.zeros_like(world.parameters), 0, 0
        if rank and options.warm_start_steps:
            self.await_all()

    def on_gradient(self, gradient: Gradient) -> None:
        """Take a local step; push and fetch where they are due."""
        self._steps += 1
        self._gathered = self._gathered + gradient.values
        self._samples, self._last_step = self._samples + gradient.samples, gradient.step
        if self._steps % self._options.n_push == 0:
            self._push_gathered()
        if self._steps % self._options.n_fetch == 0:
            self.await_all()
            send_to_servers(self._world, self._port, Message("pull", self._rank, self._steps))
        else:
            rate = self.parameters.dtype.type(self._world.rate(gradient.step))
            with self._port.updating():
                self.parameters = self.parameters - rate * gradient.values

    def finish(self) -> None:
        """Push what has gathered."""
        if self._samples:
            self._push_gathered()
        super().finish()

    def _push_gathered(self) -> None:
        self.push(Gradient(self._gathered, self._last_step, self._samples, 1.0))
        self._gathered, self._samples = np.zeros_like(self._gathered), 0


class DownpourServer(Shard):
    """Adds what is pushed and answers who pulls; lets the others begin when the first has made its steps."""

    def __init__(self, world: World, shard: int, port: Port, options: DownpourOptions) -> None:
        super().__init__(world, shard, port)
        if options.adagrad:
            self._optimizer = Adagrad(self.parameters)
        self._held, self._steps_in_push = options.warm_start_steps, options.n_push
        self._steps_of_first = 0

    def on_message(self, message: Message) -> None:
        """Take a gathered gradient, or send parameters."""
        if message.type == "push":
            stale = self.version - message.version
            self.update(message.numbers, self.world.rate(message.step), [stale], message.samples)
        elif message.type == "pull":
            self.send(message.worker)
        is_first = message.worker == 0
        self._steps_of_first += self._steps_in_push * (is_first and message.type == "push")
        if self._held and is_first and (message.type == "finished" or self._steps_of_first >= self._held):
            self._held = 0
            for worker in range(1, self.world.num_workers):
                self.send(worker)


def refuse(options: DownpourOptions, settings: Settings) -> str:
    """Return why an optimizer would not be used, or ""."""
    if is_plain_sgd(settings) or not options.adagrad:
        return ""
    return "downpour uses Adagrad: use plain `optimizer: sgd`, or `strategy.adagrad: false` for your own on the servers"


def node(options: DownpourOptions, world: World, role: str, index: int, port: Port) -> DownpourWorker | DownpourServer:
    """Return the node of a role."""
    if role == SERVER.name:
        return DownpourServer(world, index, port, options)
    return DownpourWorker(world, index, port, options)
