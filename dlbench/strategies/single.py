"""One worker and no communication library: the base line of every comparison."""

from typing import Any

from dlbench.plugins import Options
from dlbench.scenario.needs import Exchange, Needs
from dlbench.strategies import Communicator
from dlbench.strategies._peers import LocalWorker
from dlbench.strategies._protocol import Message, Port, World
from dlbench.strategies._step import Inside
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer

OPTIONS = Options
NEEDS = Needs(exchange=Exchange.INSIDE, max_workers=1, simulated=True, as_one_worker={}, changes_batch=True)


class Single:
    """The identity; sends nothing."""

    bytes_sent: int | None = 0

    def bind(self, trainer: Trainer, reporter: Reporter) -> Inside:
        """Return the step: a compiled call does everything, and one worker's gradients are their sum."""
        return Inside(trainer, reporter, in_graph=lambda gradients: gradients, in_forward=lambda tensor: tensor)

    def facts(self) -> dict[str, Any]:
        """Return nothing: no library was loaded."""
        return {}


class AloneWorker(LocalWorker):
    """Applies its own gradients: the base line of simulated arms."""

    def on_message(self, message: Message) -> None:
        """Refuse: there is no other worker."""
        raise RuntimeError(f"a single worker has a message of worker {message.worker}")


def node(options: Options, world: World, role: str, index: int, port: Port) -> AloneWorker:
    """Return a worker's node."""
    return AloneWorker(world, index, port)


def create(options: Options, communicator: Communicator, algorithm: str | None) -> Single:
    """Return the strategy of a single worker."""
    return Single()
