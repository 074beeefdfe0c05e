"""Stale-synchronous parameter servers: a fast worker may be at most `bound` steps ahead of the slowest.

Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013. A worker at clock c
(after c steps) reads parameters that hold every update of clocks up to c - bound - 1 and its own ones, and whatever
else has arrived; the server keeps it waiting until then. Bound 0 is bulk-synchronous.
"""

from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies._protocol import Gradient, Message, Port, World
from dlbench.strategies._servers import PushingWorker, Shard

NEEDS = Needs.of_nodes(servers=True, agrees=False)

_FINISHED = 1 << 60


class StaleOptions(Options):
    """Options of the strategy `stale_synchronous`."""

    bound: int = Field(1, ge=0, description="Steps that the fastest worker may be ahead of the slowest.")


OPTIONS = StaleOptions


class StaleWorker(PushingWorker):
    """Pushes its part of the step's mean, so that the updates of all workers in a step add up to it."""

    def push(self, gradient: Gradient) -> None:
        """Send each server its part, weighted by this worker's share of the step's samples."""
        share = gradient.values.dtype.type(gradient.share)
        super().push(gradient._replace(values=gradient.values * share))


class StaleServer(Shard):
    """Adds updates as they arrive; answers a worker once the slowest is at most `bound` steps behind it."""

    def __init__(self, world: World, shard: int, port: Port, bound: int) -> None:
        super().__init__(world, shard, port)
        self._bound = bound
        # Steps that each worker has pushed, and those whose next read waits.
        self.clocks = [0] * world.num_workers
        self._waiting: set[int] = set()
        # Workers by clock, to know the slowest without looking at all.
        self._at = {0: world.num_workers}
        self._slowest = 0

    def on_message(self, message: Message) -> None:
        """Take a gradient, which asks for parameters too, or note that a worker has finished."""
        worker = message.worker
        if message.type == "finished":
            readers = self._move(worker, _FINISHED)
        else:
            assert message.body is not None
            self.update(message.body, self.world.rate(message.step), [self.version - message.version], message.samples)
            readers = self._move(worker, self.clocks[worker] + 1)
            self._waiting.add(worker)
            readers = readers or [worker]
        for reader in readers:
            if reader in self._waiting and self._slowest >= self.clocks[reader] - self._bound:
                self._waiting.discard(reader)
                self.send(reader)

    def _move(self, worker: int, clock: int) -> list[int]:
        """Advance a worker's clock; return the workers that may have waited for it, with this one, in order."""
        before, self.clocks[worker] = self.clocks[worker], clock
        self._at[clock] = self._at.get(clock, 0) + 1
        self._at[before] -= 1
        if not self._at[before]:
            del self._at[before]
            if before == self._slowest:
                self._slowest = min(self._at)
                return sorted({*self._waiting, worker})
        return []


def refuse(options: StaleOptions, settings: Settings) -> str:
    """Return why updates that are added one by one would not be those of the optimizer, or ""."""
    if settings.optimizer == "sgd" and not settings.momentum and not settings.weight_decay:
        return ""
    return "stale_synchronous adds the workers' updates one by one: use plain `optimizer: sgd`, without momentum"


def create_worker(options: StaleOptions, world: World, rank: int, port: Port) -> StaleWorker:
    """Return one worker's side."""
    return StaleWorker(world, rank, port)


def create_server(options: StaleOptions, world: World, shard: int, port: Port) -> StaleServer:
    """Return the side of the server of one shard."""
    return StaleServer(world, shard, port, options.bound)
