"""What a worker measures while it trains: rows of steps, the timed window, training time. For loop and script alike.

Two ranks in lock step, each timing its own loop, report different rates for the same run: one waits inside its
window, the other before it. So each piece of the window opens at a barrier, with devices synchronised, and a rate is
the samples of all workers divided by the longest time that any of them saw.

All steps after the first are recorded in such pieces, cut at the same steps whatever the strategy. Which of them are
warm-up is found later, from the step times of all workers: see `dlbench.records.warm_up`.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from time import perf_counter, process_time, time

import numpy as np

from dlbench.records.columns import PHASE
from dlbench.records.result import Segment
from dlbench.strategies._step import NAN, StepTimestamps
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array
from dlbench.worker.train.agreement import Diverged

# Before `sample_every` the window is cut at 8, 16, 32, ... steps: the warm-up takes whole pieces with it.
FIRST_CUT_STEP = 8
CALLS_BETWEEN_CUTS = 4


def is_cut(step: int, sample_every: int, num_steps: int = 1) -> bool:
    """Whether step 1, 2, ... of an attempt lies outside the window, between two of its pieces.

    It depends on nothing else, so that the windows of all arms and strategies are cut alike. Where one call makes
    several steps, of which this is the last, the whole call does if one of them would; cuts are then so far apart that
    most calls do not.
    """
    if num_steps > 1:
        sample_every = max(sample_every, CALLS_BETWEEN_CUTS * num_steps)
        return any(is_cut(number, sample_every) for number in range(step - num_steps + 1, step + 1))
    is_power_of_two = step & (step - 1) == 0
    return step % sample_every == 0 or (FIRST_CUT_STEP <= step < sample_every and is_power_of_two)


class StepRecorder:
    """Records the steps of one worker: a row of `steps.csv` each, made from what is kept a block at a time.

    Args:
        reporter: Sends blocks of rows and the heartbeat.
        interval_s: Longest time a step waits in the block.
        capacity: Steps of a block.

    Attributes:
        zero: Moment on `perf_counter` that counts as 0 s: the start of the first step.
        ready_at: The same moment as a time of day; None before it.
        first_step_s: Duration of the first step.
        paused_s: Time since `zero` that is no training.
    """

    def __init__(self, reporter: Reporter, interval_s: float, capacity: int = 4096) -> None:
        self.zero = self.paused_s = 0.0
        self.ready_at: float | None = None
        self.first_step_s: float | None = None
        self._reporter = reporter
        self._interval_s, self._capacity = interval_s, capacity
        self._block: list[tuple[float, ...]] = []
        self._sent_at = perf_counter()

    def start(self, on_zero: Callable[[float], None]) -> None:
        """Let this moment count as 0 s, and call `on_zero` with it."""
        self.ready_at, self.zero = time(), perf_counter()
        on_zero(self.zero)

    def add(
        self,
        step: int,
        epoch: int,
        phase: str,
        num_samples: int,
        timestamps: StepTimestamps,
        loss: float | None,
        num_steps: int = 1,
    ) -> None:
        """Record one step, less than a microsecond's work, or those of one call, of which `step` is the last.

        `epoch` is 0 in an extended window, `loss` a mean over the samples.

        Raises:
            Diverged: The loss of a step that counts is not finite.
        """
        loss_here = NAN if loss is None else loss
        self._block.append((step, num_steps, epoch, PHASE[phase], num_samples, *timestamps, loss_here))
        ended = timestamps.ended
        if phase == "first":
            self.first_step_s = ended - timestamps.started
        if ended - self._sent_at >= self._interval_s or len(self._block) == self._capacity:
            self.flush()
            self._sent_at = ended
        self._reporter.step, self._reporter.epoch = step, epoch
        if loss is not None:
            self._reporter.loss = loss
            if epoch and not math.isfinite(loss):
                where = f"step {step}" if num_steps == 1 else f"steps {step - num_steps + 1} to {step}"
                raise Diverged(f"the loss is {loss} in {where} (epoch {epoch})")

    def flush(self) -> None:
        """Hand the rows of the block to the reporter."""
        if self._block:
            self._reporter.send_steps(self._rows())
            self._block = []

    def _rows(self) -> Array:
        """Return the rows of the block: [n, len(STEP_FIELDS)]."""
        step, num_steps, epoch, phase, num_samples, *moments, loss = np.array(self._block).T
        started, batch_ready, gradient_ready, peers_ready, reduced, ended, encoding_s, decoding_s, pull_s = moments
        coding_s = np.nan_to_num(encoding_s) + np.nan_to_num(decoding_s)
        pull_s = np.nan_to_num(pull_s)
        columns = (  # in the order of STEP_FIELDS
            step,
            num_steps,
            epoch,
            phase,
            num_samples,
            started - self.zero,
            ended - started,
            batch_ready - started,
            np.where(np.isnan(gradient_ready), ended, gradient_ready) - batch_ready - pull_s,
            peers_ready - gradient_ready,
            reduced - np.where(np.isnan(peers_ready), gradient_ready, peers_ready) - coding_s + pull_s,
            ended - reduced,
            np.where(np.isfinite(loss), loss, NAN),
            encoding_s,
            decoding_s,
        )
        return np.stack(columns, axis=1)

    def train_time_s(self, moment: float) -> float:
        """Return the training time of this attempt up to a moment on `perf_counter`."""
        return moment - self.zero - self.paused_s


class Window:
    """The timed window of one worker: pieces, each of which begins at a barrier.

    A loop closes a piece at a second barrier. A script's last step of an epoch is known only when it is over: its
    piece ends where `mark_end` was last called.

    Args:
        barrier: Waits for this worker's device, then for every worker.
        observer_cpu_s: Returns the CPU time of dlbench's own threads so far.

    Attributes:
        segments: The closed pieces.
        step_times: Durations of all steps counted, in seconds; those of one call are taken for equal.
        extended: Whether pieces opened from now on lie after training.
    """

    def __init__(self, barrier: Callable[[], object], observer_cpu_s: Callable[[], float]) -> None:
        self.segments: list[Segment] = []
        self.step_times = array("d")
        self.is_open = self.extended = False
        self._barrier, self._read_observer = barrier, observer_cpu_s
        self._steps = self._samples = 0
        self._closing = self._paused_s = self._waited_s = 0.0
        # Moment, CPU time of this process, CPU time of dlbench's own threads.
        self._opened: Sequence[float] | Array = (0.0, 0.0, 0.0)
        self._ended = (0.0, 0.0, 0.0)
        # The same where a pause has ended, until a step follows.
        self._resumed: tuple[float, float, float] | None = None

    def open(self) -> None:
        """Open a piece; a collective."""
        self._barrier()
        self.is_open = True
        self._steps = self._samples = 0
        self._paused_s, self._waited_s, self._resumed = 0.0, 0.0, None
        self._opened = perf_counter(), *self._cpu_clocks()

    def count(self, num_samples: int, seconds: float, num_steps: int = 1) -> None:
        """Count one step into the open piece, or those of one call."""
        if self._resumed is not None:
            resumed, *cpu_s = self._resumed
            self._paused_s += resumed - self._ended[0]
            opened, *opened_cpu_s = self._opened
            self._opened = opened, *(np.add(opened_cpu_s, cpu_s) - self._ended[1:])
            self._resumed = None
        self._steps += num_steps
        self._samples += num_samples
        self.step_times.extend([seconds / num_steps] * num_steps)

    def mark_end(self, moment: float | None = None) -> None:
        """Let the open piece end now, or at a moment on `perf_counter` just past, unless it is called again."""
        # Where a quota is used up the kernel stops a process as it returns from a system call, such as that of a CPU
        # clock: the first and the last moment of a piece lie outside those calls, so that no stop is left out.
        cpu_s, observer_s = self._cpu_clocks()
        self._ended = (perf_counter() if moment is None else moment, cpu_s, observer_s)
        self._closing = self._ended[0]

    def leave_out(self) -> None:
        """Leave out the time since the last step, in the open piece if there is one, which before its first opens now.

        Workers have the same pieces, whichever of them evaluates: none is closed for that.
        """
        now = perf_counter(), *self._cpu_clocks()
        if self._steps:  # after the last step of a piece it lies outside
            self._resumed = now
        else:
            self._opened = now

    def leave_out_of_step(self, seconds: float) -> None:
        """Leave out time within the step that the open piece, if there is one, will count next."""
        if self.is_open:
            self._paused_s += seconds

    def leave_out_wait(self, seconds: float) -> None:
        """Leave out time that steps of the open piece, or of the last one, have waited for other workers' pauses."""
        if self.is_open:
            self._waited_s += seconds
        elif self.segments:
            last = self.segments[-1]
            self.segments[-1] = last.model_copy(update={"waited_s": last.waited_s + seconds})

    def close_at_barrier(self, zero: float) -> None:
        """Close the open piece, if there is one; a collective. `zero` is the moment that counts as 0 s."""
        if self.is_open:
            closing = perf_counter()
            self._barrier()
            self.mark_end()
            self._closing = closing
            self.close(zero)

    def close(self, zero: float) -> None:
        """Close the open piece, if there is one, where its end was marked; an empty one is dropped."""
        if self.is_open and self._steps:
            opened, cpu_s, observer_cpu_s = self._opened
            ended, cpu_ended_s, observer_ended_s = self._ended
            self.segments.append(
                Segment(
                    opened_at_s=opened - zero,
                    closing_at_s=self._closing - zero,
                    closed_at_s=ended - zero,
                    steps=self._steps,
                    samples=self._samples,
                    paused_s=self._paused_s,
                    waited_s=self._waited_s,
                    cpu_time_s=cpu_ended_s - cpu_s,
                    observer_cpu_s=observer_ended_s - observer_cpu_s,
                    extended=self.extended,
                )
            )
        self.is_open = False
        self._steps = self._samples = 0

    def _cpu_clocks(self) -> tuple[float, float]:
        return process_time(), self._read_observer()
