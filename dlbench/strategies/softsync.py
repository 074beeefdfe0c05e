"""Servers update after every floor(P / n) gradients, at a rate that falls with the gradients' staleness (n-softsync).

Zhang, Gupta, Lian and Liu, "Staleness-aware Async-SGD for Distributed Deep Learning", 2016: each gradient enters the
mean with its own rate, lr / staleness. n = P is asynchronous; n = 1 updates once for every P gradients, whoever
they are from. Workers are answered at once and never wait for others.
"""

from typing import Literal

from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies._protocol import Message, Port, World, weighted_sum
from dlbench.strategies._servers import PushingWorker, Shard

NEEDS = Needs.of_nodes(SERVER, hands_out=True, agrees=False, compresses=True)


class SoftsyncOptions(Options):
    """Options of the strategy `softsync`."""

    n: int = Field(1, ge=1, description="An update for every floor(workers / n) gradients; at most `workers`.")
    rate: Literal["staleness", "equal"] = Field(
        "staleness", description="`staleness`: each gradient's rate is divided by its staleness; `equal`: it is not."
    )


OPTIONS = SoftsyncOptions


class SoftsyncServer(Shard):
    """Collects gradients, whoever they are from; what is left when all workers have finished is applied, too."""

    def __init__(self, world: World, shard: int, port: Port, options: SoftsyncOptions) -> None:
        super().__init__(world, shard, port)
        self._needed, self._by_staleness = world.num_workers // options.n, options.rate == "staleness"
        self._gradients: list[Message] = []
        self._finished = 0

    def on_message(self, message: Message) -> None:
        """Take a gradient and answer its worker, or note that a worker has finished."""
        if message.type == "finished":
            self._finished += 1
        else:
            self._gradients.append(message)
        if len(self._gradients) == self._needed or (self._gradients and self._finished == self.world.num_workers):
            self._apply()
        if message.type == "push":
            self.send(message.worker)

    def _apply(self) -> None:
        taken, self._gradients = self._gradients, []
        staleness = [self.version - message.version for message in taken]
        divisors = [max(1, stale) if self._by_staleness else 1 for stale in staleness]
        samples = sum(message.samples for message in taken)
        gradients = [
            (message.numbers / message.numbers.dtype.type(divisor), message.samples / samples)
            for message, divisor in zip(taken, divisors, strict=True)
        ]
        rate = self.world.rate(max(message.step for message in taken))
        self.update(weighted_sum(gradients), rate, staleness, samples)


def refuse(options: SoftsyncOptions, settings: Settings) -> str:
    """Return why there cannot be this many updates for the gradients of all workers, or ""."""
    if options.n <= settings.workers:
        return ""
    return f"strategy.n is at most the number of workers, {settings.workers}, which is asynchronous; it is {options.n}"


def batches_per_update(options: SoftsyncOptions, workers: int) -> int:
    """Return how many workers' batches make an update."""
    return workers // options.n


def share_of_gradient(options: SoftsyncOptions, workers: int) -> float | None:
    """Return with which part of it a gradient enters an update; None where that depends on its staleness."""
    return None if options.rate == "staleness" else 1 / batches_per_update(options, workers)


def node(options: SoftsyncOptions, world: World, role: str, index: int, port: Port) -> PushingWorker | SoftsyncServer:
    """Return the node of a role."""
    if role == SERVER.name:
        return SoftsyncServer(world, index, port, options)
    return PushingWorker(world, index, port)
