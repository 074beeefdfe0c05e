"""Synchronous parameter servers: each step every worker pushes its gradient, and waits for the updated parameters.

Servers hold a shard of the parameters each and sum gradients in the order of the workers in float64, so that the
result does not depend on who came first, nor on the number of shards. What is compressed is a worker's part of the
step's mean: what earlier steps left out is in it, and has had its weight.
"""

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs
from dlbench.strategies._protocol import Gradient, Message, Port, World, weighted_sum
from dlbench.strategies._servers import PushingWorker, Shard

OPTIONS = Options
NEEDS = Needs.of_nodes(SERVER, as_one_worker={}, compresses=True)


class SynchronousWorker(PushingWorker):
    """Pushes its gradient, or where it is compressed its part of the step's mean."""

    def push(self, gradient: Gradient, message_type: str = "push") -> None:
        """Send each server its part of a gradient."""
        is_compressed = self._world.make_compressor is not None
        super().push(gradient._replace(values=gradient.part) if is_compressed else gradient, message_type)


class SynchronousServer(Shard):
    """Updates once for each step, when the gradients of all workers but `backups` are there, and answers all workers.

    A worker that has finished is not waited for. A gradient of an earlier step than the current one is dropped; the
    learning rate goes by those that are not.

    Args:
        world: What every node knows.
        shard: The part that it holds.
        port: How it answers.
        backups: Workers whose gradients are not waited for.
        adds_up: Whether workers push parts of the mean, and not gradients that are weighted by their samples.
    """

    def __init__(self, world: World, shard: int, port: Port, backups: int = 0, *, adds_up: bool = False) -> None:
        super().__init__(world, shard, port)
        self._backups, self._adds_up = backups, adds_up
        self._gradients: dict[int, Message] = {}
        self._finished: set[int] = set()
        self._num_dropped = 0

    def on_message(self, message: Message) -> None:
        """Take a gradient, or note that a worker has finished."""
        if message.type == "finished":
            self._finished.add(message.worker)
        elif message.version < self.version:
            self._num_dropped += 1
            self.drop(message.samples)
        else:
            self._gradients[message.worker] = message
        self._update_if_ready()

    def _update_if_ready(self) -> None:
        # Those that have finished and whose last gradient is here were counted with the gradients.
        active = self.world.num_workers - len(self._finished - self._gradients.keys())
        if len(self._gradients) < max(1, active - self._backups):
            return
        taken = [self._gradients[worker] for worker in sorted(self._gradients)]
        self._gradients = {}
        samples = sum(message.samples for message in taken)
        if samples:
            gradients = [(message.numbers, 1 if self._adds_up else message.samples / samples) for message in taken]
            rate = self.world.rate(max(message.step for message in taken) - self._num_dropped)
            self.update(weighted_sum(gradients), rate, [0] * len(taken), samples)
        for worker in range(self.world.num_workers):
            if worker not in self._finished:
                self.send(worker)


def node(options: Options, world: World, role: str, index: int, port: Port) -> SynchronousWorker | SynchronousServer:
    """Return the node of a role."""
    if role == SERVER.name:
        return SynchronousServer(world, index, port, adds_up=world.make_compressor is not None)
    return SynchronousWorker(world, index, port)
