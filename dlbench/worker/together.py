"""The workers of a run meeting each other, with the heartbeat told so."""

from dataclasses import dataclass

import numpy as np

from dlbench.strategies import Driver
from dlbench.trainers import Trainer
from dlbench.worker.step import Heartbeat


@dataclass(frozen=True)
class Together:
    """A window's meeting of all workers."""

    driver: Driver
    trainer: Trainer
    beat: Heartbeat

    def barrier(self) -> None:
        """Wait for this worker's device, then for every worker."""
        self.trainer.synchronize()
        self.beat.phase = "barrier"
        self.driver.barrier()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any worker."""
        return bool(self.most(float(flag)))

    def most(self, value: float) -> float:
        """Return the largest of all workers' values."""
        values = np.array([value])
        self.beat.phase = "barrier"
        self.driver.all_reduce(values, values, "max")
        return float(values[0])
