"""How far one process has come: all that a loop has to know to go on after an epoch as if nothing had happened."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from dlbench.strategies import Communicator
from dlbench.trainers import Sums
from dlbench.worker.train.agreement import Agreement


class TrainingProgress(BaseModel):
    """The state of one process's loop after an epoch, without weights. Times and counts are totals over attempts.

    Attributes:
        epoch: Epochs trained.
        steps: Steps trained.
        train_time_s: Training time.
        evaluation_time_s: Time of evaluations.
        bytes_sent: Bytes the strategy sent in training steps; None where it cannot count.
        reached: Training time and epochs at which the target was reached; None where it was not.
        agreements: Each comparison of workers.
        rows: Every row of `epochs.csv` so far, with the attempt that trained it.
    """

    model_config = ConfigDict(extra="forbid")

    epoch: int = 0
    steps: int = 0
    train_time_s: float = 0.0
    evaluation_time_s: float = 0.0
    bytes_sent: int | None = 0
    reached: tuple[float, int] | None = None
    agreements: list[Agreement] = []
    rows: list[dict[str, Any]] = []


@dataclass
class Epoch:
    """One epoch of one worker, with the sums over its samples so far."""

    number: int
    sums: Sums
    samples: int = 0
    steps: int = 0
    learning_rate: float = 0.0
    train_time_s: float = 0.0
    ended_at_s: float = 0.0


def epoch_rows(epochs: list[Epoch], communicator: Communicator) -> list[dict[str, Any]]:
    """Sum each epoch over all workers and return its row of `epochs.csv`; a collective where there is any."""
    if not epochs:
        return []
    sums_here = np.array([(*epoch.sums.values(), epoch.samples) for epoch in epochs], np.float64)
    everyone = np.empty_like(sums_here)
    communicator.all_reduce(sums_here, everyone)
    return [
        {
            "epoch": epoch.number,
            "steps": epoch.steps,
            "samples": epoch.samples,
            "learning_rate": epoch.learning_rate,
            "train_time_s": epoch.train_time_s,
            "ended_at_s": epoch.ended_at_s,
            **{f"train_{name}": mean for name, mean in zip(epoch.sums, (total[:-1] / total[-1]).tolist(), strict=True)},
        }
        for epoch, total in zip(epochs, everyone, strict=True)
    ]
