"""One line makes a script that calls Keras's `fit` a run: `model.fit(..., callbacks=[dlbench.keras.Callback()])`.

It reports every step with its samples and its loss, every epoch with its scores, and the weights at the end. Outside
dlbench it does nothing.
"""

import atexit
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras  # noqa: TID253 - only a script that uses Keras imports this file

from dlbench.records.assignment import VARIABLE
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.worker.process.rank import read_assignment
from dlbench.worker.script.hook import Run, begin

# What Keras calls an accuracy, by the loss that it belongs to, and an error.
_ACCURACIES = (
    "accuracy", "acc", "sparse_categorical_accuracy", "categorical_accuracy", "binary_accuracy",
)  # fmt: skip
_ERRORS = ("mean_squared_error", "mse")
# Above it a float32 has no odd numbers.
FLOAT32_COUNTS = 2**24


class Callback(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports what `fit` does.

    Args:
        rank: Rank of this process as the script's own library knows it, such as `hvd.rank()`.
        size: Number of processes as that library knows it.
        barrier: Waits for all processes; with several of them there are no rates without it.
        mean: Returns the mean of a number over all processes: losses and accuracies of training are reported only with
            it where there are several, for each process knows its own alone.
        defaults: Settings outside dlbench, such as `{"epochs": 3}`.

    Attributes:
        run: The run: its settings, `batch_size`, `learning_rate`, `epochs` and `seed` (`dlbench.worker.Run`).
    """

    def __init__(
        self,
        *,
        rank: int | None = None,
        size: int | None = None,
        barrier: Callable[[], object] | None = None,
        mean: Callable[[float], float] | None = None,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        is_alone = VARIABLE in os.environ and len(read_assignment(os.environ).layout.places) == 1
        wait = (lambda: None) if is_alone and barrier is None else barrier
        self.run: Run = begin(rank=rank, size=size, barrier=wait, defaults=defaults)
        self._mean = float if self.run.size == 1 else mean
        self._total = self._count = 0.0
        self._first_batch = self._largest_call = 0
        self._weights: list[Any] | None = None
        # A script may fit several times, such as once more with all layers: before the hook's own end.
        atexit.register(self._finish)

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """A step begins, or with `steps_per_execution` a call of several."""
        self._first_batch = batch
        if batch == 0:  # Keras begins its means anew
            self._total = self._count = 0.0
        self.run.begin_step()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """A step or call has ended; its samples and loss are what the mean of the epoch's loss has grown by."""
        tracker = next(metric for metric in self.model.metrics if metric.name == "loss")
        total, count = float(tracker.total), float(tracker.count)
        samples, summed = count - self._count, total - self._total
        if samples <= 0:  # the script has reset the means within an epoch
            samples, summed = count, total
        if count >= FLOAT32_COUNTS:  # Keras's own counts end here
            samples, summed = self.run.batch_size * (batch - self._first_batch + 1), 0.0
        self._total, self._count = total, count
        loss = summed / samples if samples and count < FLOAT32_COUNTS else None
        self.run.end_step(loss=loss, num_samples=round(samples), num_steps=self._num_steps(batch, round(samples)))

    def _num_steps(self, batch: int, num_samples: int) -> int:
        """Return how many steps a call has made: Keras names the last batch of a whole one, where data ended before."""
        number, steps = batch - self._first_batch + 1, self.params.get("steps")
        if number == 1:
            return 1
        self._largest_call = max(self._largest_call, num_samples)
        made = -(-number * num_samples // max(self._largest_call, 1))
        return max(1, made if steps is None else min(made, steps - self._first_batch))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """An epoch has ended; where the run's target is reached, `fit` ends with it."""
        rate = getattr(self.model.optimizer, "learning_rate", None)
        if self.run.epoch(learning_rate=None if rate is None else float(rate), **self._scores(logs or {})):
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """One `fit` has ended; of the last the weights are handed in."""
        self._weights = [variable.numpy() for variable in self.model.trainable_variables]

    def _finish(self) -> None:
        if self._weights is not None:  # else nothing was trained, which is no result
            self.run.finish(weights=self._weights)

    def _scores(self, logs: Mapping[str, float]) -> dict[str, float]:
        """Return what Keras calls scores under their names here; those of training over all processes or not at all."""
        scores: dict[str, float] = {}
        for key, value in logs.items():
            samples, name = ("validation", key[4:]) if key.startswith("val_") else ("train", key)
            name = "accuracy" if name in _ACCURACIES else "mean_squared_error" if name in _ERRORS else name
            column = f"{samples}_{name}"
            column = column if column in SCORE_COLUMNS else key if key in self.run.metrics else name
            if column not in (*SCORE_COLUMNS, *self.run.metrics):
                continue
            if samples == "validation":
                scores[column] = float(value)
            elif self._mean is not None:
                scores.setdefault(column, self._mean(float(value)))
        return scores
