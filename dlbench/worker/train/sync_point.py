"""Where all workers synchronise."""

from dataclasses import dataclass

import numpy as np

from dlbench.strategies import Communicator
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Trainer


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

    def most(self, value: float) -> float:
        """Return the largest of all workers' values."""
        return float(self.largest(np.array([value]))[0])

    def largest(self, values: Array) -> Array:
        """Return the largest of all workers' values, element by element: float64 [n], the same n on all."""
        largest = np.array(values)
        if len(largest):
            self.reporter.phase = "barrier"
            self.communicator.all_reduce(largest, largest, "max")
        return largest
