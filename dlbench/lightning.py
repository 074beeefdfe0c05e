"""One line makes a script with Lightning's Trainer a run: `Trainer(callbacks=[dlbench.lightning.Callback()])`.

It reports every step of the optimizer with its samples and its loss, every epoch with the scores that the module has
logged, and the weights at the end. Outside dlbench it does nothing.
"""

from collections.abc import Mapping
from typing import Any

try:
    from lightning import pytorch as lightning
except ImportError:
    import pytorch_lightning as lightning

from dlbench.torch import Steps, is_validation, num_samples, scores_of, weights_of


class Callback(lightning.Callback):  # type: ignore[misc]
    """Reports what `fit` does.

    Args:
        defaults: Settings outside dlbench, such as `{"epochs": 3}`.

    Attributes:
        run: The run: its settings, `batch_size`, `learning_rate`, `epochs` and `seed` (`dlbench.worker.Run`).
    """

    def __init__(self, *, defaults: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._steps = Steps(defaults)
        self.run = self._steps.run
        self._updates = 0
        self._has_validated = False
        self._rate: float | None = None
        self._pause = self._steps.pause()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """`fit` begins.

        Raises:
            UserError: PyTorch has connected other processes than dlbench has started.
        """
        self._updates, self._has_validated = trainer.global_step, False
        self._steps.attach(pl_module, trainer.global_step)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """A batch is there; the first after an update begins a step, whose rate no scheduler has changed yet."""
        if self.run.recorder is not None and trainer.optimizers:
            self._rate = float(trainer.optimizers[0].param_groups[0]["lr"])
            self.run.recorder.saw_rate(self._rate)
        self._steps.begin()
        self._steps.samples += num_samples(batch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A batch is over, and where the optimizers have made an update, a step."""
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None:
            # Lightning has divided it by the batches of an update.
            parts = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
            self._steps.add_loss(loss * parts, num_samples(batch))
        if trainer.global_step > self._updates:
            self._updates = trainer.global_step
            self._steps.end()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """What follows is no training, perhaps between the passes of a step."""
        self._pause = self._steps.pause()
        self._pause.__enter__()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Training goes on."""
        self._pause.__exit__(None, None, None)
        self._has_validated = True

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """A checkpoint is no training."""
        self._steps.has_evaluated = True

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """An epoch and its validation are over, and the module is about to log its last scores of it."""
        log = pl_module.on_train_epoch_end

        def log_and_end(*args: Any) -> None:
            del pl_module.on_train_epoch_end
            log(*args)
            self._end_epoch(trainer)

        pl_module.on_train_epoch_end = log_and_end

    def _end_epoch(self, trainer: Any) -> None:
        """Report an epoch; where the run's target is reached, `fit` ends with it."""
        # A module logs its process's own, unless it is asked for the mean. Those of an earlier validation stay there.
        logged = trainer.callback_metrics
        if not self._has_validated:
            logged = {name: value for name, value in logged.items() if not is_validation(name)}
        self._has_validated = False
        scores = scores_of(logged, self.run.metrics)
        means = self._steps.means(scores) if self.run.recorder else {}
        if self._steps.epoch(self._rate, means):
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """One `fit` has ended; of the last the weights are handed in."""
        if self.run.recorder is not None:
            weights = weights_of(pl_module)
            self._steps.weights = lambda: weights
