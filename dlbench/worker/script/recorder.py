"""What a user's own script marks through the hook, as rows and as a result: the same columns as dlbench's own loop.

The script keeps its loop, so some things are known only afterwards. Steps follow one another: what lies between the
end of one, with its bookkeeping here, and the beginning of the next is waiting for data. What lies between an epoch's
last step and `epoch()` is evaluation, and is left out of training time and of the timed window, which therefore ends
with the epoch's last step. A piece of the window begins at a barrier and ends with this worker's own last step; the
common time of a piece is the longest that any worker saw, which is what a barrier at its end would have shown. Pieces
are cut at the same steps as those of dlbench's own loop.

A script may queue its steps on a device and go on. The device is waited for after the last step of a piece and of an
epoch: a step is taken for an epoch's last from as many steps on as the shortest epoch before had.
"""

import sys
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.records.result import Result
from dlbench.scenario.run_spec import RunSpec
from dlbench.strategies._step import StepTimestamps
from dlbench.telemetry.reporter import Reporter
from dlbench.worker.observer import Observer
from dlbench.worker.process.memory import resident_peak_bytes
from dlbench.worker.step_recorder import StepRecorder, Window, is_cut
from dlbench.worker.train.agreement import weights_hash
from dlbench.worker.training_record import Epoch, TrainingRecord

EpochScores = dict[str, float | None]


class ScriptRecorder:
    """One worker's rows and result, from what its script marks.

    Args:
        run: The run.
        reporter: Sends rows and messages.
        observer: Reads the sensors before the first step.
        barrier: Waits for every worker, or None: then nothing is timed.

    Attributes:
        record: The epochs that have ended.
        counted_to: Moment on `perf_counter` up to which every moment is a step's, of its bookkeeping or of a pause: the
            next step's start.
        notes: What makes numbers of the run doubtful.
        num_replicas: Replicas of the model in this process; None where they were not counted.
        is_in_step: Whether the script is between the beginning and the end of a step.
    """

    def __init__(
        self,
        run: RunSpec,
        reporter: Reporter,
        observer: Observer,
        barrier: Callable[[], object] | None,
    ) -> None:
        self.reporter = reporter
        self.record = TrainingRecord(run, reporter)
        self._run, self._observer, self._barrier = run, observer, barrier
        self._recorder = StepRecorder(reporter, run.limits.flush_interval_s)
        self._window = Window(barrier or (lambda: None), reporter.observer_cpu_s)
        self.counted_to = 0.0
        self.notes: list[str] = []
        self.num_replicas: int | None = None
        self.is_in_step = False
        self._steps = self._samples = self._epoch_samples = 0
        self._per_call = 1
        # Steps before this epoch, and those of the shortest epoch so far.
        self._steps_before = self._shortest = 0
        self._is_queued = False
        self._learning_rate: float | None = None
        # Since `share_pauses`, outside pieces of the window and inside.
        self._pauses = [0.0, 0.0]

    @property
    def has_begun(self) -> bool:
        """Whether a step has ended."""
        return self._steps > 0

    def goes_on(self, what: str) -> None:
        """Note that training began after what another process has made, such as "`fit` began with epoch 3"."""
        if not self.has_begun:
            self.notes.append(f"{what}: what was learned before is in the scores, and not in times, steps and samples")

    def enter(self) -> float:
        """A step begins; return the moment."""
        self.reporter.phase = "compute"
        if self._recorder.ready_at is None:
            self._observer.baseline()
            self._recorder.start(self._observer.zero)
            self.counted_to = perf_counter()
            return self.counted_to
        return perf_counter()

    def leave(self, num_steps: int) -> float:
        """A step ends, or those of one call; return the moment: the device's, if it may end a piece or an epoch."""
        steps, per_call = self._steps + num_steps, max(self._per_call, num_steps)
        every = self._run.settings.sample_every
        is_last = steps - self._steps_before >= self._shortest
        is_border = is_last or is_cut(steps, every, per_call) or is_cut(steps + per_call, every, per_call)
        if is_border:
            wait_for_devices()
        self._is_queued = not is_border
        return perf_counter()

    def catch_up(self) -> None:
        """Wait for the device's last step, where it was not waited for: the wait is training."""
        if self._is_queued:
            self._is_queued = False
            begun = perf_counter()
            wait_for_devices()
            self.count_to(self.counted_to + perf_counter() - begun)

    def count_to(self, moment: float) -> None:
        """Count the time since the last step, up to a moment of `perf_counter`, as training."""
        self.counted_to = moment
        if self._window.is_open:
            self._window.mark_end(moment)

    def meets(self, ahead: int) -> bool:
        """Whether all processes meet, in this step from here, where a piece of the window begins or ends."""
        step = self._steps + ahead
        return step == 1 or self._is_cut(step) or self._is_cut(step + 1)

    def pause(self) -> None:
        """Leave the time since the last step out: the script has evaluated, perhaps in this process only."""
        if self._steps:
            seconds = perf_counter() - self.counted_to
            self.record.progress.evaluation_time_s += seconds
            self._pauses[self._window.is_open] += seconds
            self._window.leave_out()
            self._pause_until_now()

    def leave_out_of_step(self, seconds: float) -> None:
        """Leave a part of the open step out: the script has evaluated within it, and the next part follows."""
        self.counted_to += seconds
        self._recorder.paused_s += seconds
        self.record.progress.evaluation_time_s += seconds
        self._pauses[self._window.is_open] += seconds
        self._window.leave_out_of_step(seconds)

    def leave_out(self) -> None:
        """Leave the time since the last step out of all processes, which was no training in some; a collective."""
        if self._steps:
            if self._barrier is not None:
                self.reporter.phase = "barrier"
                self._barrier()
            self._window.leave_out()
            self._pause_until_now()
            self.reporter.phase = "data"

    def saw_rate(self, learning_rate: float) -> None:
        """A step had this learning rate: the result has the largest, that before it decays."""
        self._learning_rate = max(learning_rate, self._learning_rate or 0.0)

    def share_pauses(self, longest: Callable[[list[float]], list[float]]) -> None:
        """Leave out what this process has waited, in its steps since the last call, for pauses of others; a collective.

        Args:
            longest: Returns the longest of each time over all processes.
        """
        outside, inside = np.subtract(longest(self._pauses), self._pauses).tolist()
        self._pauses = [0.0, 0.0]
        self.record.progress.evaluation_time_s += outside + inside
        self._recorder.paused_s += outside + inside
        self._window.leave_out_wait(inside)

    def add(
        self,
        num_samples: int,
        timestamps: StepTimestamps,
        loss: float | None,
        *,
        num_steps: int = 1,
        is_past: bool = False,
    ) -> None:
        """A step has ended, or those of one call.

        Args:
            num_samples: Of this worker.
            timestamps: Its moments.
            loss: Its mean loss, where it is known.
            num_steps: How many there were.
            is_past: Whether a device says its moments, and works on the next step by now.

        Raises:
            Diverged: Its loss is not a finite number.
        """
        phase, epoch = self._phase(), self.record.progress.epoch + 1
        self._steps += num_steps
        self._per_call = max(self._per_call, num_steps)
        self._epoch_samples += num_samples
        self._samples += num_samples
        self._recorder.add(self._steps, epoch, phase, num_samples, timestamps, loss, num_steps)
        if self._window.is_open:
            self._window.count(num_samples, timestamps.ended - timestamps.started, num_steps)
            self._window.mark_end(timestamps.ended)
        self.counted_to = timestamps.ended
        if self._comes_to_cut():
            self._window.close(self._recorder.zero)
        self._open_before_step()
        # What was noted here is bookkeeping between steps: the script does not wait for data yet.
        if not is_past:
            self.counted_to = perf_counter()

    def end_epoch(self, scores: EpochScores, learning_rate: float | None) -> bool:
        """An epoch has ended; return whether the run's target is reached and ends it."""
        self.catch_up()
        num_steps, self._steps_before = self._steps - self._steps_before, self._steps
        self._shortest = min(self._shortest or num_steps, num_steps)
        progress = self.record.progress
        progress.epoch += 1
        if learning_rate is not None:
            self.saw_rate(learning_rate)
        self._window.close(self._recorder.zero)
        pause = perf_counter() - self.counted_to if self._steps else 0.0
        was_evaluated = any(value is not None and not name.startswith("train_") for name, value in scores.items())
        seconds = pause if was_evaluated else None
        progress.evaluation_time_s += seconds or 0.0
        train_time_s = ended_at_s = None
        if self._steps:
            train_time_s, ended_at_s = self._train_time(), self.counted_to - self._recorder.zero
        ended = Epoch({}, progress.epoch, self._epoch_samples, self._steps, learning_rate, train_time_s, ended_at_s)
        row = ended.row({}) | scores | {"evaluated_samples": None, "evaluation_time_s": seconds}
        self.record.add(row)
        self.record.look_at(scores, progress.epoch, self._train_time())
        self._epoch_samples = 0
        self._open_before_step()
        self._pause_until_now()
        return self.record.is_over

    def flush(self) -> None:
        """Hand on the rows of steps that are held back."""
        self._recorder.flush()

    def result(self, weights: Iterable[Any] | None) -> Result:
        """Return the result at the script's end."""
        self.catch_up()
        self._window.close(self._recorder.zero)
        self.flush()
        arrays = None if weights is None else [np.asarray(array) for array in weights]
        progress = self.record.progress
        progress.steps, progress.train_time_s = self._steps, self._train_time() if self._steps else None
        return self.record.result(
            samples_seen=self._samples,
            num_parameters=None if arrays is None else sum(array.size for array in arrays),
            ready_at=self._recorder.ready_at,
            first_step_s=self._recorder.first_step_s,
            segments=tuple(self._window.segments),
            learning_rate=self._learning_rate,
            bytes_sent=None,
            weights_hash=None if arrays is None else hash_of(arrays),
            host_memory_peak_bytes=resident_peak_bytes(),
        )

    def _open_before_step(self) -> None:
        """Begin a piece of the window unless the next step is at a cut; the wait at its barrier is no training."""
        if self._barrier is not None and self._steps and not (self._window.is_open or self._comes_to_cut()):
            self.reporter.phase = "barrier"
            self._window.open()
            self._pause_until_now()
        if self._steps:  # before, it starts up
            self.reporter.phase = "data"

    def _phase(self) -> str:
        """Return the phase of the step that has ended and is not counted yet; without a barrier nothing is timed."""
        if not self._steps:
            return "first"
        if self._window.is_open:
            return "timed"
        return "warm-up" if self._barrier is None else "sampled"

    def _comes_to_cut(self) -> bool:
        """Whether the next step, or a call of as many as there were in one, is at a cut."""
        return is_cut(self._steps + self._per_call, self._run.settings.sample_every, self._per_call)

    def _is_cut(self, step: int) -> bool:
        return is_cut(step, self._run.settings.sample_every)

    def _pause_until_now(self) -> None:
        """Leave the time since the last step out of training."""
        if self._steps:
            now = perf_counter()
            self._recorder.paused_s += now - self.counted_to
            self.counted_to = now

    def _train_time(self) -> float:
        return self._recorder.train_time_s(self.counted_to)


def wait_for_devices() -> None:
    """Wait until JAX and CUDA have computed what was queued; neither is imported or started for that."""
    jax, torch = sys.modules.get("jax"), sys.modules.get("torch")
    bridge = sys.modules.get("jax._src.xla_bridge")
    if jax is not None and (bridge is None or bridge.backends_are_initialized()):
        jax.block_until_ready(jax.live_arrays())
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def hash_of(arrays: list[npt.NDArray[Any]]) -> str:
    """Return one hash of several arrays, bit for bit."""
    flat = [np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8) for array in arrays]
    return weights_hash(np.concatenate([*flat, np.empty(0, np.uint8)]))
