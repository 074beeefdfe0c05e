"""The epochs of one worker: sums while it trains, rows over all workers where they synchronise anyway."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.strategies import Communicator


@dataclass
class Epoch:
    """One epoch of one worker; `sums` holds its losses, correct predictions and samples."""

    number: int
    sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    steps: int = 0
    learning_rate: float = 0.0
    train_time_s: float = 0.0
    ended_at_s: float = 0.0

    def add(self, loss_sum: float, correct: float, num_samples: int) -> None:
        """Add one step."""
        self.sums += (loss_sum, correct, num_samples)


class Epochs:
    """Epochs that ended and are not yet summed over all workers: that is done at evaluations, outside the timed window.

    Attributes:
        train_loss: Of the last reduced epoch, over all workers; at first that of an earlier attempt, if there was one.
        train_accuracy: Likewise.
    """

    def __init__(self, train_loss: float = 0.0, train_accuracy: float = 0.0) -> None:
        self.train_loss, self.train_accuracy = train_loss, train_accuracy
        self._pending: list[Epoch] = []

    def end(self, epoch: Epoch) -> None:
        """Keep an ended epoch until its sums are reduced."""
        self._pending.append(epoch)

    def reduce(self, communicator: Communicator) -> list[dict[str, Any]]:
        """Sum each pending epoch over all workers and return its row of `epochs.csv`; a collective where any is."""
        if not self._pending:
            return []
        own = np.stack([epoch.sums for epoch in self._pending])
        everyone = np.empty_like(own)
        communicator.all_reduce(own, everyone)
        rows = [_row(epoch, sums) for epoch, sums in zip(self._pending, everyone, strict=True)]
        self._pending.clear()
        self.train_loss, self.train_accuracy = rows[-1]["train_loss"], rows[-1]["train_accuracy"]
        return rows


def _row(epoch: Epoch, sums: npt.NDArray[np.float64]) -> dict[str, Any]:
    return {
        "epoch": epoch.number,
        "steps": epoch.steps,
        "samples": int(epoch.sums[2]),
        "learning_rate": epoch.learning_rate,
        "train_time_s": epoch.train_time_s,
        "ended_at_s": epoch.ended_at_s,
        "train_loss": float(sums[0] / sums[2]),
        "train_accuracy": float(sums[1] / sums[2]),
    }
