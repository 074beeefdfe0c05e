"""Synchronous parameter servers: each step every worker pushes its gradient, and waits for the updated parameters.

Servers hold a shard of the parameters each and sum gradients in the order of the workers in float64, so that the
result does not depend on who came first, nor on the number of shards.
"""

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs
from dlbench.strategies._protocol import Message, Port, World, weighted_mean
from dlbench.strategies._servers import PushingWorker, Shard

OPTIONS = Options
NEEDS = Needs.of_nodes(SERVER, as_one_worker={}, compresses=True)


class SynchronousServer(Shard):
    """Updates once for each step, when the gradients of all workers but `backups` are there, and answers all workers.

    A worker that has finished is not waited for. A gradient of an earlier step than the current one is dropped.
    """

    def __init__(self, world: World, shard: int, port: Port, backups: int = 0) -> None:
        super().__init__(world, shard, port)
        self._backups = backups
        self._gradients: dict[int, Message] = {}
        self._finished: set[int] = set()

    def on_message(self, message: Message) -> None:
        """Take a gradient, or note that a worker has finished."""
        if message.type == "finished":
            self._finished.add(message.worker)
        elif message.version < self.version:
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
        gradients = [(message.numbers, message.samples) for message in taken]
        samples = sum(message.samples for message in taken)
        if samples:
            rate = self.world.rate(max(message.step for message in taken))
            self.update(weighted_mean(gradients), rate, [0] * len(taken), samples)
        for worker in range(self.world.num_workers):
            if worker not in self._finished:
                self.send(worker)


def node(options: Options, world: World, role: str, index: int, port: Port) -> PushingWorker | SynchronousServer:
    """Return the node of a role."""
    if role == SERVER.name:
        return SynchronousServer(world, index, port)
    return PushingWorker(world, index, port)
