"""Evaluation: each validation sample exactly once over all workers, as sums and counts, outside the timed window."""

from dataclasses import dataclass

import numpy as np

from dlbench.strategies import Driver
from dlbench.trainers import Array, Trainer
from dlbench.worker.step import Heartbeat


@dataclass(frozen=True)
class Scores:
    """Mean loss and accuracy over all samples, and how many of them this worker evaluated."""

    loss: float
    accuracy: float
    own_samples: int


def average_statistics(trainer: Trainer, driver: Driver) -> None:
    """Set batch norm's moving statistics of every worker to their mean over workers; a collective."""
    statistics = trainer.statistics()
    if driver.size > 1 and statistics.size:
        driver.all_reduce(statistics, statistics)
        trainer.set_statistics(statistics / np.asarray(driver.size, statistics.dtype))


def evaluate(
    trainer: Trainer, driver: Driver, x: Array, y: Array, indices: Array, batch_size: int, beat: Heartbeat
) -> Scores:
    """Return the scores over `indices` of x and y; worker r takes every size-th one from r on; a collective.

    Raises:
        RuntimeError: The samples of all workers do not add up to the validation set.
    """
    beat.phase = "barrier"
    average_statistics(trainer, driver)
    beat.phase = "evaluate"
    mine = indices[driver.rank :: driver.size]
    sums = np.zeros(3)
    for start in range(0, len(mine), batch_size):
        batch = mine[start : start + batch_size]
        loss, correct = trainer.evaluate(x[batch], y[batch])
        sums += (loss, correct, len(batch))
    beat.phase = "barrier"
    driver.all_reduce(sums, sums)
    if sums[2] != len(indices):
        raise RuntimeError(f"evaluation counted {sums[2]:.0f} samples, the validation set has {len(indices)}")
    return Scores(float(sums[0] / sums[2]), float(sums[1] / sums[2]), len(mine))
