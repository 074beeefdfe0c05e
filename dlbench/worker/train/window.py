"""The clock of a worker: the timed window, which opens and closes at barriers, and the rows of steps.

Two ranks in lock step, each timing its own loop, report different rates for the same run: one waits inside its
window, the other before it. So the window opens and closes at a barrier, with devices synchronised, and a rate is
the samples of all workers divided by the common time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time

import numpy as np
import numpy.typing as npt

from dlbench.records.columns import PHASE, STEP_FIELDS
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS, Segment
from dlbench.strategies import Communicator
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Trainer

# Step times have settled when successive medians differ by no more than this.
SETTLED = 0.02
# Fewer steps cannot show a slow change: 2% over the three quarters compared is then more than 0.1% a step.
LEAST_WARMUP_STEPS = 32
# Warm-up of a script whose workers cannot agree on a detected one.
FIXED_WARMUP_STEPS = 10

PHASE_NUMBERS = {name: float(number) for name, number in PHASE.items()}


def is_check_step(step: int) -> bool:
    """Whether warm-up is checked after this step: 32, 48, 64, 96, 128, 192, ... the same on every worker."""
    low = step & -step
    return step >= LEAST_WARMUP_STEPS and step in (low, 3 * low)


def has_settled(step_times: list[float]) -> bool:
    """Whether the last quarter's median is within 2% of both quarters' before it; the first quarter is left out.

    Three quarters show a change that goes on slowly: of two it is too little to be seen.
    """
    quarter = len(step_times) // 4
    if quarter < 2:
        return False
    medians = [median(step_times[-end * quarter : len(step_times) - (end - 1) * quarter]) for end in (3, 2, 1)]
    return all(abs(earlier - medians[-1]) <= SETTLED * earlier for earlier in medians[:-1])


@dataclass(frozen=True)
class SyncPoint:
    """Where all workers synchronise, with the phase reported; every method is a collective."""

    communicator: Communicator
    trainer: Trainer
    reporter: Reporter

    def barrier(self) -> None:
        """Wait for this worker's device, then for every worker."""
        self.trainer.synchronize()
        self.reporter.phase = "barrier"
        self.communicator.barrier()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any worker."""
        return bool(self.most(float(flag)))

    def most(self, value: float) -> float:
        """Return the largest of all workers' values."""
        values = np.array([value])
        self.reporter.phase = "barrier"
        self.communicator.all_reduce(values, values, "max")
        return float(values[0])


class Window:
    """The timed window of one worker: pieces between barriers, opened once step times have settled.

    Args:
        sync_point: Barrier and agreement over all workers.
        latest_step: Step after which the window opens whether or not step times have settled.
        observer_cpu_s: Returns the CPU time of dlbench's own threads so far.
    """

    def __init__(
        self,
        sync_point: SyncPoint,
        *,
        latest_step: int,
        observer_cpu_s: Callable[[], float],
    ) -> None:
        self.segments: list[Segment] = []
        self.is_warm = False
        self.is_open = False
        self.warmup_steps = 0
        self.detected: bool | None = None
        self.cpu_time_s = 0.0
        self.observer_cpu_s = 0.0
        self.extended = False
        self._sync_point = sync_point
        self._latest_step = latest_step
        self._observer_cpu_s = observer_cpu_s
        self._step_times: list[float] = []
        self._steps = self._samples = 0
        self._opened_at = self._cpu_at = self._observer_at = 0.0

    @property
    def timed_steps(self) -> int:
        """Steps inside the window so far."""
        return sum(segment.steps for segment in self.segments) + self._steps

    @property
    def timed_s(self) -> float:
        """Seconds inside the closed pieces so far, by this worker's clock."""
        return sum(segment.closed_at_s - segment.opened_at_s for segment in self.segments)

    @property
    def is_sufficient(self) -> bool:
        """Whether the closed pieces hold enough for a rate, by this worker's clock."""
        return self.timed_steps >= MIN_TIMED_STEPS and self.timed_s >= MIN_TIMED_S

    def open(self, zero: float) -> None:
        """Open a piece at a barrier; `zero` is the moment that counts as 0 s."""
        if self.is_open or not self.is_warm:
            return
        self._sync_point.barrier()
        self.is_open = True
        self._steps = self._samples = 0
        self._cpu_at, self._observer_at = process_time(), self._observer_cpu_s()
        self._opened_at = perf_counter() - zero

    def close(self, zero: float) -> None:
        """Close the open piece, if there is one, at a barrier; an empty piece is forgotten."""
        if not self.is_open:
            return
        self._sync_point.barrier()
        closed_at = perf_counter() - zero
        self.is_open = False
        if self._steps:
            self.cpu_time_s += process_time() - self._cpu_at
            self.observer_cpu_s += self._observer_cpu_s() - self._observer_at
            self.segments.append(
                Segment(
                    opened_at_s=self._opened_at,
                    closed_at_s=closed_at,
                    steps=self._steps,
                    samples=self._samples,
                    extended=self.extended,
                )
            )
        self._steps = self._samples = 0

    def count(self, step_time_s: float, num_samples: int) -> None:
        """Count one step: into the open piece, or towards the end of warm-up (then a collective at some steps)."""
        if self.is_open:
            self._steps += 1
            self._samples += num_samples
        elif not self.is_warm:
            self.warmup_steps += 1
            self._warm_up(step_time_s)

    def _warm_up(self, step_time_s: float) -> None:
        self._step_times.append(step_time_s)
        at_latest = self.warmup_steps >= self._latest_step
        if at_latest or is_check_step(self.warmup_steps):
            self.detected = not self._sync_point.any(not has_settled(self._step_times))
            self.is_warm = at_latest or self.detected
            if self.is_warm:
                self._step_times.clear()


class StepRecorder:
    """Rows of steps in a preallocated block, handed on in blocks; writing a row costs about a microsecond.

    Args:
        send: Takes a block of rows [n, len(STEP_FIELDS)]; it must copy them.
        interval_s: Longest time a full row waits in the block.
    """

    def __init__(
        self, send: Callable[[npt.NDArray[np.float64]], None], interval_s: float, capacity: int = 4096
    ) -> None:
        self._send = send
        self._interval_s = interval_s
        self._rows = np.empty((capacity, len(STEP_FIELDS)))
        self._count = 0
        self._sent_at = perf_counter()

    def add(self, row: tuple[float, ...], now: float) -> None:
        """Add one row, in the order of STEP_FIELDS; `now` is `perf_counter()` as the caller has it already."""
        self._rows[self._count] = row
        self._count += 1
        if self._count == len(self._rows) or now - self._sent_at >= self._interval_s:
            self.flush()
            self._sent_at = now

    def flush(self) -> None:
        """Hand on what is there."""
        if self._count:
            self._send(self._rows[: self._count])
            self._count = 0
