"""One line makes a script that calls Keras's `fit` a run: `model.fit(..., callbacks=[dlbench.keras.Callback()])`.

It reports every step with its samples and its loss, every epoch with its scores, and the weights at the end. Outside
dlbench it does nothing.
"""

import atexit
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras  # noqa: TID253 - only a script that uses Keras imports this file
import numpy as np

from dlbench.errors import UserError
from dlbench.records.assignment import VARIABLE
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.scenario.plugin_settings import needs_of
from dlbench.worker.process.rank import read_assignment
from dlbench.worker.script.hook import Run, begin

# What Keras calls an accuracy, by the loss that it belongs to, and an error.
_ACCURACIES = (
    "accuracy", "acc", "sparse_categorical_accuracy", "categorical_accuracy", "binary_accuracy",
)  # fmt: skip
_ERRORS = ("mean_squared_error", "mse")
# At this many steps of an epoch a schedule is asked for its learning rate.
_RATES_OF_EPOCH = 33
# Above it a float32 has no odd numbers.
FLOAT32_COUNTS = 2**24
_OTHER_MODEL = "`fit` began with another model after epoch"


class Callback(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports what `fit` does.

    Args:
        rank: Rank of this process as the script's own library knows it, such as `hvd.rank()`.
        size: Number of processes as that library knows it.
        barrier: Waits for all processes; with several of them there are no rates without it.
        mean: Returns the mean of a number over all processes: losses and accuracies of training are reported only with
            it where there are several, for each process knows its own alone.
        defaults: Settings outside dlbench, such as `{"epochs": 3}`.
        batch_size: Samples of each batch of this process, the last among them (`drop_remainder=True`), for a model
            whose metric `loss` does not count them: one with a `train_step` that keeps other losses, or updates it
            without the batch's size as `sample_weight`.

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
        batch_size: int | None = None,
    ) -> None:
        super().__init__()
        is_alone = VARIABLE in os.environ and len(read_assignment(os.environ).layout.places) == 1
        wait = (lambda: None) if is_alone and barrier is None else barrier
        self.run: Run = begin(rank=rank, size=size, barrier=wait, defaults=defaults)
        self._mean = float if self.run.size == 1 else mean
        self._total = self._count = 0.0
        self._batch_size, self._updates, self._num_counting = batch_size, 0, 1
        self._first_batch = self._largest_call = self._first_update = 0
        self._is_open = self._is_fitting = self._has_new_rate = False
        self._watched: Any = None
        self._fitted: Any = None
        self._counts_samples: bool | None = None
        self._of_validation: set[str] = set()
        self._weights: list[Any] | None = None
        self._rates_of_step: list[float] = []
        # A script may fit several times, such as once more with all layers: before the hook's own end.
        atexit.register(self._finish)

    def set_model(self, model: Any) -> None:
        """`fit` begins: what another callback evaluates within it is no training.

        Raises:
            UserError: The model is none of Keras 3.
        """
        if not isinstance(model, keras.Model):
            raise UserError(
                f"the model is one of {type(model).__module__.partition('.')[0]}, and this callback is one of Keras 3",
                hint="unset TF_USE_LEGACY_KERAS and use `keras`, or report by dlbench.worker (docs/own-code.md)",
            )
        super().set_model(model)
        evaluate = model.evaluate
        if self.run.recorder is None or isinstance(getattr(evaluate, "__self__", None), _Evaluation):
            return
        model.evaluate = _Evaluation(self, evaluate).run

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Training begins.

        Raises:
            UserError: One process holds all workers of the run, and has not as many replicas.
        """
        self._count_replicas()
        self._note_other_model()
        self._is_fitting, self._counts_samples = True, None
        self._updates = self._count_updates()
        self._watch_rate()

    def _note_other_model(self) -> None:
        """Note the first `fit` of a model that has no weights of the one before."""
        before, self._fitted, recorder = self._fitted, self.model, self.run.recorder
        if before is None or recorder is None or any(note.startswith(_OTHER_MODEL) for note in recorder.notes):
            return
        if not set(map(id, before.weights)) & set(map(id, self.model.weights)):
            text = f"{_OTHER_MODEL} {recorder.record.progress.epoch}"
            recorder.notes.append(f"{text}: times, steps and samples are of all models, scores of the last")

    def _count_replicas(self) -> None:
        recorder, settings = self.run.recorder, self.run.settings
        if recorder is None or settings.workers_inside or not needs_of(settings.strategy).one_process:
            return
        strategy = getattr(self.model, "distribute_strategy", None)  # TensorFlow's; JAX divides by a mesh
        mesh = getattr(keras.distribution.distribution(), "device_mesh", None)
        number = strategy.num_replicas_in_sync if strategy else 1 if mesh is None else mesh.devices.size
        if number != settings.workers:
            raise UserError(
                f"the run has {settings.workers} workers in one process, and replicas of the model there: {number}",
                hint="a replica needs a device, also a logical one (`tf.config.set_logical_device_configuration`); "
                "a process for each worker needs Horovod (`strategy: horovod`), or MultiWorkerMirroredStrategy and a "
                "loop of your own (`strategy: multi_worker`)",
            )
        recorder.num_replicas = number

    def _watch_rate(self) -> None:
        """Note when a callback assigns a learning rate: reading it takes a part of a small step, too long for each."""
        rate = getattr(getattr(self.model, "optimizer", None), "learning_rate", None)
        if self.run.recorder is None or not isinstance(rate, keras.Variable) or "assign" in vars(rate):
            return
        assign, self._has_new_rate = rate.assign, True

        def noted(*args: Any, **kwargs: Any) -> Any:
            self._has_new_rate = True
            return assign(*args, **kwargs)

        rate.assign = noted
        self._watched = rate

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """An epoch begins: what other callbacks, or a script between two `fit`, did since the last is no training."""
        if self.run.recorder is None:
            return
        if epoch:  # such as `BackupAndRestore` does
            self.run.recorder.goes_on(f"`fit` began with epoch {epoch + 1}")
        self.run.recorder.leave_out()
        self._first_update = self._count_updates()

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """A step begins, or with `steps_per_execution` a call of several."""
        self._first_batch, self._is_open = batch, True
        if batch == 0:  # Keras begins its means anew
            self._total = self._count = 0.0
        self.run.begin_step()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """A step or call has ended; its samples and loss are what the mean of the epoch's loss has grown by.

        Raises:
            UserError: The model does not say how many samples it has trained on, nor does the script.
        """
        if not self._is_open:
            return
        self._is_open = False
        number = batch - self._first_batch + 1
        total, count = self._tracked()
        counted, summed = count - self._count, total - self._total
        if counted <= 0:  # the script has reset the means within an epoch
            counted, summed = count, total
        self._total, self._count = total, count
        # A `train_step` of the script's may count one of each batch, whatever its size.
        if self._counts_samples is None:
            is_keras_own = type(self.model).train_step is keras.Model.train_step
            self._counts_samples = counted > number or (counted > 0 and (is_keras_own or self.run.batch_size == 1))
            self._num_counting = self._count_processes()
        loss = summed / counted if counted and count < FLOAT32_COUNTS else None
        is_counted = self._counts_samples and loss is not None
        before = self.run.rank % self._num_counting
        samples = (round(counted) + before) // self._num_counting if is_counted else self._said(number)
        self.run.end_step(loss, samples, self._num_steps(number, samples))
        if self.run.recorder is not None and self._has_new_rate:
            self._has_new_rate, self._rates_of_step = False, self._rates()
            for rate in self._rates_of_step:
                self.run.recorder.saw_rate(rate)

    def _said(self, number: int) -> int:
        """Return the samples of this many batches where Keras does not count them, or no further.

        Raises:
            UserError: The script does not say.
        """
        if self._counts_samples or self._batch_size is not None or self.run.recorder is None:
            return number * (self._batch_size or self.run.batch_size)
        raise UserError(
            "the model's metric `loss` does not count samples: its `train_step` keeps other losses, or updates it "
            "without `sample_weight`",
            hint="say how many there are, as in `dlbench.keras.Callback(batch_size=32)`, where every batch is as large "
            "(`drop_remainder=True`), or write `loss_tracker.update_state(loss, sample_weight=keras.ops.shape(x)[0])`",
        )

    def _tracked(self) -> tuple[float, float]:
        """Return the sum of losses and the number of samples in the mean of the epoch's loss; 0 without one."""
        tracker = self._tracker()
        return (0.0, 0.0) if tracker is None else (_number(tracker.total), _number(tracker.count))

    def _tracker(self) -> Any:
        return next((metric for metric in self.model.metrics if metric.name == "loss"), None)

    def _count_processes(self) -> int:
        """Return how many processes count together: on JAX those of the mesh, each of which knows the sum."""
        count = getattr(getattr(self._tracker(), "count", None), "value", None)
        devices = getattr(getattr(count, "sharding", None), "device_set", ())
        return len({device.process_index for device in devices}) or 1

    def _count_updates(self) -> int:
        optimizer = getattr(self.model, "optimizer", None)
        return int(_number(getattr(optimizer, "iterations", 0)))

    def _num_steps(self, number: int, num_samples: int) -> int:
        """Return how many steps a call has made: Keras names the last batch of a whole one, where data ended before."""
        if number == 1:
            return 1
        before, self._updates = self._updates, self._count_updates()
        if 1 <= self._updates - before <= number and not hasattr(self.model.optimizer, "inner_optimizer"):
            return self._updates - before
        self._largest_call = max(self._largest_call, num_samples)  # steps that are skipped count, too
        return max(1, -(-number * num_samples // max(self._largest_call, 1)))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """An epoch has ended; where the run's target is reached, `fit` ends with it."""
        # A callback before this one may have set the next epoch's.
        rates = self._rates_of_step if self._has_new_rate else self._rates()
        if self.run.recorder is not None and rates:
            self.run.recorder.saw_rate(max(rates))
        if self.run.epoch(learning_rate=rates[-1] if rates else None, **self._scores(logs or {})):
            self.model.stop_training = True

    def _rates(self) -> list[float]:
        """Return learning rates of the epoch, that of its last step last: of a schedule those of many steps."""
        optimizer = getattr(self.model, "optimizer", None)
        rate, num_updates = getattr(optimizer, "learning_rate", None), self._count_updates()
        if rate is None or not num_updates:  # other optimizers of the script's make the updates
            return []
        schedule, last = getattr(optimizer, "_learning_rate", None), num_updates - 1
        if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            return [_number(rate)]
        steps = np.linspace(min(self._first_update, last), last, _RATES_OF_EPOCH, dtype=int)
        return [_number(schedule(step)) for step in dict.fromkeys(steps.tolist())]

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """One `fit` has ended; of the last the weights are handed in."""
        self._is_fitting = False
        self.model.__dict__.pop("evaluate", None)
        if self._watched is not None:
            vars(self._watched).pop("assign", None)
        if self.run.recorder is not None and not self.run.recorder.has_begun:
            raise UserError(
                "`fit` has made no step",
                hint="is the batch larger than the data, or `initial_epoch` the last, as after a finished backup?",
            )
        self._weights = [variable.numpy() for variable in self.model.trainable_variables]

    def _finish(self) -> None:
        if self._weights is not None:  # else nothing was trained, which is no result
            self.run.finish(weights=self._weights)

    def _scores(self, logs: Mapping[str, float]) -> dict[str, float]:
        """Return what Keras calls scores under their names here; those of training over all processes or not at all."""
        scores, validated = dict[str, float](), dict[str, float]()
        for key, value in logs.items():
            samples, name = ("validation", key[4:]) if key.startswith("val_") else ("train", key)
            name = "accuracy" if name in _ACCURACIES else "mean_squared_error" if name in _ERRORS else name
            column = f"{samples}_{name}"
            column = column if column in SCORE_COLUMNS else key if key in self.run.metrics else name
            if column not in (*SCORE_COLUMNS, *self.run.metrics):
                continue
            if samples == "validation":
                validated.setdefault(column, float(value))
            elif self._mean is not None:
                scores.setdefault(column, self._mean(float(value)))
        # What is declared without a prefix is of validation, in all epochs, where there is one.
        self._of_validation |= validated.keys()
        return {name: score for name, score in scores.items() if name not in self._of_validation} | validated


def _number(value: Any) -> float:
    """Return a number of the engine's; one that a strategy of TensorFlow mirrors is no plain one."""
    try:
        return float(value)
    except TypeError:
        return float(value.value.numpy())


class _Evaluation:
    """`model.evaluate`, whose time is left out of training where a script calls it within `fit`."""

    def __init__(self, callback: Callback, evaluate: Callable[..., Any]) -> None:
        self._callback, self._evaluate = callback, evaluate

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate, between two steps: a callback before this one may do so when a step has ended."""
        callback = self._callback
        is_fits_own = "_use_cached_eval_dataset" in kwargs  # after an epoch's last step
        if callback._is_fitting and callback._is_open and not is_fits_own:
            callback.on_train_batch_end(callback._first_batch + callback.model.steps_per_execution - 1)
        result = self._evaluate(*args, **kwargs)
        if callback._is_fitting and not is_fits_own:
            assert callback.run.recorder is not None
            callback.run.recorder.pause()
            callback._total, callback._count = callback._tracked()  # which are now the evaluation's
        return result
