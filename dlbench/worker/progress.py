"""How far one process has come: all that a loop has to know to go on after an epoch as if nothing had happened."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Progress(BaseModel):
    """The state of one process's loop after an epoch, without weights. Times and counts are totals over attempts.

    Attributes:
        epoch: Epochs trained.
        steps: Steps trained.
        train_time_s: Training time.
        evaluation_time_s: Time of evaluations.
        bytes_sent: Bytes the strategy sent in training steps; None where it cannot count.
        train_loss: Of the last epoch, over all workers; likewise `train_accuracy`.
        scores: Loss, accuracy and own number of samples of the last evaluation; None before the first.
        best_accuracy: Highest validation accuracy.
        reached: Training time and epochs at which the target was reached; None where it was not.
        agreements: Each comparison of workers: verdict, largest difference, hash of this process's weights.
        rows: Every row of `epochs.csv` so far, with the attempt that trained it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int = 0
    steps: int = 0
    train_time_s: float = 0.0
    evaluation_time_s: float = 0.0
    bytes_sent: int | None = 0
    train_loss: float = 0.0
    train_accuracy: float = 0.0
    scores: tuple[float, float, int] | None = None
    best_accuracy: float = 0.0
    reached: tuple[float, int] | None = None
    agreements: tuple[tuple[str, float, str], ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
