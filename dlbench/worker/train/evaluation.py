"""Evaluation: each validation sample exactly once over all workers, as sums and counts, outside the timed window."""

from collections.abc import Sequence

import numpy as np

from dlbench.strategies import Communicator
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Trainer
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.training_record import Scores


def knows_nothing(targets: Array) -> dict[str, float]:
    """Return what is scored by who knows nothing of a sample but how targets are distributed, by column.

    Of classes, the most frequent one is always predicted, with the frequencies as probabilities; of numbers, the mean.
    """
    if targets.dtype.kind == "f":
        scores = dict.fromkeys(("loss", "mean_squared_error"), float(np.var(targets, dtype=np.float64)))
    else:
        shares = np.unique(targets, return_counts=True)[1] / targets.size
        scores = {"loss": float(shares @ np.log(1 / shares)), "accuracy": float(shares.max())}
    return {f"knows_nothing_{name}": score for name, score in scores.items()}


def summed(trainer: Trainer, data: TrainingData, rows: Array, batch_size: int) -> Array:
    """Return a trainer's sums over these rows of the validation part, in the order of its scores."""
    total = np.zeros(len(trainer.scores))
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        sums = trainer.evaluate(data.validation_x[batch], data.validation_y[batch])
        total += [sums[name] for name in trainer.scores]
    return total


def mean_of(vectors: Sequence[Array]) -> Array:
    """Return the mean of vectors, in float64, in their own type; of none an empty one."""
    if not vectors:
        return np.empty(0)
    mean: Array = sum(vectors, np.zeros(vectors[0].shape)) / len(vectors)
    return mean.astype(vectors[0].dtype)


def average_statistics(trainer: Trainer, communicator: Communicator, num_replicas: int = 1) -> None:
    """Set batch norm's moving statistics of every worker to their mean over workers; a collective.

    Args:
        trainer: Returns the statistics of all replicas of this process, one after the other.
        communicator: Connects all processes.
        num_replicas: Replicas of this process.
    """
    statistics = trainer.state("statistics")["statistics"]
    if statistics.size and (communicator.size > 1 or num_replicas > 1):
        total = statistics.reshape(num_replicas, -1).sum(axis=0)
        sums = np.append(total, np.asarray(num_replicas, total.dtype))
        communicator.all_reduce(sums, sums)
        trainer.set_state({"statistics": np.tile(sums[:-1] / sums[-1], num_replicas)})


def evaluate(
    trainer: Trainer,
    communicator: Communicator,
    data: TrainingData,
    batch_size: int,
    reporter: Reporter,
    num_replicas: int = 1,
) -> Scores:
    """Return the scores over the validation set; process r takes every size-th sample from r on; a collective.

    A process with several replicas evaluates `batch_size` samples of each in one call.

    Raises:
        RuntimeError: The samples of all workers do not add up to the validation set.
    """
    reporter.phase = "barrier"
    average_statistics(trainer, communicator, num_replicas)
    reporter.phase = "evaluate"
    mine = data.validation[communicator.rank :: communicator.size]
    sums = np.append(summed(trainer, data, mine, batch_size * num_replicas), len(mine))
    reporter.phase = "barrier"
    communicator.all_reduce(sums, sums)
    if sums[-1] != len(data.validation):
        raise RuntimeError(f"evaluation counted {sums[-1]:.0f} samples, the validation set has {len(data.validation)}")
    return Scores(dict(zip(trainer.scores, (sums[:-1] / sums[-1]).tolist(), strict=True)), len(mine))
