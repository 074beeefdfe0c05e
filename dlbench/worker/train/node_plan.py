"""What all nodes of a run have in common, real or simulated: their world, their samples, and how each is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlbench import plugins
from dlbench.scenario.needs import Needs
from dlbench.scenario.plugin_settings import update_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies import Array
from dlbench.strategies._protocol import Optimizer, Port, ServerNode, WorkerNode, World
from dlbench.worker.train.order import learning_rate
from dlbench.worker.train.schedule import HandedOut, InLockStep, schedule_of


@dataclass(frozen=True)
class NodePlan:
    """The nodes of a run.

    Attributes:
        world: What every node knows.
        schedule: Which samples are whose.
        full_rate: The learning rate after warm-up, for the samples that an update is made of.
        agrees: Whether all workers are to hold the same parameters at the end.
        shares_memory: Whether workers read and write common parameters.
        strategy: Makes the nodes.
        options: The strategy's.
        scores: Names of what trainers evaluate; the loss is the first.
    """

    world: World
    schedule: InLockStep | HandedOut
    full_rate: float
    agrees: bool
    shares_memory: bool
    strategy: plugins.Plugin
    options: plugins.Options
    scores: tuple[str, ...]

    def is_scored(self, node: int) -> bool:
        """Whether what is scored is made of a node's parameters: a server's where there are any, else a worker's."""
        first, stop = self.world.num_workers, self.world.num_workers + self.world.num_servers
        return first <= node < stop if self.world.num_servers else node < first

    def worker(self, rank: int, port: Port) -> WorkerNode:
        """Return the node of a worker."""
        create: Callable[..., WorkerNode] = self.strategy.get("create_worker")
        return create(self.options, self.world, rank, port)

    def server(self, shard: int, port: Port) -> ServerNode:
        """Return the node of the server of a shard."""
        create: Callable[..., ServerNode] = self.strategy.get("create_server")
        return create(self.options, self.world, shard, port)


def plan_nodes(
    run: RunSpec,
    num_samples: int,
    parameters: Array,
    make_optimizer: Callable[[Array], Optimizer],
    scores: Sequence[str],
) -> NodePlan:
    """Return the nodes of a run over this many training samples, with these first parameters.

    Raises:
        UserError: The samples fill no batch.
    """
    settings = run.settings
    strategy = plugins.load("strategies", settings.strategy)
    options = strategy.options(**run.options_of("strategy"))
    needs: Needs = strategy.get("NEEDS")
    schedule = schedule_of(run, num_samples, hands_out=needs.hands_out)
    full_rate = update_of(run).learning_rate

    def rate(step: int) -> float:
        return learning_rate(run, step, schedule.steps_per_epoch) * (full_rate / run.full_learning_rate)

    world = World(settings.workers, settings.servers or 0, parameters, rate, make_optimizer, run.seed)
    return NodePlan(world, schedule, full_rate, needs.agrees, needs.shares_memory, strategy, options, tuple(scores))
