"""The loop of one worker: steps, epochs, evaluations, and the timed window around what counts."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np

from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS, BatchChange, Result
from dlbench.records.warm_up import batch_medians, pieces_left_out, truncation
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import BatchPolicy
from dlbench.strategies import Communicator, Strategy
from dlbench.strategies._step import NAN, Step, StepTimestamps
from dlbench.trainers import Array, Sums
from dlbench.worker.observer import Observer
from dlbench.worker.step_recorder import StepRecorder, Window, is_cut
from dlbench.worker.train.agreement import compare
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.checkpoints import Checkpoints
from dlbench.worker.train.dynamic_batch import DynamicBatch
from dlbench.worker.train.evaluation import evaluate
from dlbench.worker.train.order import DataOrder, Share, joined, learning_rate
from dlbench.worker.training_record import Epoch, Scores, TrainingProgress, TrainingRecord, means_of

# The longest wait for the acknowledgement of what was sent before the first step.
ANNOUNCE_S = 2.0
# An extended window is planned no further ahead than this: steps may become slower.
LOOK_AGAIN_S = 1.0


class RunningStep(NamedTuple):
    """A step that has begun, or those of one call, the last of which has the number; `sums` may wait for the device."""

    number: int
    num_steps: int
    epoch: Epoch
    phase: str
    num_samples: int
    timestamps: StepTimestamps
    sums: Sums | Callable[[], Sums]


class Loop:
    """One process's training: everything that has state.

    Args:
        run: The run.
        step: Of its replica, or replicas, which hold the common first weights.
        strategy: Its side of the synchronisation, to which the step is bound.
        communicator: Barriers and sums over all workers.
        data: What it trains and evaluates on.
        observer: Reads the sensors, at the start of training and before each evaluation among others.
        checkpoints: Where the run's checkpoints go; None where it makes none.
        earlier: How far an earlier attempt had come, its weights being in the trainer already.
        workers: Those this process holds; none stands for the one of its rank.
    """

    def __init__(
        self,
        run: RunSpec,
        step: Step,
        strategy: Strategy,
        communicator: Communicator,
        data: TrainingData,
        observer: Observer,
        checkpoints: Checkpoints | None = None,
        earlier: TrainingProgress | None = None,
        workers: tuple[int, ...] = (),
    ) -> None:
        self.run, self.step, self.strategy, self.communicator = run, step, strategy, communicator
        self.data, self.observer, self.checkpoints = data, observer, checkpoints
        self.trainer, self.reporter = step.trainer, step.reporter
        self.workers = workers or (communicator.rank,)
        self.order = DataOrder.of(run, self.workers, len(data.train))
        self.record = TrainingRecord(run, self.reporter, earlier)
        self.progress = self.record.progress
        # Steps are counted on in an extended window, in which the progress stays.
        self._steps = self.progress.steps
        self._first_step, self._earlier_train_time_s = self._steps + 1, self.progress.train_time_s or 0.0
        self._earlier_bytes, self._bytes_before = self.progress.bytes_sent, strategy.bytes_sent or 0
        self.dynamic_batch: DynamicBatch | None = None
        if run.settings.batch_policy is not BatchPolicy.FIXED:
            remembered = self.progress.batch_policy
            self.dynamic_batch = DynamicBatch(run, self.order, step, communicator, remembered)
            self.step = self.dynamic_batch.step
            for change in self.progress.batch_changes:
                self._send_change(change)
        self.recorder = StepRecorder(self.reporter, run.limits.flush_interval_s)
        self.window = Window(self._barrier, self.reporter.observer_cpu_s)
        self._batches = data.batches or data.batch
        # Epochs that are not yet summed over all workers: that is done at evaluations, outside the timed window.
        self._pending: list[Epoch] = []
        self._scores: Scores | None = None
        self._checkpoint_s = 0.0
        # Of updates that the trainer has skipped; None where it skips none.
        self._gradients_dropped: int | None = None
        self._running: RunningStep | None = None
        self._settled_at = 0.0

    def train(self) -> Result:
        """Train all epochs, extend the window if the run asks for it, and return this worker's account.

        Raises:
            Diverged: Workers disagree, or a loss is not finite.
        """
        # The server knows now that start-up is over, even if the first step hangs with the interpreter's lock held.
        self.reporter.phase = "barrier"
        self.reporter.drain(ANNOUNCE_S)
        self.communicator.barrier()
        # Counters begin before the first step, and reading them is no training.
        self.observer.baseline()
        self.communicator.barrier()
        self.recorder.start(self.observer.zero)
        try:
            self._train_epochs()
            self._sum_up()
            self._agree()
            if self.run.settings.extend_window:
                self._extend()
            return self._account()
        finally:
            self.recorder.flush()  # also the rows before an error

    def _train_epochs(self) -> None:
        """Train until the last epoch or the target."""
        last, every = self.run.epochs_per_worker, self.run.settings.evaluate_every
        progress = self.progress
        while progress.epoch < last and not self.record.is_over:
            self._train_epoch(Epoch(dict.fromkeys(self.trainer.scores, 0.0), progress.epoch + 1))
            progress.epoch += 1
            if progress.epoch % every == 0 or progress.epoch == last:
                self._close_window()
                self._evaluate()
            self._make_checkpoint()

    def _train_epoch(self, epoch: Epoch) -> None:
        dynamic = self.dynamic_batch
        if dynamic is not None:
            self._change_batch(dynamic.begin_epoch(self._steps, epoch.number, self._train_time(perf_counter())))
        for shares in self._calls(self._shares(epoch.number)):
            rates = [self._learning_rate(share, self._steps + number) for number, share in enumerate(shares, 1)]
            epoch.learning_rate = rates[-1]
            self._train(shares, rates, epoch)
            if self._is_first:
                self._settle()
                self._pausing(self._agree)
                self._pausing(self._rehearse)
            elif dynamic is not None and dynamic.is_due:
                self._settle()
                self._change_batch(dynamic.decide(self._steps, epoch.number, self._train_time(perf_counter())))
        self._settle()
        now = perf_counter()
        epoch.steps, epoch.train_time_s, epoch.ended_at_s = self._steps, self._train_time(now), now - self.recorder.zero
        self._pending.append(epoch)

    def _shares(self, epoch: int) -> Iterator[Share]:
        return self.order.epoch(epoch) if self.dynamic_batch is None else self.dynamic_batch.batches(epoch)

    def _calls(self, shares: Iterator[Share]) -> Iterator[list[Share]]:
        """Yield the shares of each call: one step's, or as many full ones as the run asks for.

        The first step, and what is left of an epoch, are made one by one.
        """
        per_call = self.run.settings.steps_per_execution
        if per_call > 1 and self._steps + 1 == self._first_step:
            yield [next(shares)]
        while call := list(itertools.islice(shares, per_call)):
            if len(call) == per_call and call[-1].is_full:
                yield call
            else:
                yield from ([share] for share in call)

    def _learning_rate(self, share: Share, step: int) -> float:
        """Return the rate of a step that comes next, of which this is the share."""
        if self.dynamic_batch is None:
            return learning_rate(self.run, step, self.order.steps_per_epoch)
        return self.dynamic_batch.learning_rate(share)

    def _change_batch(self, change: BatchChange | None) -> None:
        if change is not None:
            self.progress.batch_changes.append(change)
            self._send_change(change)

    def _send_change(self, change: BatchChange) -> None:
        """Send a change of the batch, which all workers have made, once."""
        if self.communicator.rank == 0:
            self.reporter.send_batch_change(change)

    def _train(self, shares: Sequence[Share], rates: Sequence[float], epoch: Epoch) -> None:
        """Run the steps of one call, inside or outside the window.

        Record them, or those of the call before while these are computed.

        Raises:
            Diverged: Their loss is not finite.
        """
        num_steps, share = len(shares), joined(shares)
        self._steps += num_steps
        phase = self._phase(share, num_steps)
        if phase in ("sampled", "remainder"):
            self._close_window()
        elif phase != "first" and not self.window.is_open:
            self._settle()
            self.window.open()
        batch, total = partial(self._batches, share, epoch.number), shares[0].total
        if num_steps == 1:
            marked = self.step.can_mark and phase == "sampled"
            timestamps, sums = self.step.run(batch, total, rates[0], marked=marked)
        else:
            timestamps, sums = self.step.run_several(batch, total, np.array(rates))
        if self.dynamic_batch is not None:
            self.dynamic_batch.take_norms(share.total)
        self._settle()
        self._running = RunningStep(self._steps, num_steps, epoch, phase, len(share.indices), timestamps, sums)
        if isinstance(sums, dict):
            self._settle()

    def _settle(self) -> None:
        """Record what was run last, a step or those of a call, once its sums are there; then it has ended, too.

        Where the device computes it while the next one is prepared, it began when the one before had ended.

        Raises:
            Diverged: Its loss is not finite.
        """
        running, self._running = self._running, None
        if running is None:
            return
        step, num_steps, epoch, phase, num_samples, timestamps, sums = running
        if not isinstance(sums, dict):
            sums, started = sums(), max(timestamps.started, self._settled_at)
            # Whether the device waited for the batch is not seen from here.
            timestamps = timestamps._replace(started=started, batch_ready=NAN, ended=perf_counter())
        self._settled_at = timestamps.ended
        if phase in ("timed", "extended"):
            self.window.count(num_samples, timestamps.ended - timestamps.started, num_steps)
            if self.dynamic_batch is not None:
                self.dynamic_batch.take_time(num_samples, timestamps.ended - timestamps.started)
        loss = sums["loss"] / num_samples if num_samples else None
        self.recorder.add(step, epoch.number, phase, num_samples, timestamps, loss, num_steps)
        epoch.add(sums, num_samples)

    @property
    def _is_first(self) -> bool:
        """Whether the step is the first one of this attempt."""
        return self._steps == self._first_step

    def _rehearse(self) -> None:
        """Let the trainer compile the steps whose batches have other sizes; a collective.

        It is done after the first step, which is then as cold in arms without such steps, and is no training.
        """
        if self.dynamic_batch is not None:
            self.reporter.phase = "compile"
            sent = self.strategy.bytes_sent or 0
            self.dynamic_batch.prepare(self._batches, self._largest)
            self._bytes_before += (self.strategy.bytes_sent or 0) - sent
        rehearse, per_call = getattr(self.trainer, "rehearse", None), self.run.settings.steps_per_execution
        calls = [[share] for share in self.order.remainders()] if rehearse is not None else []
        if per_call > 1:
            calls.append(list(itertools.islice(self.order.full_batches(1), per_call)))
        if rehearse is None or not calls:
            return
        self.reporter.phase = "compile"
        for shares in calls:
            scale = self.step.scale(len(shares[0].indices), shares[0].total)
            rehearse(*self._batches(joined(shares), 1), scale, len(shares))
        self._barrier()

    def _phase(self, share: Share, num_steps: int) -> str:
        """Return the phase of a step, or of those of a call that ends with it.

        All but the first, remainders and those at cuts lie in pieces of the window.
        """
        if self._is_first:
            return "first"
        if not share.is_full:
            return "remainder"
        if is_cut(self._steps - self._first_step + 1, self.run.settings.sample_every, num_steps):
            return "sampled"
        return "extended" if self.window.extended else "timed"

    def _evaluate(self) -> None:
        """Evaluate over all workers, send the rows of the epochs since the last evaluation, look at the target."""
        progress, train_time_s = self.progress, self._train_time(perf_counter())
        self._pausing(self.observer.mark)
        self._pausing(self.step.refresh)
        seconds = self._pausing(self._score)
        progress.evaluation_time_s += seconds
        assert self._scores is not None
        self._send_epochs(self._scores._replace(seconds=seconds))
        self.reporter.samples_per_s = self._rate_so_far()
        self.record.look_at(progress.rows[-1], progress.epoch, train_time_s, self._most)

    def _send_epochs(self, scores: Scores | None = None) -> None:
        """Sum the pending epochs over all workers, and send their rows, the last one with scores; a collective."""
        epochs, self._pending = self._pending, []
        if not epochs:
            return
        sums_here = np.array([(*epoch.sums.values(), epoch.samples) for epoch in epochs], np.float64)
        everyone = np.empty_like(sums_here)
        self.communicator.all_reduce(sums_here, everyone)
        for epoch, (*totals, samples) in zip(epochs, everyone.tolist(), strict=True):
            row = epoch.row(means_of(dict(zip(epoch.sums, totals, strict=True)), samples))
            self.record.add(row | scores.cells if scores is not None and epoch is epochs[-1] else row)

    def _make_checkpoint(self) -> None:
        """Make a checkpoint where one is due, outside the window and outside training time; a collective then."""
        every, checkpoints = self.run.settings.checkpoint_every, self.checkpoints
        if checkpoints is None or every is None or self.progress.epoch % every:
            return
        self._close_window()
        self._sum_up()

        def save() -> None:
            self._send_epochs()
            self.step.refresh()
            checkpoints.save(self.progress)

        self._checkpoint_s += self._pausing(save)

    def _sum_up(self) -> None:
        """Bring the totals of the progress up to now."""
        progress, sent, earlier = self.progress, self.strategy.bytes_sent, self._earlier_bytes
        progress.steps, progress.train_time_s = self._steps, self._train_time(perf_counter())
        if (num_updates := getattr(self.trainer, "num_updates", None)) is not None:
            self._gradients_dropped = (self._steps - num_updates) * len(self.workers)
        progress.batch_policy = None if self.dynamic_batch is None else self.dynamic_batch.state()
        progress.bytes_sent = None if sent is None or earlier is None else earlier + sent - self._bytes_before

    def _score(self) -> None:
        self._scores = evaluate(
            self.trainer,
            self.communicator,
            self.data,
            self.run.settings.evaluation_batch_size,
            self.reporter,
            len(self.workers),
        )
        self._scores.refuse_infinite(f"after step {self._steps}")

    def _extend(self) -> None:
        """Step on until the window holds enough for a rate; nothing of these steps counts but the rate."""
        self.window.extended = True
        source, no_epoch = self._endless(), Epoch(dict.fromkeys(self.trainer.scores, 0.0))
        while missing := self._steps_missing():
            enough = self._steps + missing
            while self._steps < enough:
                shares = next(source)
                self._train(shares, [self.run.full_learning_rate] * len(shares), no_epoch)
            self._close_window()

    def _endless(self) -> Iterator[list[Share]]:
        """Yield the calls of further epochs without remainders."""
        for epoch in itertools.count(self.run.epochs_per_worker + 1):
            yield from self._calls(self.order.full_batches(epoch))

    def _steps_missing(self) -> int:
        """Return how many more steps to plan, 0 where a rate can be made without the warm-up; a collective.

        The worker that misses most decides, so that all run as many.
        """
        segments = self.window.segments
        warm_up = truncation(self._largest(batch_medians(np.array(self.window.step_times))))
        segments = segments[pieces_left_out([segment.steps for segment in segments], warm_up.steps) :]
        steps = sum(segment.steps for segment in segments)
        seconds = sum(segment.seconds for segment in segments)
        missing_s, missing_steps = MIN_TIMED_S - seconds, MIN_TIMED_STEPS - steps
        if steps and missing_s > 0:
            missing_steps = max(missing_steps, math.ceil(1.02 * min(LOOK_AGAIN_S, missing_s) * steps / seconds))
        return max(0, round(self._most(float(missing_steps))))

    def _barrier(self) -> None:
        """Wait for this worker's device, then for every worker; a collective."""
        self.trainer.synchronize()
        self.reporter.phase = "barrier"
        self.communicator.barrier()

    def _most(self, value: float) -> float:
        """Return the largest of all workers' values; a collective."""
        return float(self._largest(np.array([value]))[0])

    def _largest(self, values: Array) -> Array:
        """Return the largest of all workers' values, element by element: float64 [n], the same n on all."""
        largest = np.array(values)
        if len(largest):
            self.reporter.phase = "barrier"
            self.communicator.all_reduce(largest, largest, "max")
        return largest

    def _close_window(self) -> None:
        self._settle()
        self.window.close_at_barrier(self.recorder.zero)

    def _agree(self) -> None:
        """Compare trainable weights over all workers; a collective."""
        self.step.refresh()
        self.reporter.phase = "agree"
        first, *others = self.trainer.replicas()
        self.record.agree(compare(first, self.communicator, others), f"after step {self._steps}")

    def _pausing(self, action: Callable[[], None]) -> float:
        """Do something that is no training; return its seconds, which training time leaves out."""
        started = perf_counter()
        action()
        seconds = perf_counter() - started
        self.recorder.paused_s += seconds
        return seconds

    def _train_time(self, now: float) -> float:
        return self._earlier_train_time_s + self.recorder.train_time_s(now)

    def _rate_so_far(self) -> float | None:
        segments = self.window.segments
        seconds = sum(segment.seconds for segment in segments)
        here = sum(self.order.local_batches[worker] for worker in self.workers)
        samples = sum(segment.samples for segment in segments) * self.run.global_batch_size / here
        return samples / seconds if seconds else None

    def _account(self) -> Result:
        window, trainer = self.window, self.trainer
        # Of batches of several sizes they would be sums of unlike things.
        norms = self.step.norms if self.dynamic_batch is None else None
        return self.record.result(
            extended_steps=sum(segment.steps for segment in window.segments if segment.extended),
            samples_dropped=self.progress.epoch * self.order.dropped_per_epoch,
            train_samples=len(self.data.train),
            validation_samples=len(self.data.validation),
            num_parameters=trainer.num_parameters,
            flops_per_sample=trainer.flops_per_sample,
            ready_at=self.recorder.ready_at,
            first_step_s=self.recorder.first_step_s,
            checkpoint_time_s=None if self.checkpoints is None else self._checkpoint_s,
            segments=tuple(window.segments),
            learning_rate=self.run.full_learning_rate,
            gradients_dropped=self._gradients_dropped,
            gradient_norms=(norms.count, norms.local, norms.mean) if norms is not None and norms.count else None,
        )
