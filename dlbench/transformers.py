"""One line makes a script with Transformers a run: `Trainer(..., callbacks=[dlbench.transformers.Callback()])`.

It reports every step of the optimizer with its samples, every epoch with the scores of its evaluation and the loss that
the Trainer logs, and the weights at the end. Outside dlbench it does nothing.
"""

from collections.abc import Mapping
from typing import Any

import transformers

from dlbench.torch import Steps, scores_of, weights_of


class Callback(transformers.TrainerCallback):  # type: ignore[misc]
    """Reports what `train` does.

    Args:
        defaults: Settings outside dlbench, such as `{"num_train_epochs": 3}`.

    Attributes:
        run: The run: its settings, `batch_size`, `learning_rate`, `epochs` and `seed` (`dlbench.worker.Run`).
    """

    def __init__(self, *, defaults: Mapping[str, Any] | None = None) -> None:
        self._steps = Steps(defaults)
        self.run = self._steps.run
        self._model: Any = None
        self._is_epoch_over = False
        self._scores: dict[str, float] = {}
        self._rate: float | None = None
        # Sum of the losses logged in this epoch, the steps that they are means of, and the last step that was logged.
        self._loss, self._loss_steps, self._logged = 0.0, 0, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """`train` begins.

        Raises:
            UserError: PyTorch has connected other processes than dlbench has started.
        """
        self._logged = state.global_step
        if self.run.recorder is not None and self._model is not kwargs["model"]:
            self._model = kwargs["model"]
            self._steps.attach(self._model, state.global_step)
            self._steps.count_passes(self._model)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step of the optimizer begins, whose rate no scheduler has changed yet."""
        groups = getattr(kwargs.get("optimizer"), "param_groups", None)
        if self.run.recorder is not None and groups:
            self._rate = float(groups[0]["lr"])
            self.run.recorder.saw_rate(self._rate)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer has made a step, with the gradients of all passes since the last."""
        self._steps.end()

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Take the mean loss over all processes and the steps since the last log."""
        if logs and "loss" in logs:
            steps = state.global_step - self._logged
            self._loss, self._loss_steps = self._loss + steps * float(logs["loss"]), self._loss_steps + steps
            self._logged = state.global_step
            if not control.should_evaluate:
                self._end_epoch(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any], **kwargs: Any) -> None:
        """Take the scores over all processes; of several evaluations in an epoch the last ones count."""
        self._scores |= scores_of(metrics, self.run.metrics)
        self._steps.has_evaluated = True
        # Of several sets, such as `eval_a_runtime`, others may follow.
        if "eval_runtime" in metrics or not any(name.endswith("_runtime") for name in metrics):
            self._end_epoch(control)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A checkpoint is no training."""
        self._steps.has_evaluated = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All steps of an epoch are over; its loss and its evaluation may follow."""
        self._is_epoch_over = True
        if not (control.should_log or control.should_evaluate):
            self._end_epoch(control)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """What the last epoch was to be followed by has not come; scores of before are not this one's."""
        self._end_epoch(control)
        self._scores = {}

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """One `train` has ended; of the last the weights are handed in."""
        self._end_epoch(control)
        if self._model is not None:
            weights = weights_of(self._model)
            self._steps.weights = lambda: weights

    def _end_epoch(self, control: Any) -> None:
        """Report an epoch that is over; where the run's target is reached, `train` ends with it."""
        if not self._is_epoch_over:
            return
        loss = {"train_loss": self._loss / self._loss_steps} if self._loss_steps else {}
        self._is_epoch_over, self._loss, self._loss_steps = False, 0.0, 0
        if self._steps.epoch(self._rate, loss | self._scores):
            control.should_training_stop = True
