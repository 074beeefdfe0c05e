"""The plugins that settings name, what these declare of themselves, and the processes that follow from it."""

from dataclasses import dataclass
from typing import NamedTuple

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.scenario.needs import EVALUATOR, Needs, Role
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import PLUGIN_SETTINGS, Placement, Settings

# What a run of the user's own script never loads: there they are only what its rows are called.
LABELS_OF_A_COMMAND = ("model", "dataset", "trainer")
_REQUIRED = {"strategies": "NEEDS", "launchers": "PROVIDES", "trainers": "BUILDER"}


def load(kind: str, name: str, where: str = "") -> plugins.Plugin:
    """Load a plugin and make sure that it is one of its kind; the error says where it was asked for."""
    try:
        plugin = plugins.load(kind, name)
    except UserError as error:
        raise UserError(error.message, hint=error.hint, where=where) from error
    required = _REQUIRED.get(kind)
    if required is not None and plugin.get(required) is None:
        raise UserError(f"{name!r} is not one of the {kind}: it has no {required}", where=where)
    return plugin


def needs_of(strategy: str) -> Needs:
    """Return what a strategy needs of the world."""
    needs = load("strategies", strategy).get("NEEDS")
    if not isinstance(needs, Needs):
        raise UserError(f"the NEEDS of the strategy {strategy!r} are no `dlbench.scenario.needs.Needs`")
    return needs


def trains_in_nodes(settings: Settings) -> bool:
    """Whether nodes, real or simulated, train on flat vectors, with an optimizer that knows no variables."""
    return needs_of(settings.strategy).nodes or settings.is_simulated


def provides(launcher: str, strategy: str) -> tuple[str, ...]:
    """Return the collectives that a strategy's processes can use under a launcher."""
    needs = needs_of(strategy)
    return needs.collectives if needs.rendezvous else tuple(load("launchers", launcher).get("PROVIDES"))


def trainer_of(settings: Settings) -> str:
    """Return the trainer of a run: the one that is named, or that of its backend."""
    if settings.backend is None or settings.command is not None:
        return settings.trainer
    trainers = (settings.trainer, *plugins.names("trainers"))
    return next(name for name in trainers if load("trainers", name).get("BACKEND") == settings.backend)


@dataclass(frozen=True)
class Update:
    """What one update of the shared parameters is made of.

    Attributes:
        batches: How many workers' batches enter it.
        learning_rate: Its full rate.
        share: With which part of the rate the mean gradient of one batch enters the parameters that are scored; None
            where that differs between gradients.
    """

    batches: int
    learning_rate: float
    share: float | None


def update_of(run: RunSpec) -> Update:
    """Return what an update of a run is made of: all workers' batches, or where samples are handed out fewer."""
    settings, strategy = run.settings, load("strategies", run.settings.strategy)
    if not needs_of(settings.strategy).hands_out:
        return Update(settings.workers, run.full_learning_rate, 1 / settings.workers)
    options = strategy.options(**run.options_of("strategy"))
    counted, shared = strategy.get("batches_per_update"), strategy.get("share_of_gradient")
    batches = counted(options, settings.workers) if counted else 1
    share = shared(options, settings.workers) if shared else 1 / batches
    return Update(batches, run.learning_rate_of(batches * run.local_batch_size(0)), share)


def is_label(settings: Settings, key: str) -> bool:
    """Whether a setting only names what a script of the user's own does: no plugin of dlbench is called so."""
    if settings.command is None or key not in LABELS_OF_A_COMMAND:
        return False
    return getattr(settings, key) not in plugins.names(PLUGIN_SETTINGS[key])


class RoleProcesses(NamedTuple):
    """The processes of one role.

    Attributes:
        name: Of the role.
        number: How many there are.
        has_own_slots: Whether they have slots and cores of their own; else they are beside workers.
    """

    name: str
    number: int
    has_own_slots: bool

    @property
    def words(self) -> str:
        """Their number in words: `2 servers`."""
        return f"{self.number} {self.name}{'s' * (self.number != 1)}"


def roles_of(settings: Settings) -> list[RoleProcesses]:
    """Return the processes of a run beside its workers, by role in the order of ranks; of a simulated run none."""
    if settings.is_simulated:
        return []
    evaluators = [_processes(EVALUATOR, settings)] if settings.evaluator is not None else []
    return [*nodes_of(settings), *evaluators]


def nodes_of(settings: Settings) -> list[RoleProcesses]:
    """Return the nodes that a strategy has beside workers, by role in order; simulated or not."""
    return [_processes(role, settings) for role in needs_of(settings.strategy).roles]


def _processes(role: Role, settings: Settings) -> RoleProcesses:
    count = getattr(settings, role.count) if isinstance(role.count, str) else role.count
    placement = getattr(settings, role.placement) if role.placement else Placement.BESIDE
    return RoleProcesses(role.name, count or 0, placement is Placement.OWN)


def num_slots(settings: Settings) -> int:
    """Return the slots that a run's processes take: those of workers, and of others that have their own."""
    return settings.workers + sum(role.number for role in roles_of(settings) if role.has_own_slots)
