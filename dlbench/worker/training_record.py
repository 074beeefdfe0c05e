"""The record of a run's training as one process keeps it: epochs, scores, the target, and the result that it hands in.

The loop in lock step, nodes, the simulator and users' scripts all keep this one. A checkpoint holds its progress.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from dlbench.records.result import BEST, BatchChange, Result
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.scenario.run_spec import RunSpec
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Sums, added
from dlbench.worker.train.agreement import Agreement, Diverged, worst


class TrainingProgress(BaseModel):
    """How far one process has come, without weights. Times and counts are totals over attempts.

    Attributes:
        epoch: Epochs trained.
        steps: Steps trained.
        train_time_s: Training time; None before the first step.
        evaluation_time_s: Time of evaluations.
        bytes_sent: Bytes the strategy sent in training steps; None where it cannot count.
        reached: Training time and epochs at which the target was reached; None where it was not.
        agreements: Each comparison of workers.
        rows: Every row of `epochs.csv` so far, with the attempt that trained it.
        batch_changes: Every row of `batch_changes.csv` so far.
        batch_policy: What the policy of the batch remembers, by name; None where the batch is fixed.
    """

    model_config = ConfigDict(extra="forbid")

    epoch: int = 0
    steps: int = 0
    train_time_s: float | None = 0.0
    evaluation_time_s: float = 0.0
    bytes_sent: int | None = 0
    reached: tuple[float, int] | None = None
    agreements: list[Agreement] = []
    rows: list[dict[str, Any]] = []
    batch_changes: list[BatchChange] = []
    batch_policy: dict[str, float] | None = None


class Scores(NamedTuple):
    """Means over the validation set by name, and the samples that this process evaluated with the seconds it took."""

    means: Mapping[str, float]
    own_samples: int
    seconds: float | None = None

    @property
    def cells(self) -> dict[str, Any]:
        """Their columns of `epochs.csv`."""
        columns = {f"validation_{name}": mean for name, mean in self.means.items()}
        return {**columns, "evaluated_samples": self.own_samples, "evaluation_time_s": self.seconds}

    def refuse_infinite(self, when: str) -> None:
        """Make sure that the loss is a number.

        Raises:
            Diverged: It is not; `when` says after what.
        """
        if not math.isfinite(loss := self.means["loss"]):
            raise Diverged(f"the validation loss is {loss} {when}")


@dataclass
class Epoch:
    """One epoch of one process: sums over its samples, and how it stood at the end."""

    sums: Sums
    number: int = 0
    samples: int = 0
    steps: int = 0
    learning_rate: float | None = 0.0
    train_time_s: float | None = 0.0
    ended_at_s: float | None = 0.0

    def add(self, sums: Sums, samples: int) -> None:
        """Add the sums over a number of samples."""
        self.sums = added(self.sums, sums)
        self.samples += samples

    def row(self, means: Mapping[str, float | None]) -> dict[str, Any]:
        """Return its row of `epochs.csv`, with these means over the training samples of all workers, by score."""
        return {
            "epoch": self.number,
            "steps": self.steps,
            "samples": self.samples,
            "learning_rate": self.learning_rate,
            "train_time_s": self.train_time_s,
            "ended_at_s": self.ended_at_s,
            **{f"train_{name}": mean for name, mean in means.items()},
        }


class TrainingRecord:
    """Keeps rows of epochs, sends them, and looks at the target.

    Args:
        run: The run.
        reporter: Sends rows.
        earlier: How far an earlier attempt had come; its rows are sent once more, as they are this attempt's, too.

    Attributes:
        progress: Totals so far.
    """

    def __init__(self, run: RunSpec, reporter: Reporter, earlier: TrainingProgress | None = None) -> None:
        self.run, self.progress, self._reporter = run, earlier or TrainingProgress(), reporter
        for row in self.progress.rows:
            row["ended_at_s"] = None  # moments on its clock mean nothing on another one's
            reporter.send_epoch(row)

    @property
    def is_over(self) -> bool:
        """Whether the target is reached and ends training."""
        target = self.run.target
        return self.progress.reached is not None and target is not None and target.stop

    def add(self, row: dict[str, Any]) -> None:
        """Keep and send the row of an epoch."""
        self.progress.rows.append(row)
        self._reporter.send_epoch(row)

    def look_at(
        self, scores: Mapping[str, Any], epoch: int, train_time_s: float, most: Callable[[float], float] = float
    ) -> None:
        """Look whether an evaluated epoch, whose scores these are by column, is the first that reaches the target.

        Args:
            scores: The same on all processes.
            epoch: The epoch.
            train_time_s: This process's training time until then.
            most: Returns the longest time of all processes, where they differ.
        """
        if scores.get("validation_accuracy") is not None:
            self._reporter.accuracy = scores["validation_accuracy"]
        if self.progress.reached is None and self.run.reaches_target(scores):
            self.progress.reached = most(train_time_s), epoch

    def agree(self, agreement: Agreement, when: str) -> None:
        """Keep a comparison of workers that are to agree.

        Raises:
            Diverged: They do not; `when` says at what moment.
        """
        self.progress.agreements.append(agreement)
        if agreement.verdict == "no":
            raise Diverged(
                f"workers disagree {when}: their weights differ by up to {agreement.max_difference:.3g}; the strategy "
                "does not synchronise them"
            )

    def result(self, **observed: Any) -> Result:
        """Return the result: the totals of the progress, and `observed`, which overrules them."""
        progress = self.progress
        reached_s, reached_epochs = progress.reached or (None, None)
        agreements = progress.agreements
        common: dict[str, Any] = {
            "steps": progress.steps,
            "epochs_completed": progress.epoch,
            "samples_seen": sum(row["samples"] for row in progress.rows),
            "train_time_s": progress.train_time_s,
            "evaluation_time_s": progress.evaluation_time_s,
            "scores": self._last_scores(),
            "time_to_target_s": reached_s,
            "epochs_to_target": reached_epochs,
            "bytes_sent": progress.bytes_sent,
        }
        if agreements:
            common |= {
                "agreement": worst([agreement.verdict for agreement in agreements]),
                "max_difference": max(agreement.max_difference for agreement in agreements),
                "weights_hash": agreements[-1].weights_hash,
            }
        return Result(**common | observed)

    def _last_scores(self) -> dict[str, Any]:
        """Return what rows of epochs end with, and the best accuracy, by column of `runs.csv`."""
        rows, names = self.progress.rows, (*SCORE_COLUMNS, *self.run.metrics)
        scores = {name: row[name] for row in rows for name in names if row.get(name) is not None}
        accuracies = [row["validation_accuracy"] for row in rows if row.get("validation_accuracy") is not None]
        return scores | ({BEST: max(accuracies)} if accuracies else {})


def means_of(sums: Sums, samples: float) -> dict[str, float | None]:
    """Return means by name of sums over a number of samples; None of none."""
    return {name: total / samples if samples else None for name, total in sums.items()}
