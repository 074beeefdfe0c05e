"""Stale-synchronous parameter servers: a fast worker may be at most `bound` steps ahead of the slowest.

Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", 2013. A worker at clock c
(after c steps) reads parameters that hold every update of clocks up to c - bound - 1 and its own ones, and whatever
else has arrived; the server keeps it waiting until then. Bound 0 is bulk-synchronous.

A worker reads from the server at every step (`reads: fresh`), or as in the paper goes on with the copy that it has and
its own updates, as long as that is new enough (`reads: cached`), which saves messages.
"""

from typing import Literal

from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies import is_plain_sgd
from dlbench.strategies._protocol import Gradient, Message, Port, World
from dlbench.strategies._servers import PushingWorker, Shard

NEEDS = Needs.of_nodes(SERVER, agrees=False, as_one_worker={"bound": 0}, bounded_by="bound", compresses=True)

_FINISHED = 1 << 60


class StaleOptions(Options):
    """Options of the strategy `stale_synchronous`."""

    bound: int = Field(1, ge=0, description="Steps that the fastest worker may be ahead of the slowest.")
    reads: Literal["fresh", "cached"] = Field(
        "fresh",
        description="`fresh`: a worker gets parameters after each step; `cached`: only once its own copy holds less "
        "than the bound demands.",
    )


OPTIONS = StaleOptions


class StaleWorker(PushingWorker):
    """Pushes its part of the step's mean, so that the updates of all workers in a step add up to it."""

    def __init__(self, world: World, rank: int, port: Port, options: StaleOptions) -> None:
        super().__init__(world, rank, port)
        self._bound, self._is_cached = options.bound, options.reads == "cached"
        self._steps = 0
        # Steps of the slowest worker that each shard's copy holds.
        self._held = [0] * len(world.shards)

    def on_gradient(self, gradient: Gradient) -> None:
        """Push it; then wait for newer parameters, or where the copy is new enough make the same update to it."""
        self._steps += 1
        scaled = gradient._replace(values=gradient.part)
        if self._is_cached and min(self._held) >= self._steps - self._bound:
            self.push(scaled)
            rate = self.parameters.dtype.type(self._world.rate(gradient.step))
            self.parameters = self.parameters - rate * scaled.values
            self._versions = [version + 1 for version in self._versions]
        else:
            self.push(scaled, "push_pull")
            self.await_all()

    def on_message(self, message: Message) -> None:
        """Take the parameters of one shard, which hold all steps up to `message.step`."""
        self._held[message.shard] = message.step
        super().on_message(message)


class StaleServer(Shard):
    """Adds updates as they arrive; answers a worker once the slowest is at most `bound` steps behind it."""

    def __init__(self, world: World, shard: int, port: Port, options: StaleOptions) -> None:
        super().__init__(world, shard, port)
        self._bound = options.bound
        # Steps that each worker has pushed, and those whose next read waits.
        self.clocks = [0] * world.num_workers
        self._waiting: set[int] = set()
        self._slowest = 0

    def on_message(self, message: Message) -> None:
        """Take a gradient, which may ask for parameters too, or note that a worker has finished.

        Raises:
            RuntimeError: A worker is further ahead than the bound allows.
        """
        worker = message.worker
        readers: list[int] = []
        if message.type == "finished":
            readers = self._move(worker, _FINISHED)
        elif message.body is not None:
            if self.clocks[worker] > self._slowest + self._bound:
                raise RuntimeError(
                    f"worker {worker} has made step {self.clocks[worker] + 1} while the slowest had made "
                    f"{self._slowest}: the bound is {self._bound}"
                )
            self.update(message.body, self.world.rate(message.step), [self.version - message.version], message.samples)
            readers = self._move(worker, self.clocks[worker] + 1)
        if message.type == "push_pull":
            self._waiting.add(worker)
            readers = readers or [worker]
        for reader in readers:
            if reader in self._waiting and self._slowest >= self.clocks[reader] - self._bound:
                self._waiting.discard(reader)
                self.send(reader, step=min(self._slowest, self.clocks[reader]))

    def _move(self, worker: int, clock: int) -> list[int]:
        """Advance a worker's clock; return the workers that may have waited for it, with this one, in order."""
        before, self.clocks[worker] = self._slowest, clock
        self._slowest = min(self.clocks)
        return sorted({*self._waiting, worker}) if self._slowest > before else []


def refuse(options: StaleOptions, settings: Settings) -> str:
    """Return why updates that are added one by one would not be those of the optimizer, or ""."""
    if is_plain_sgd(settings):
        return ""
    return "stale_synchronous adds the workers' updates one by one: use plain `optimizer: sgd`, without momentum"


def node(options: StaleOptions, world: World, role: str, index: int, port: Port) -> StaleWorker | StaleServer:
    """Return the node of a role."""
    if role == SERVER.name:
        return StaleServer(world, index, port, options)
    return StaleWorker(world, index, port, options)
