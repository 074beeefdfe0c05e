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


def _processes(role: Role, settings: Settings) -> RoleProcesses:
    count = getattr(settings, role.count) if isinstance(role.count, str) else role.count
    placement = getattr(settings, role.placement) if role.placement else Placement.BESIDE
    return RoleProcesses(role.name, count or 0, placement is Placement.OWN)


def num_slots(settings: Settings) -> int:
    """Return the slots that a run's processes take: those of workers, and of others that have their own."""
    return settings.workers + sum(role.number for role in roles_of(settings) if role.has_own_slots)
