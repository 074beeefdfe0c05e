"""The processes of a run beside its workers: which roles its strategy declares, how many there are, and where."""

from typing import NamedTuple

from dlbench.scenario.needs import EVALUATOR, Role
from dlbench.scenario.plugin_settings import needs_of
from dlbench.scenario.settings import Placement, Settings


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
    evaluators = [EVALUATOR] if settings.evaluator is not None else []
    return [_processes(role, settings) for role in (*needs_of(settings.strategy).roles, *evaluators)]


def num_nodes_of(settings: Settings) -> dict[str, int]:
    """Return how many nodes a strategy has of each role that it declares, in order; simulated or not."""
    return {role.name: _count(role, settings) for role in needs_of(settings.strategy).roles}


def _processes(role: Role, settings: Settings) -> RoleProcesses:
    placement = getattr(settings, role.placement) if role.placement else Placement.BESIDE
    return RoleProcesses(role.name, _count(role, settings), placement is Placement.OWN)


def _count(role: Role, settings: Settings) -> int:
    return (getattr(settings, role.count) or 0) if isinstance(role.count, str) else role.count


def num_slots(settings: Settings) -> int:
    """Return the slots that a run's processes take: those of workers, and of others that have their own."""
    return settings.workers + sum(role.number for role in roles_of(settings) if role.has_own_slots)
