"""How far one process has come: all that a loop has to know to go on after an epoch as if nothing had happened."""

from dataclasses import astuple, dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from dlbench.worker.train.agreement import Agreement
from dlbench.worker.train.evaluation import Scores


class TrainingProgress(BaseModel):
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


@dataclass
class Standing:
    """What evaluations and comparisons have shown in all attempts: what a loop keeps of `TrainingProgress`.

    Attributes are those of `TrainingProgress`.
    """

    evaluation_time_s: float = 0.0
    scores: Scores | None = None
    best_accuracy: float = 0.0
    reached: tuple[float, int] | None = None
    agreements: list[Agreement] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, earlier: TrainingProgress) -> "Standing":
        """Return the state after an epoch; its rows have to be sent first."""
        return cls(
            evaluation_time_s=earlier.evaluation_time_s,
            scores=Scores(*earlier.scores) if earlier.scores else None,
            best_accuracy=earlier.best_accuracy,
            reached=earlier.reached,
            agreements=[Agreement(*found) for found in earlier.agreements],
        )

    def fields(self) -> dict[str, Any]:
        """Return the fields of `TrainingProgress` that are kept here."""
        return {
            "evaluation_time_s": self.evaluation_time_s,
            "scores": astuple(self.scores) if self.scores else None,
            "best_accuracy": self.best_accuracy,
            "reached": self.reached,
            "agreements": tuple(astuple(agreement) for agreement in self.agreements),
            "rows": tuple(self.rows),
        }
