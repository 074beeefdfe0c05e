"""All-reduce of gradients around a ring, message by message: the base line among strategies that can be simulated.

Each worker sends 2 (p - 1) messages of 1/p of the gradient in each step, and updates its own parameters. What is
compressed goes round whole: each worker sends p - 1 messages, its own and those it passes on.
"""

from dlbench.plugins import Options
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import Array
from dlbench.strategies._peers import EncodedRingSum, LocalWorker, RingSum, refuse_large_ring
from dlbench.strategies._protocol import Gradient, Message, Port, World

OPTIONS = Options
NEEDS = Needs.of_nodes(as_one_worker={}, compresses=True)


class RingWorker(LocalWorker):
    """Sums the gradients of a step with all others, and applies the sum."""

    def __init__(self, world: World, rank: int, port: Port) -> None:
        super().__init__(world, rank, port)
        ring = RingSum if world.make_compressor is None else EncodedRingSum
        self._ring = ring(world, rank, port, self._apply_sum)
        self._gradient = Gradient(world.parameters, 0, 0, 0.0)

    def may_begin(self) -> bool:
        """Whether the last step is over."""
        return not self._ring.is_busy

    def on_gradient(self, gradient: Gradient) -> None:
        """Weight it by this worker's samples, and sum it over all workers."""
        self._gradient = gradient
        self._ring.start(gradient.part)

    def on_message(self, message: Message) -> None:
        """Take a block."""
        self._ring.on_message(message)

    def _apply_sum(self, total: Array) -> None:
        super().on_gradient(self._gradient._replace(values=total))


def refuse(options: Options, settings: Settings) -> str:
    """Return why there are too many workers, or ""."""
    return refuse_large_ring(settings.workers)


def node(options: Options, world: World, role: str, index: int, port: Port) -> RingWorker:
    """Return a worker's node."""
    return RingWorker(world, index, port)
