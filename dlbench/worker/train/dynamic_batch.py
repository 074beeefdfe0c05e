"""The batch of a run in lock step that changes while it trains: which samples, which rate, and when it changes."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

from dlbench.records.result import BatchChange
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import BatchPolicy as Name
from dlbench.strategies import Communicator
from dlbench.strategies._step import Observed, Step
from dlbench.trainers import Array, BatchParts
from dlbench.worker.train.batch_policy import BatchPolicy, Goodput, NormSums, Prediction, StepDoubling
from dlbench.worker.train.batches import Batches
from dlbench.worker.train.order import DataOrder, Share, learning_rate

# Steps of each batch before the clock: the first compile, of the others the median counts.
COMPILING, TIMED = 2, 5


class DynamicBatch:
    """One worker's side of a batch that changes; all workers decide alike, from what all have seen.

    Args:
        run: Its policy is not `fixed`.
        order: Of its samples.
        step: Of its replica.
        communicator: Of all workers.
        state: What an earlier attempt remembered; None at the start.

    Attributes:
        step: The step to run: the same, or one in which gradients' norms are seen.
    """

    def __init__(
        self,
        run: RunSpec,
        order: DataOrder,
        step: Step,
        communicator: Communicator,
        state: Mapping[str, float] | None = None,
    ) -> None:
        settings = run.settings
        self.step, self._plain_step = step, step
        self._run, self._order, self._communicator = run, order, communicator
        self._here = sum(order.local_batches[worker] for worker in order.workers)
        largest = (settings.largest_batch_size or settings.batch_size) // settings.batch_size
        self._multiples = tuple(1 << power for power in range(largest.bit_length()))
        self._times: dict[int, float] = {}
        self._every = settings.batch_policy_steps if settings.batch_policy is Name.GOODPUT else 0
        self._policy: BatchPolicy = StepDoubling(settings.batch_doubling_epochs or 1, self._multiples[-1])
        if self._every:
            observed = step if step.norms is not None else Observed(step, communicator)
            num_estimates = observed.num_estimates if isinstance(observed, Observed) else communicator.size
            self.step, self._policy = observed, Goodput(run.global_batch_size, self._times, num_estimates)
        # How far the schedule of rates has come, in steps of the run's own batch.
        self._scheduled = 0.0
        self._steps, self._step_times = 0, list[float]()
        self._sums, self._norms = NormSums(), (0, 0.0, 0.0)
        if state is not None:
            self._scheduled = state["scheduled"]
            self._policy.set_state(state)

    def state(self) -> dict[str, float]:
        """Return what a checkpoint keeps, by name; what was seen since the last decision is not kept."""
        return {"scheduled": self._scheduled, **self._policy.state()}

    def batches(self, epoch: int) -> Iterator[Share]:
        """Yield this process's share of each step of epoch 1, 2, ..."""
        return self._order.growing_batches(epoch, lambda: self._policy.multiple)

    def learning_rate(self, share: Share) -> float:
        """Return the rate of the next step, and let the schedule advance by what the step is worth."""
        multiple = max(1, share.total // self._run.global_batch_size)
        rate = self._rate(multiple)
        self._scheduled += self._policy.advance(multiple)
        return rate

    def prepare(self, batches: Batches, largest: Callable[[Array], Array]) -> None:
        """Compile and time the steps of all batches that may be chosen, and put all state back; a collective.

        Args:
            batches: Returns the samples of a share.
            largest: Returns the largest of all workers' values, element by element.
        """
        trainer, permutation = self._plain_step.trainer, self._order.permutation(1, 0)
        state, seconds = trainer.state(), []
        for multiple in self._multiples:
            share = self._order.multiple_batch(multiple, permutation)
            batch = partial(batches, share, 1)
            times = [self._time(batch, share.total) for _ in range(COMPILING + TIMED * bool(self._every))]
            seconds.append(median(times[COMPILING:] or times))
            if isinstance(self.step, Observed):
                self.step.observe(batch, share.total, 0.0)
        trainer.set_state(state)
        self._times.update(zip(self._multiples, largest(np.array(seconds)).tolist(), strict=True))
        self._clear()

    def _time(self, batch: Callable[[], tuple[Array, Array]], total: int) -> float:
        started = perf_counter()
        _, sums = self._plain_step.run(batch, total, 0.0, marked=False)
        if not isinstance(sums, dict):
            sums()
        return perf_counter() - started

    def take_norms(self, total: int) -> None:
        """Take what a step of all workers' `total` samples, which has just been run, shows of the noise."""
        self._steps += 1
        norms = self.step.norms
        if norms is None or norms.count == self._norms[0]:
            return
        now = norms.count, norms.local, norms.mean
        count, local, mean = (new - old for new, old in zip(now, self._norms, strict=True))
        self._norms = now
        self._sums = self._sums.plus(NormSums(count, local, mean, (local - mean) * total))

    def take_time(self, num_samples: int, step_time_s: float) -> None:
        """Take the time of a step of this many samples here."""
        if num_samples == self._here * self._policy.multiple:
            self._step_times.append(step_time_s)

    @property
    def is_due(self) -> bool:
        """Whether the policy decides after the step that was run last."""
        return bool(self._every) and self._steps >= self._every

    def begin_epoch(self, steps: int, epoch: int, train_time_s: float) -> BatchChange | None:
        """Return the change before an epoch, if any, given the steps and the training time so far."""
        before = self._policy.multiple
        return self._change(before, self._policy.begin_epoch(epoch), steps, epoch, train_time_s)

    def decide(self, steps: int, epoch: int, train_time_s: float) -> BatchChange | None:
        """Let the policy decide; return its change, if any; a collective."""
        before = self._policy.multiple
        seen_here = [*self._sums, median(self._step_times) if self._step_times else 0.0]
        seen = np.array(self._communicator.all_gather(seen_here), np.float64)
        sums = NormSums(*seen[:, :-1].mean(axis=0).tolist())
        self._clear()
        return self._change(before, self._policy.decide(sums, float(seen[:, -1].max())), steps, epoch, train_time_s)

    def _change(
        self, before: int, prediction: Prediction | None, steps: int, epoch: int, train_time_s: float
    ) -> BatchChange | None:
        if prediction is None:
            return None
        multiple, batch = self._policy.multiple, self._run.global_batch_size
        return BatchChange(
            step=steps,
            epoch=epoch,
            train_time_s=train_time_s,
            batch_size_before=before * batch,
            batch_size=multiple * batch,
            parts=BatchParts.of(self._run.settings).number(max(self._order.local_batches) * multiple),
            learning_rate=self._rate(multiple),
            learning_rate_gain=self._policy.gain(multiple),
            **prediction._asdict(),
        )

    def _rate(self, multiple: int) -> float:
        """Return the rate of a step of this batch that comes next."""
        scheduled = self._scheduled + self._policy.advance(multiple)
        return learning_rate(self._run, scheduled, self._order.steps_per_epoch) * self._policy.gain(multiple)

    def _clear(self) -> None:
        """Start a period; discard what was measured before."""
        norms = self.step.norms
        self._norms = (0, 0.0, 0.0) if norms is None else (norms.count, norms.local, norms.mean)
        self._sums, self._steps, self._step_times = NormSums(), 0, []
