"""Asynchronous parameter servers: each gradient is applied as it arrives, and only its worker gets new parameters.

No worker waits for another; in return a gradient is applied to parameters that others have changed since it was begun.
With P equal workers its staleness is P - 1 on average.
"""

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs
from dlbench.strategies._protocol import Message, Port, World
from dlbench.strategies._servers import PushingWorker, Shard

OPTIONS = Options
NEEDS = Needs.of_nodes(SERVER, hands_out=True, agrees=False, compresses=True)


class AsynchronousServer(Shard):
    """Applies each gradient on arrival and answers its worker."""

    def on_message(self, message: Message) -> None:
        """Take a gradient; a worker that has finished is nothing to it."""
        if message.type == "finished":
            return
        self.update(message.numbers, self.world.rate(message.step), [self.version - message.version], message.samples)
        self.send(message.worker)


def node(options: Options, world: World, role: str, index: int, port: Port) -> PushingWorker | AsynchronousServer:
    """Return the node of a role."""
    if role == SERVER.name:
        return AsynchronousServer(world, index, port)
    return PushingWorker(world, index, port)
