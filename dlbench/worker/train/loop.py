"""The loop of one worker: steps, epochs, evaluations, and the timed window around what counts."""

import itertools
import math
from collections.abc import Callable, Iterator
from time import perf_counter, time
from typing import Any

from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS, Result
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies import Communicator, Strategy
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Trainer
from dlbench.worker.train.agreement import Diverged, compare, worst
from dlbench.worker.train.batches import Plain, Samples
from dlbench.worker.train.checkpoints import Checkpoints
from dlbench.worker.train.epochs import Epoch, Epochs
from dlbench.worker.train.evaluation import evaluate
from dlbench.worker.train.order import DataOrder, learning_rate
from dlbench.worker.train.progress import Standing, TrainingProgress
from dlbench.worker.train.step import Marks, Step, all_reduce_step, compiled_step, step_row
from dlbench.worker.train.window import StepRecorder, SyncPoint, Window

# No window waits longer than this many steps for step times to settle.
LATEST_WARMUP_STEP = 512
# The longest wait for the acknowledgement of what was sent before the first step.
ANNOUNCE_S = 2.0
# An extended window is planned no further ahead than this: steps may become slower.
LOOK_AGAIN_S = 1.0


class Loop:
    """One process's training: everything that has state.

    Args:
        run: The run.
        trainer: Its replica, or replicas, compiled and holding the common first weights.
        strategy: Its side of the synchronisation.
        communicator: Barriers and sums over all workers.
        samples: The data.
        reporter: Sends rows and messages.
        checkpoints: Where the run's checkpoints go; None where it makes none.
        earlier: What an earlier attempt had come to, its weights being in the trainer already.
        workers: Those this process holds; none stands for the one of its rank.
    """

    def __init__(
        self,
        run: RunSpec,
        trainer: Trainer,
        strategy: Strategy,
        communicator: Communicator,
        samples: Samples,
        reporter: Reporter,
        checkpoints: Checkpoints | None = None,
        earlier: TrainingProgress | None = None,
        workers: tuple[int, ...] = (),
    ) -> None:
        self.run, self.trainer, self.strategy, self.communicator = run, trainer, strategy, communicator
        self.samples, self.reporter, self.checkpoints = samples, reporter, checkpoints
        self._earlier = earlier or TrainingProgress()
        self.workers = workers or (communicator.rank,)
        self.order = DataOrder.of(run, self.workers, len(samples.train))
        self.sync_point = SyncPoint(communicator, trainer, reporter)
        self.recorder = StepRecorder(reporter.send_steps, run.limits.flush_interval_s)
        self.window = Window(self.sync_point, latest_step=self._latest_warmup(), observer_cpu_s=reporter.observer_cpu_s)
        self.epochs = Epochs(self._earlier.train_loss, self._earlier.train_accuracy)
        self._batches = samples.batches or Plain(samples.batch)
        self._step = self._make_step()
        self._can_mark = strategy.in_graph is None and communicator.size > 1
        self._zero = self._paused_s = self._checkpoint_s = 0.0
        self._first_step_s: float | None = None
        self._bytes_before = strategy.bytes_sent or 0
        self._number = self._earlier.steps
        self.standing = Standing.of(self._earlier)
        # Its rows are this attempt's, too; moments on its clock mean nothing on another one's.
        self._send_epochs([{**row, "ended_at_s": None} for row in self._earlier.rows])

    def train(self, on_zero: Callable[[float], None]) -> Result:
        """Train all epochs, extend the window if the run asks for it, and return this worker's account.

        Args:
            on_zero: Called just before the first step with the moment on `perf_counter` that counts as 0 s.

        Raises:
            Diverged: Workers disagree, or a loss is not finite.
        """
        # The server knows now that start-up is over, even if the first step hangs with the interpreter's lock held.
        self.reporter.phase = "barrier"
        self.reporter.drain(ANNOUNCE_S)
        self.communicator.barrier()
        ready_at = time()
        self._zero = perf_counter()
        on_zero(self._zero)
        try:
            return self._train().model_copy(update={"ready_at": ready_at})
        finally:
            self.recorder.flush()  # also the rows before an error

    def _train(self) -> Result:
        epochs = self._train_epochs()
        train_time_s = self._train_time(perf_counter())
        steps, bytes_sent = self._number, self._bytes_sent()
        self._agree()
        if self.run.settings.extend_window:
            self._extend()
        account = self._account(epochs, steps)
        return account.model_copy(update={"train_time_s": train_time_s, "bytes_sent": bytes_sent})

    def _train_epochs(self) -> int:
        """Train until the last epoch or the target; return the number of epochs trained, in all attempts."""
        last, every = self.run.epochs_per_worker, self.run.settings.evaluate_every
        number = self._earlier.epoch
        while number < last and not (self.standing.reached and self.run.target and self.run.target.stop):
            number += 1
            self._train_epoch(Epoch(number))
            if number % every == 0 or number == last:
                self._close_window()
                self._evaluate(number)
            self._make_checkpoint(number)
        return number

    def _train_epoch(self, epoch: Epoch) -> None:
        for indices in self.order.epoch(epoch.number):
            epoch.learning_rate = learning_rate(self.run, self._number + 1, self.order.steps_per_epoch)
            marks = self._train_step(indices, epoch.learning_rate, epoch.number)
            if not math.isfinite(marks.loss_sum):
                raise Diverged(f"the loss is {marks.loss_sum} in step {self._number} (epoch {epoch.number})")
            epoch.add(marks.loss_sum, marks.correct, len(indices))
            if self._is_first:
                self._pausing(self._agree)
        now = perf_counter()
        epoch.steps, epoch.train_time_s, epoch.ended_at_s = self._number, self._train_time(now), now - self._zero
        self.epochs.end(epoch)

    def _train_step(self, indices: Array, rate: float, epoch: int) -> Marks:
        """Run and record one step, inside or outside the window, whichever its turn is."""
        self._number += 1
        marked = self._can_mark and self.window.is_warm and self._number % self.run.settings.sample_every == 0
        if marked:
            self._close_window()
        else:
            self.window.open(self._zero)
        phase = self._phase(marked)
        self._batches.epoch = epoch
        marks = self._step(indices, rate, marked)
        if phase == "first":
            self._first_step_s = marks.ended - marks.started
        elif not marked:
            self.window.count(marks.ended - marks.started, len(indices))
        self.recorder.add(step_row(self._number, epoch, phase, len(indices), marks, self._zero), marks.ended)
        reporter = self.reporter
        reporter.step, reporter.epoch, reporter.loss = self._number, epoch, marks.loss_sum / len(indices)
        return marks

    @property
    def _is_first(self) -> bool:
        """Whether the step is the first one of this attempt."""
        return self._number == self._earlier.steps + 1

    def _phase(self, marked: bool) -> str:
        if self._is_first:
            return "first"
        if marked:
            return "sampled"
        if not self.window.is_open:
            return "warm-up"
        return "extended" if self.window.extended else "timed"

    def _evaluate(self, epoch: int) -> None:
        """Evaluate over all workers, send the rows of the epochs since the last evaluation, look at the target."""
        train_time_s = self._train_time(perf_counter())
        seconds = self._pausing(self._score)
        self.standing.evaluation_time_s += seconds
        scores = self.standing.scores
        assert scores is not None
        rows = self.epochs.reduce(self.communicator)
        rows[-1] |= {
            "validation_loss": scores.loss,
            "validation_accuracy": scores.accuracy,
            "evaluated_samples": scores.own_samples,
            "evaluation_time_s": seconds,
        }
        self._send_epochs(rows)
        self.standing.best_accuracy = max(self.standing.best_accuracy, scores.accuracy)
        self.reporter.accuracy, self.reporter.samples_per_s = scores.accuracy, self._rate_so_far()
        target = self.run.target
        if target and self.standing.reached is None and target.is_reached(rows[-1][target.metric]):
            self.standing.reached = (self.sync_point.most(train_time_s), epoch)

    def _send_epochs(self, rows: list[dict[str, Any]]) -> None:
        """Send rows of epochs, and keep them for checkpoints."""
        self.standing.rows += rows
        for row in rows:
            self.reporter.send({"kind": "epoch", "row": row})

    def _make_checkpoint(self, epoch: int) -> None:
        """Make a checkpoint where one is due, outside the window and outside training time; a collective then."""
        every, checkpoints = self.run.settings.checkpoint_every, self.checkpoints
        if checkpoints is None or every is None or epoch % every:
            return
        self._close_window()
        train_time_s = self._train_time(perf_counter())

        def save() -> None:
            self._send_epochs(self.epochs.reduce(self.communicator))
            checkpoints.save(self._progress(epoch, train_time_s))

        self._checkpoint_s += self._pausing(save)

    def _progress(self, epoch: int, train_time_s: float) -> TrainingProgress:
        return TrainingProgress(
            epoch=epoch,
            steps=self._number,
            train_time_s=train_time_s,
            bytes_sent=self._bytes_sent(),
            train_loss=self.epochs.train_loss,
            train_accuracy=self.epochs.train_accuracy,
            **self.standing.fields(),
        )

    def _bytes_sent(self) -> int | None:
        """Return the bytes sent in training steps, in all attempts; None where the strategy cannot count."""
        now, earlier = self.strategy.bytes_sent, self._earlier.bytes_sent
        return None if now is None or earlier is None else earlier + now - self._bytes_before

    def _score(self) -> None:
        part = self.samples
        self.standing.scores = evaluate(
            self.trainer,
            self.communicator,
            part.validation_x,
            part.validation_y,
            part.validation,
            self.run.settings.evaluation_batch_size,
            self.reporter,
            len(self.workers),
        )
        if not math.isfinite(self.standing.scores.loss):
            raise Diverged(f"the validation loss is {self.standing.scores.loss} after step {self._number}")

    def _extend(self) -> None:
        """Step on until the window holds enough for a rate; nothing of these steps counts but the rate."""
        self.window.extended = True
        source = self._endless()
        while self.sync_point.any(not self.window.is_sufficient):
            for indices in itertools.islice(source, self._steps_missing()):
                self._train_step(indices, self.run.full_learning_rate, 0)
            self._close_window()

    def _endless(self) -> Iterator[Array]:
        for epoch in itertools.count(self.run.epochs_per_worker + 1):
            yield from self.order.epoch(epoch)

    def _steps_missing(self) -> int:
        """Return how many more steps the worker that misses most asks for; a collective, so that all run as many."""
        window = self.window
        steps = MIN_TIMED_STEPS - window.timed_steps
        if window.timed_steps:
            step_s = window.timed_s / window.timed_steps
            missing_s = min(LOOK_AGAIN_S, MIN_TIMED_S - window.timed_s)
            steps = max(steps, math.ceil(1.02 * missing_s / step_s))
        return max(1, round(self.sync_point.most(float(steps))))

    def _close_window(self) -> None:
        self.window.close(self._zero)

    def _agree(self) -> None:
        """Compare trainable weights over all workers; a collective."""
        self.reporter.phase = "agree"
        first, *others = self.trainer.replicas()
        agreement = compare(first, self.communicator, others)
        self.standing.agreements.append(agreement)
        if agreement.verdict == "no":
            raise Diverged(
                f"workers disagree after step {self._number}: their weights differ by up to "
                f"{agreement.max_difference:.3g}; the strategy does not synchronise them"
            )

    def _pausing(self, action: Callable[[], None]) -> float:
        """Do something that is no training; return its seconds, which training time leaves out."""
        started = perf_counter()
        action()
        seconds = perf_counter() - started
        self._paused_s += seconds
        return seconds

    def _train_time(self, now: float) -> float:
        return self._earlier.train_time_s + now - self._zero - self._paused_s

    def _rate_so_far(self) -> float | None:
        seconds, samples = self.window.timed_s, self.window.timed_steps * self.run.global_batch_size
        return samples / seconds if seconds else None

    def _latest_warmup(self) -> int:
        planned = self.order.steps_per_epoch * (self.run.epochs_per_worker - self._earlier.epoch)
        return min(LATEST_WARMUP_STEP, max(8, planned // 4, 32 if self.run.settings.extend_window else 0))

    def _make_step(self) -> Step:
        scale = 1.0 / self.run.global_batch_size
        if self.strategy.in_graph is not None:
            return compiled_step(self.trainer, self._batches, scale, self.reporter)
        return all_reduce_step(self.trainer, self.strategy, self.communicator, self._batches, scale, self.reporter)

    def _account(self, epochs: int, steps: int) -> Result:
        window, scores = self.window, self.standing.scores
        assert scores is not None
        return Result(
            steps=steps,
            extended_steps=sum(segment.steps for segment in window.segments if segment.extended),
            warmup_steps=window.warmup_steps + 1,
            warmup_detected=window.detected,
            epochs_completed=epochs,
            samples_seen=steps * self.order.own_batch,
            samples_dropped=epochs * self.order.dropped_per_epoch,
            train_samples=len(self.samples.train),
            validation_samples=len(self.samples.validation),
            num_parameters=self.trainer.num_parameters,
            flops_per_sample=self.trainer.flops_per_sample,
            first_step_s=self._first_step_s,
            evaluation_time_s=self.standing.evaluation_time_s,
            checkpoint_time_s=None if self.checkpoints is None else self._checkpoint_s,
            segments=tuple(window.segments),
            cpu_time_s=window.cpu_time_s,
            observer_cpu_s=window.observer_cpu_s,
            train_loss=self.epochs.train_loss,
            train_accuracy=self.epochs.train_accuracy,
            validation_loss=scores.loss,
            validation_accuracy=scores.accuracy,
            best_validation_accuracy=self.standing.best_accuracy,
            time_to_target_s=self.standing.reached[0] if self.standing.reached else None,
            epochs_to_target=self.standing.reached[1] if self.standing.reached else None,
            learning_rate=self.run.full_learning_rate,
            agreement=worst([agreement.verdict for agreement in self.standing.agreements]),
            max_difference=max(agreement.max_difference for agreement in self.standing.agreements),
            weights_hash=self.standing.agreements[-1].weights_hash,
        )
