"""Evaluation: each validation sample exactly once over all workers, as sums and counts, outside the timed window."""

from typing import NamedTuple

import numpy as np

from dlbench.strategies import Communicator
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Trainer


class Scores(NamedTuple):
    """Mean loss and accuracy over all samples, and how many of them this process evaluated."""

    loss: float
    accuracy: float
    own_samples: int


def average_statistics(trainer: Trainer, communicator: Communicator, num_replicas: int = 1) -> None:
    """Set batch norm's moving statistics of every worker to their mean over workers; a collective.

    Args:
        trainer: Returns the statistics of all replicas of this process, one after the other.
        communicator: Connects all processes.
        num_replicas: Replicas of this process.
    """
    statistics = trainer.statistics()
    if statistics.size and (communicator.size > 1 or num_replicas > 1):
        own = statistics.reshape(num_replicas, -1).sum(axis=0)
        sums = np.append(own, np.asarray(num_replicas, own.dtype))
        communicator.all_reduce(sums, sums)
        trainer.set_statistics(np.tile(sums[:-1] / sums[-1], num_replicas))


def evaluate(
    trainer: Trainer,
    communicator: Communicator,
    x: Array,
    y: Array,
    indices: Array,
    batch_size: int,
    reporter: Reporter,
    num_replicas: int = 1,
) -> Scores:
    """Return the scores over `indices` of x and y; process r takes every size-th one from r on; a collective.

    A process with several replicas evaluates `batch_size` samples of each in one call.

    Raises:
        RuntimeError: The samples of all workers do not add up to the validation set.
    """
    reporter.phase = "barrier"
    average_statistics(trainer, communicator, num_replicas)
    reporter.phase = "evaluate"
    mine = indices[communicator.rank :: communicator.size]
    sums = np.zeros(3)
    width = batch_size * num_replicas
    for start in range(0, len(mine), width):
        batch = mine[start : start + width]
        loss, correct = trainer.evaluate(x[batch], y[batch])
        sums += (loss, correct, len(batch))
    reporter.phase = "barrier"
    communicator.all_reduce(sums, sums)
    if sums[2] != len(indices):
        raise RuntimeError(f"evaluation counted {sums[2]:.0f} samples, the validation set has {len(indices)}")
    return Scores(float(sums[0] / sums[2]), float(sums[1] / sums[2]), len(mine))
