"""Local SGD: workers train on their own and average their parameters every `period` steps.

Stich, "Local SGD Converges Fast and Communicates Little", 2019. With `after_steps` it is post-local SGD (Lin et al.,
"Don't Use Large Mini-batches, Use Local SGD", 2020): parameters are averaged at every step until then. Period 1 is
synchronous SGD (with plain `sgd`); messages fall to 1 / period. Parameters are averaged around a ring.
"""

import numpy as np
from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import Array
from dlbench.strategies._peers import LocalWorker, RingSum, refuse_large_ring
from dlbench.strategies._protocol import Gradient, Message, Port, World

NEEDS = Needs.of_nodes(as_one_worker={"period": 1})


class LocalOptions(Options):
    """Options of the strategy `local_sgd`."""

    period: int = Field(8, ge=1, description="Local steps between two averages of the parameters.")
    after_steps: int = Field(0, ge=0, description="Steps after which the period counts; averaged at every step before.")


OPTIONS = LocalOptions


class AveragingWorker(LocalWorker):
    """Averages its parameters with those of all others where it is due; after the last step, too."""

    def __init__(self, world: World, rank: int, port: Port, options: LocalOptions) -> None:
        super().__init__(world, rank, port)
        self._options = options
        self._ring = RingSum(world, rank, port, self._take_average)
        self._local_steps = 0
        # Sum of this worker's shares of the steps since the last average, each of which is 1 over all workers.
        self._share = 0.0

    def may_begin(self) -> bool:
        """Whether no average is under way."""
        return not self._ring.is_busy

    def on_gradient(self, gradient: Gradient) -> None:
        """Take a local step, and average where it is due."""
        super().on_gradient(gradient)
        self._local_steps, self._share = self._local_steps + 1, self._share + gradient.share
        if gradient.step <= self._options.after_steps or self._local_steps == self._options.period:
            self._average()

    def on_message(self, message: Message) -> None:
        """Take a block."""
        self._ring.on_message(message)

    def finish(self) -> None:
        """Average what local steps have been made since the last time: all workers have made as many."""
        if self._local_steps:
            self._average()

    def _average(self) -> None:
        weight = self._share / self._local_steps
        self._local_steps, self._share = 0, 0.0
        self._ring.start(self.parameters * np.asarray(weight, self.parameters.dtype))

    def _take_average(self, total: Array) -> None:
        self.parameters = total


def refuse(options: LocalOptions, settings: Settings) -> str:
    """Return why there are too many workers, or ""."""
    return refuse_large_ring(settings.workers)


def node(options: LocalOptions, world: World, role: str, index: int, port: Port) -> AveragingWorker:
    """Return a worker's node."""
    return AveragingWorker(world, index, port, options)
