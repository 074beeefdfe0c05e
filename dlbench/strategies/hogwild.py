"""Hogwild: all workers read and write the same parameters, without locks, messages or servers.

Recht, Re, Wright and Niu, "Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent", 2011: each
worker reads what is there, and subtracts rate x gradient where its gradient is not zero (`sparse`), or everywhere.
Where two write the same number at the same moment one of the writes may be lost; the rarer supports overlap, the less
it matters. On one host that is memory which its processes share. Between hosts worker 0 holds the parameters, and
others get them and add to them one-sidedly (MPI_Get_accumulate, MPI_Accumulate): there no write is lost. Differs from
the paper: a gradient is a batch's at parameters read before it, not one sample's at those that are there while it is
computed.
"""

import numpy as np
from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import Array, is_plain_sgd
from dlbench.strategies._protocol import Gradient, Memory, Message, Port, World

NEEDS = Needs.of_nodes(hands_out=True, shares_memory=True)


class HogwildOptions(Options):
    """Options of the strategy `hogwild`."""

    sparse: bool = Field(
        False, description="Write only where a gradient is not zero, such as the rows of an embedding that it used."
    )


OPTIONS = HogwildOptions


class HogwildWorker:
    """Subtracts its gradients from what all share."""

    answers = False

    def __init__(self, world: World, port: Port, *, sparse: bool) -> None:
        assert port.memory is not None
        self._memory: Memory = port.memory
        self._world, self._port, self._sparse = world, port, sparse
        self._version_read = 0

    @property
    def parameters(self) -> Array:
        """What all share, as it is now."""
        return self._memory.read()[0]

    def may_begin(self) -> bool:
        """Always: it does not wait."""
        return True

    def begin(self) -> Array:
        """Read what all share."""
        parameters, self._version_read = self._memory.read()
        return parameters

    def on_gradient(self, gradient: Gradient) -> None:
        """Subtract rate x gradient."""
        rate, values = self._world.rate(gradient.step), gradient.values
        with self._port.updating():
            if self._sparse:
                support = np.flatnonzero(values)
                version = self._memory.subtract(values[support] * rate, support)
            else:
                version = self._memory.subtract(values * rate)
        self._port.updated([version - self._version_read], gradient.samples)

    def on_message(self, message: Message) -> None:
        """There are no messages.

        Raises:
            ValueError: Somebody did.
        """
        raise ValueError(f"a worker of hogwild was sent {message.type}")

    def finish(self) -> None:
        """No other node waits for it."""


def refuse(options: HogwildOptions, settings: Settings) -> str:
    """Return why its rule is another than the optimizer's, or ""."""
    if is_plain_sgd(settings):
        return ""
    return (
        "the strategy hogwild subtracts rate x gradient and keeps nothing else: "
        "use `optimizer: sgd` without momentum and weight_decay"
    )


def node(options: HogwildOptions, world: World, role: str, index: int, port: Port) -> HogwildWorker:
    """Return a worker's node."""
    return HogwildWorker(world, port, sparse=options.sparse)
