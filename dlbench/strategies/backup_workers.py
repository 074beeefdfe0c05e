"""Synchronous parameter servers that take the first gradients of a step and drop those of the slowest workers.

Chen, Pan, Monga, Bengio and Jozefowicz, "Revisiting Distributed Synchronous SGD", 2016: of N + b workers the first N
gradients of a step are applied. `workers` counts all N + b.
"""

from pydantic import Field

from dlbench.plugins import Options
from dlbench.scenario.needs import SERVER, Needs
from dlbench.scenario.settings import Settings
from dlbench.strategies._protocol import Port, World
from dlbench.strategies._servers import PushingWorker
from dlbench.strategies.parameter_server import SynchronousServer

NEEDS = Needs.of_nodes(SERVER, hands_out=True, agrees=False, compresses=True)


class BackupOptions(Options):
    """Options of the strategy `backup_workers`."""

    backups: int = Field(1, ge=0, description="How many of the workers are backups: as many gradients may be dropped.")


OPTIONS = BackupOptions


def refuse(options: BackupOptions, settings: Settings) -> str:
    """Return why a run has too few workers for its backups, or too many servers, or ""."""
    if (settings.servers or 1) > 1:
        return "backup_workers has one server: several would drop the gradients of different workers"
    if options.backups < settings.workers:
        return ""
    return f"{options.backups} backups of {settings.workers} workers leave none: use fewer `strategy.backups`"


def batches_per_update(options: BackupOptions, workers: int) -> int:
    """Return how many workers' batches make an update."""
    return workers - options.backups


def node(options: BackupOptions, world: World, role: str, index: int, port: Port) -> PushingWorker | SynchronousServer:
    """Return the node of a role."""
    if role == SERVER.name:
        return SynchronousServer(world, index, port, options.backups)
    return PushingWorker(world, index, port)
