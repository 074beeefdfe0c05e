"""How long, or how many device-hours, the runs of one call of `dlbench run` may take."""

import math
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import fmean, median

from dlbench.errors import UserError, shown
from dlbench.records.outcome import Status
from dlbench.scenario.plugin_settings import num_slots
from dlbench.scenario.run_spec import RunSpec, arm_name
from dlbench.scenario.units import in_unit_of

_DEVICE_HOURS = re.compile(r"(\d+(?:\.\d+)?) ?device-h(?:ours?)?")
_EXAMPLE = "for example --budget 90min, --budget 2h, --budget '8 device-hours'"


@dataclass(frozen=True)
class Budget:
    """The most that runs may take together: seconds on the clock, and hours of workers' devices."""

    seconds: float = math.inf
    device_hours: float = math.inf

    @property
    def is_limited(self) -> bool:
        """Whether there is a budget at all."""
        return self != Budget()

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if math.isfinite(self.seconds) else f"{self.device_hours:g} device-hours"


def read_budget(text: str) -> Budget:
    """Return the budget that a text says: a time such as `2h`, or `8 device-hours`.

    Raises:
        UserError: It says none.
    """
    if match := _DEVICE_HOURS.fullmatch(text.strip()):
        budget = Budget(device_hours=float(match[1]))
    else:
        try:
            budget = Budget(seconds=float(in_unit_of("budget_s", text)))
        except ValueError:
            raise UserError(f"--budget {shown(text)} is no time", hint=_EXAMPLE) from None
    if not min(budget.seconds, budget.device_hours) > 0:
        raise UserError(f"--budget {shown(text)} is not above 0", hint=_EXAMPLE)
    return budget


class Spending:
    """What is left of a budget while runs are made.

    Args:
        budget: The most that may be spent, from now on.
        clock: Tells the time, in s.
    """

    def __init__(self, budget: Budget, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget, self.clock = budget, clock
        self._begun_at, self._device_hours = clock(), 0.0

    def left_s(self, run: RunSpec) -> float:
        """Return how long a run may take."""
        hours = (self.budget.device_hours - self._device_hours) / num_slots(run.settings)
        return min(self.budget.seconds - (self.clock() - self._begun_at), 3600 * hours)

    def has_room(self, runs: Iterable[tuple[RunSpec, float]]) -> bool:
        """Whether what is left suffices for runs that each take this many seconds."""
        every = list(runs)
        hours = sum(num_slots(run.settings) * seconds / 3600 for run, seconds in every)
        is_in_time = sum(seconds for _, seconds in every) <= self.budget.seconds - (self.clock() - self._begun_at)
        return is_in_time and hours <= self.budget.device_hours - self._device_hours

    def add(self, run: RunSpec, seconds: float) -> None:
        """Count the devices of a run that has taken so long."""
        self._device_hours += num_slots(run.settings) * seconds / 3600

    def stop(self, run: RunSpec, stop: threading.Event) -> threading.Event:
        """Return what ends a run: where the user does, and where the budget is spent."""
        left = self.left_s(run)
        return stop if math.isinf(left) else _Deadline(stop, self.clock() + left, self.clock)


class _Deadline(threading.Event):
    """Is set from a moment on, or once another event is."""

    def __init__(self, stop: threading.Event, at: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self._stop, self._at, self._clock = stop, at, clock

    def is_set(self) -> bool:
        """Whether the moment has come, or the other event is set."""
        return self._stop.is_set() or self._clock() >= self._at


class Durations:
    """How long runs have taken, and how long others of their arms will probably take."""

    def __init__(self) -> None:
        self._took: dict[str, list[float]] = {}
        self._usual_s: float | None = None

    def add(self, run_id: str, status: str, seconds: float) -> None:
        """Take the time of a run that has ended; only completed ones show how long others will take."""
        if status == Status.COMPLETED:
            self._took.setdefault(arm_name(run_id), []).append(seconds)
            self._usual_s = None

    def is_known(self, run: RunSpec) -> bool:
        """Whether a run of its arm has completed."""
        return arm_name(run.run_id) in self._took

    def expected_s(self, run: RunSpec) -> float | None:
        """Return how long a run will probably take: as its arm's runs did, else as the others; None without any."""
        if seconds := self._took.get(arm_name(run.run_id)):
            return median(seconds)
        if self._usual_s is None and self._took:
            self._usual_s = fmean(map(median, self._took.values()))
        return self._usual_s

    def total_s(self, runs: Iterable[RunSpec]) -> float | None:
        """Return how long runs will probably take together; None where no run has ended yet."""
        return sum(self.expected_s(run) or 0.0 for run in runs) if self._took else None
