"""When the timed window opens: once step times have settled on every worker."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from dlbench.strategies import Communicator
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer

# Step times have settled when successive medians differ by no more than this.
SETTLED = 0.02
# Fewer steps cannot show a slow change: 2% over the three quarters compared is then more than 0.1% a step.
LEAST_WARMUP_STEPS = 32


def is_check_step(step: int) -> bool:
    """Whether warm-up is checked after this step: 32, 48, 64, 96, 128, 192, ... the same on every worker."""
    low = step & -step
    return step >= LEAST_WARMUP_STEPS and step in (low, 3 * low)


def has_settled(step_times: list[float]) -> bool:
    """Whether the last quarter's median is within 2% of both quarters' before it; the first quarter is left out.

    Three quarters show a change that goes on slowly: of two it is too little to be seen.
    """
    quarter = len(step_times) // 4
    if quarter < 2:
        return False
    medians = [median(step_times[-end * quarter : len(step_times) - (end - 1) * quarter]) for end in (3, 2, 1)]
    return all(abs(earlier - medians[-1]) <= SETTLED * earlier for earlier in medians[:-1])


@dataclass(frozen=True)
class SyncPoint:
    """Where all workers synchronise, with the phase reported; every method is a collective."""

    communicator: Communicator
    trainer: Trainer
    reporter: Reporter

    def barrier(self) -> None:
        """Wait for this worker's device, then for every worker."""
        self.trainer.synchronize()
        self.reporter.phase = "barrier"
        self.communicator.barrier()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any worker."""
        return bool(self.most(float(flag)))

    def most(self, value: float) -> float:
        """Return the largest of all workers' values."""
        values = np.array([value])
        self.reporter.phase = "barrier"
        self.communicator.all_reduce(values, values, "max")
        return float(values[0])


class WarmUp:
    """The steps before the timed window.

    Args:
        any_worker: Returns whether a flag is set on any worker; a collective.
        latest_step: Step after which it is over whether or not step times have settled.

    Attributes:
        is_over: Whether the window may open.
        steps: Steps counted.
        detected: Whether it ended because step times had settled; None before the first check.
    """

    def __init__(self, any_worker: Callable[[bool], bool], latest_step: int) -> None:
        self.is_over = False
        self.steps = 0
        self.detected: bool | None = None
        self._any_worker, self._latest_step = any_worker, latest_step
        self._step_times: list[float] = []

    def count(self, step_time_s: float) -> None:
        """Count one step; at some steps a collective."""
        self.steps += 1
        self._step_times.append(step_time_s)
        at_latest = self.steps >= self._latest_step
        if at_latest or is_check_step(self.steps):
            self.detected = not self._any_worker(not has_settled(self._step_times))
            self.is_over = at_latest or self.detected
