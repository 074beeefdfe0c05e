"""One step of training in lock step, bound to its trainer: gradient, exchange and update, with their moments.

The helpers are the ways in which gradients are exchanged: `Between` two compiled calls, or `Inside` the compiled one.
An engine that holds the replicas itself exchanges inside, too, by what it is wrapped in (see `dlbench.strategies`).
Another way is another `Step`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np

from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Sums, Trainer, added

NAN = float("nan")
# Gradients' norms are added up at every eighth step: two passes over a gradient are then a small part of a step.
NORMS_EVERY = 8


class StepTimestamps(NamedTuple):
    """Moments of one step on `perf_counter`; NaN where a moment was not observed.

    Attributes:
        peers_ready: End of the barrier before the exchange, in marked steps only.
        reduced: End of the exchange.
        encoding_s: Seconds of the exchange in which what is sent was made; likewise `decoding_s`, what was received
            was added up. NaN where gradients travel as they are.
        pull_s: Seconds between batch and gradient in which weights were got that the batch needs; else NaN.
    """

    started: float
    batch_ready: float
    gradient_ready: float
    peers_ready: float
    reduced: float
    ended: float
    encoding_s: float = NAN
    decoding_s: float = NAN
    pull_s: float = NAN


class GradientNorms:
    """Adds up |g_i|^2 of this worker's gradients and |g|^2 of their means over all workers, at every eighth step.

    Attributes:
        count: Steps that were added up.
        local: Sum of the squared norms of this worker's gradients.
        mean: Sum of the squared norms of the means.
    """

    def __init__(self) -> None:
        self.count, self.local, self.mean = 0, 0.0, 0.0
        self._steps = 0
        self._waits: float | None = None

    def before(self, gradient: Array, scale: float) -> None:
        """Take a local gradient before it is reduced.

        Args:
            gradient: Of this worker, times `scale`.
            scale: What makes the sum of all workers' gradients the mean over the step: 1 / workers of equal batches.
        """
        self._steps += 1
        if self._steps % NORMS_EVERY == 0:
            self._waits = float(np.vdot(gradient, gradient)) / scale**2

    def after(self, mean: Array) -> None:
        """Take the mean over all workers of the same step."""
        if self._waits is not None:
            self.count += 1
            self.local += self._waits
            self.mean += float(np.vdot(mean, mean))
            self._waits = None


class Step(ABC):
    """A worker's step.

    Attributes:
        can_mark: Whether a barrier can be put before the exchange, to see how long it takes without waiting.
        takes_local_means: Whether the exchange gets each worker's own mean gradient, zeros of a worker without samples;
            else gradients scaled so that their sum over workers is the mean over the step.
        num_averaged: Workers whose gradients the exchange averages in place of adding them up; else 1.
        norms: Of gradients and their means; None where they cannot be seen.
    """

    can_mark = False
    takes_local_means = False
    num_averaged = 1
    norms: GradientNorms | None = None

    def __init__(self, trainer: Trainer, reporter: Reporter) -> None:
        self.trainer, self.reporter = trainer, reporter

    def scale(self, samples: int, total: int) -> float:
        """Return what losses are multiplied by: of a batch's samples, in a step of all workers' total."""
        return 1 / max(1, samples) if self.takes_local_means else self.num_averaged / total

    @abstractmethod
    def run(
        self, batch: Callable[[], tuple[Array, Array]], total: int, learning_rate: float, *, marked: bool
    ) -> tuple[StepTimestamps, Sums | Callable[[], Sums]]:
        """Train one step; return its moments, and the sums over this worker's samples.

        Or what returns the sums once the device has made the step: until then it ends at no moment that is known.

        Args:
            batch: Returns this worker's samples and what is to be predicted.
            total: Samples of all workers in the step.
            learning_rate: Of the update.
            marked: Whether all workers meet before the exchange.
        """

    def run_several(
        self, batch: Callable[[], tuple[Array, Array]], total: int, learning_rates: Array
    ) -> tuple[StepTimestamps, Sums | Callable[[], Sums]]:
        """Train a step at each rate [k] on the next of k equal parts of this worker's samples, all in one call.

        Args:
            batch: Returns the samples of all k steps and what is to be predicted.
            total: Samples of all workers in one step.
            learning_rates: Of the updates.
        """
        raise NotImplementedError(f"{type(self).__name__} makes one step in each call")

    def refresh(self) -> None:  # noqa: B027 - most steps leave nothing elsewhere
        """Bring all of the trainer's weights up to date, where steps leave some with other workers; a collective."""

    def _take(self, batch: Callable[[], tuple[Array, Array]]) -> tuple[Array, Array, float, float]:
        """Return samples and what is to be predicted, when they were asked for, and when they were there."""
        self.reporter.phase = "data"
        started = perf_counter()
        x, y = batch()
        self.reporter.phase = "compute"
        return x, y, started, perf_counter()

    def _meet(self, barrier: Callable[[], None], *, marked: bool) -> float:
        """Enter the exchange, in a marked step once all workers are there; return when they were, else NaN."""
        peers_ready = NAN
        if marked:
            self.reporter.phase = "barrier"
            barrier()
            peers_ready = perf_counter()
        self.reporter.phase = "all_reduce"
        return peers_ready


class AllReducer(Protocol):
    """What sums flat vectors over all workers."""

    size: int

    def all_reduce(self, array: Array, out: Array) -> None:
        """Write the sum of all workers' `array` to `out`, which may be the same."""


class CodingClock(Protocol):
    """What an exchange of encoded gradients has spent so far.

    Attributes:
        encoding_s: Seconds in which what is sent was made.
        decoding_s: Seconds in which what was received was added up.
    """

    encoding_s: float
    decoding_s: float


class _NotCoded:
    """The clock of an exchange that encodes nothing."""

    encoding_s = decoding_s = NAN


class Between(Step):
    """Flat gradients are reduced between two compiled calls.

    Args:
        trainer: Of this worker.
        reporter: Gets the phase.
        barrier: Waits for all workers.
        num_workers: All of them.
        all_reduce: Returns the sum of all workers' flat gradients; may overwrite and return its argument.
        coding: Of an exchange that encodes gradients; then what `all_reduce` returns only stands for their sum.
    """

    def __init__(
        self,
        trainer: Trainer,
        reporter: Reporter,
        barrier: Callable[[], None],
        num_workers: int,
        all_reduce: Callable[[Array], Array],
        coding: CodingClock | None = None,
    ) -> None:
        super().__init__(trainer, reporter)
        trainer.compile(None)
        self._barrier, self._num_workers, self._all_reduce = barrier, num_workers, all_reduce
        self._coding = coding or _NotCoded()
        self.can_mark = num_workers > 1
        self.norms = GradientNorms() if num_workers > 1 and coding is None else None

    def run(
        self, batch: Callable[[], tuple[Array, Array]], total: int, learning_rate: float, *, marked: bool
    ) -> tuple[StepTimestamps, Sums]:
        """Train one step; see `Step`."""
        coding = self._coding
        x, y, started, batch_ready = self._take(batch)
        gradient, sums = self.trainer.gradient(x, y, self.scale(len(y), total))
        norms = self.norms if len(y) * self._num_workers == total else None
        if norms is not None:
            norms.before(gradient, scale=1 / self._num_workers)
        gradient_ready = perf_counter()
        peers_ready = self._meet(self._barrier, marked=marked)
        encoding_s, decoding_s = coding.encoding_s, coding.decoding_s
        update = self._all_reduce(gradient)
        self.reporter.phase = "update"
        reduced = perf_counter()
        if norms is not None:
            norms.after(update)
        self.trainer.apply(update, learning_rate)
        moments = started, batch_ready, gradient_ready, peers_ready, reduced, perf_counter()
        return StepTimestamps(*moments, coding.encoding_s - encoding_s, coding.decoding_s - decoding_s), sums


class Observed(Step):
    """Another step, every eighth of which is made between two compiled calls, so that gradients' norms are seen.

    A worker that is alone takes its batch in two halves then, whose gradients differ by chance as two workers' would.

    Args:
        step: The step; it reduces to the sum over workers.
        communicator: Of all workers.
    """

    def __init__(self, step: Step, communicator: AllReducer) -> None:
        super().__init__(step.trainer, step.reporter)
        self.norms = GradientNorms()
        self._step, self._communicator, self._steps = step, communicator, 0

    @property
    def num_estimates(self) -> int:
        """Estimates of the gradient in a step whose norms are seen."""
        return max(2, self._communicator.size)

    def run(
        self, batch: Callable[[], tuple[Array, Array]], total: int, learning_rate: float, *, marked: bool
    ) -> tuple[StepTimestamps, Sums | Callable[[], Sums]]:
        """Train one step; see `Step`."""
        self._steps += 1
        if self._steps % NORMS_EVERY:
            return self._step.run(batch, total, learning_rate, marked=marked)
        return self.observe(batch, total, learning_rate)

    def observe(
        self, batch: Callable[[], tuple[Array, Array]], total: int, learning_rate: float
    ) -> tuple[StepTimestamps, Sums]:
        """Train one step between calls; norms are added up where estimates are of equally many samples."""
        reporter, trainer, norms = self.reporter, self.trainer, self.norms
        x, y, started, batch_ready = self._take(batch)
        is_alone = self._communicator.size == 1
        is_even = len(y) % 2 == 0 < len(y) if is_alone else len(y) * self._communicator.size == total
        half = len(y) // 2 if is_alone and is_even else len(y)
        scale = self.scale(len(y), total)
        gradient, sums = trainer.gradient(x[:half], y[:half], scale)
        estimates = [float(np.vdot(gradient, gradient))]
        if half < len(y):
            first = gradient.copy()
            gradient, others = trainer.gradient(x[half:], y[half:], scale)
            estimates.append(float(np.vdot(gradient, gradient)))
            gradient += first
            sums = added(sums, others)
        gradient_ready = perf_counter()
        reporter.phase = "all_reduce"
        self._communicator.all_reduce(gradient, gradient)
        reporter.phase = "update"
        reduced = perf_counter()
        if is_even and norms is not None:
            norms.count += 1
            norms.local += sum(estimates) / len(estimates) * self.num_estimates**2
            norms.mean += float(np.vdot(gradient, gradient))
        trainer.apply(gradient, learning_rate)
        if not isinstance(self._step, Between):  # its other steps have no such moments, nor have its rows
            gradient_ready = reduced = NAN
        return StepTimestamps(started, batch_ready, gradient_ready, NAN, reduced, perf_counter()), sums


class Inside(Step):
    """Gradients are reduced inside the compiled step: nothing between can be observed.

    Args:
        trainer: Of this worker, or of all that one process holds.
        reporter: Gets the phase.
        in_graph: A function from gradients to reduced gradients inside the compiled step.
        in_forward: A differentiable function from a tensor to its sum over workers inside the compiled step, for
            synchronised batch norm. With one worker it returns the tensor.
        takes_local_means: See `Step`.
    """

    def __init__(
        self,
        trainer: Trainer,
        reporter: Reporter,
        in_graph: Callable[[list[Any]], list[Any]],
        in_forward: Callable[[Any], Any] | None = None,
        *,
        takes_local_means: bool = False,
    ) -> None:
        super().__init__(trainer, reporter)
        trainer.compile(in_graph, in_forward)
        self.takes_local_means = takes_local_means

    def run(
        self, batch: Callable[[], tuple[Array, Array]], total: int, learning_rate: float, *, marked: bool
    ) -> tuple[StepTimestamps, Sums | Callable[[], Sums]]:
        """Train one step; see `Step`."""
        x, y, started, batch_ready = self._take(batch)
        start = getattr(self.trainer, "start_step", None) or self.trainer.step
        sums = start(x, y, self.scale(len(y), total), learning_rate)
        return StepTimestamps(started, batch_ready, NAN, NAN, NAN, perf_counter()), sums

    def run_several(
        self, batch: Callable[[], tuple[Array, Array]], total: int, learning_rates: Array
    ) -> tuple[StepTimestamps, Sums | Callable[[], Sums]]:
        """Train several steps in one call; see `Step`."""
        x, y, started, batch_ready = self._take(batch)
        trainer: Any = self.trainer  # one that `REPEATS_STEPS`
        scale = self.scale(len(y) // len(learning_rates), total)
        sums = trainer.start_steps(x, y, scale, learning_rates)
        if not hasattr(trainer, "start_step"):
            sums = sums()
        return StepTimestamps(started, batch_ready, NAN, NAN, NAN, perf_counter()), sums
