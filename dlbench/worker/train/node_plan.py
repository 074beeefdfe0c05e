"""What all nodes of a run have in common, real or simulated: their world, their samples, and how each is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dlbench import plugins
from dlbench.compressors import Compressor
from dlbench.scenario.needs import SERVER, WORKER, Needs
from dlbench.scenario.plugin_settings import nodes_of, update_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies import Array
from dlbench.strategies._encoded_messages import make_node
from dlbench.strategies._protocol import OtherNode, Port, WorkerNode, World
from dlbench.worker.train.order import learning_rate
from dlbench.worker.train.schedule import Assigned, HandedOut, InLockStep, schedule_of


@dataclass(frozen=True)
class NodePlan:
    """The nodes of a run.

    Attributes:
        world: What every node knows.
        schedule: Which samples are whose.
        full_rate: The learning rate after warm-up, for the samples that an update is made of.
        dispenser: The node that gives samples to workers, where one does.
        needs: What the strategy asks for and promises.
        make_node: Makes a node of a role, by its number among those of it, that answers through a port.
        scores: Names of what trainers evaluate; the loss is the first.
    """

    world: World
    schedule: InLockStep | HandedOut | Assigned
    full_rate: float
    dispenser: int | None
    needs: Needs
    make_node: Callable[[str, int, Port], Any]
    scores: tuple[str, ...]

    def is_scored(self, node: int) -> bool:
        """Whether what is scored is made of a node's parameters: a server's where there are any, else a worker's."""
        role = SERVER.name if self.world.num_servers else WORKER
        return node < self.world.num_nodes and self.world.role(node)[0] == role

    def worker(self, rank: int, port: Port) -> WorkerNode:
        """Return the node of a worker."""
        node: WorkerNode = self.make_node(WORKER, rank, port)
        return node

    def other(self, node: int, port: Port) -> OtherNode:
        """Return a node that is no worker, such as a server, by its number."""
        other: OtherNode = self.make_node(*self.world.role(node), port)
        return other


def plan_nodes(run: RunSpec, num_samples: int, parameters: Array, scores: Sequence[str]) -> NodePlan:
    """Return the nodes of a run over this many training samples, with these first parameters.

    Raises:
        UserError: The samples fill no batch.
    """
    settings = run.settings
    strategy = plugins.load("strategies", settings.strategy)
    options = strategy.options(**run.options_of("strategy"))
    needs: Needs = strategy.get("NEEDS")
    schedule = schedule_of(run, num_samples, hands_out=needs.hands_out, assigned=bool(needs.assigned_by))
    full_rate = update_of(run).learning_rate

    def rate(step: int) -> float:
        return learning_rate(run, step, schedule.steps_per_epoch) * (full_rate / run.full_learning_rate)

    others = {role.name: role.number for role in nodes_of(settings)}
    make_optimizer = partial(plugins.load("trainers", settings.trainer).get("make_flat_optimizer"), settings)
    world = World(
        settings.workers, others, parameters, rate, make_optimizer, run.seed, _compressor(run, parameters, needs),
        schedule.steps_per_epoch, run.epochs_per_worker,
    )  # fmt: skip
    make = partial(make_node, strategy.get("node"), options, world)
    return NodePlan(world, schedule, full_rate, _dispenser(needs, world), needs, make, tuple(scores))


def _dispenser(needs: Needs, world: World) -> int | None:
    """Return the node that hands out or assigns samples; a server does, which is there to answer, or else worker 0."""
    if needs.assigned_by:
        return world.node(needs.assigned_by, 0)
    if not needs.hands_out:
        return None
    return world.server(0) if world.num_servers else 0


def _compressor(run: RunSpec, parameters: Array, needs: Needs) -> Callable[[int], Compressor] | None:
    name, dtype = run.settings.compression, parameters.dtype
    if name is None:
        return None
    plugin = plugins.load("compressors", name)
    create, options = plugin.get("create"), plugin.options(**run.options_of("compression"))
    # Workers that have a share of each step send that part of its mean; others a gradient as it is.
    scale = 1.0 if needs.hands_out else 1 / run.settings.workers
    return lambda size: create(options, size, dtype, scale)
