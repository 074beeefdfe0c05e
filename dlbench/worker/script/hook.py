"""The hook that makes an existing training script a run of dlbench, with the same rows.

    import dlbench.worker as dlbench

    run = dlbench.begin(rank=comm.rank, size=comm.size, barrier=comm.Barrier)
    for epoch in range(run.settings.epochs):
        for x, y in batches:
            with run.step(num_samples=len(x)) as step:
                step.loss = float(train_step(x, y))
        run.epoch(validation_accuracy=evaluate())
    run.finish(weights=[variable.numpy() for variable in model.trainable_variables])

Outside dlbench `begin` returns a silent stand-in and the script works as before. Every process of the script calls the
same functions in the same order. Between steps the script loads data; it evaluates between an epoch's last step and
`run.epoch`, or within `run.pause()`, which leaves out whatever else is no training. Rates need a barrier: without one
each worker would time its own window, and two workers in lock step would report different rates for the same run, so
they stay empty.
"""

import atexit
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from dlbench.errors import UserError, nearest, shown
from dlbench.records.assignment import VARIABLE
from dlbench.scenario.metrics import BUILT_IN, SCORE_COLUMNS
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.strategies._step import NAN, StepTimestamps
from dlbench.telemetry.line_check import MOST_SAMPLES, ROUNDING
from dlbench.worker.process.rank import identify, read_assignment
from dlbench.worker.script.recorder import EpochScores, ScriptRecorder
from dlbench.worker.script.session import Session
from dlbench.worker.script.unhooked import take_over
from dlbench.worker.train.agreement import Diverged

# The process that has begun its run, and in the environment of its children which one that was, and of which attempt.
_BEGUN: list[int] = []
_BEGUN_BY = "DLBENCH_BEGUN_BY"


class Step:
    """One step of the script; its marks are optional and fill the columns of what they separate.

    Attributes:
        loss: Mean loss of this worker's samples, where the script knows it.
    """

    __slots__ = ("_data_ready", "_gradient_ready", "_num_samples", "_num_steps", "_recorder", "_reduced", "loss")

    def __init__(self, recorder: ScriptRecorder | None, num_samples: int) -> None:
        self._num_steps = 1
        self.loss: float | None = None
        self._recorder = recorder
        self._num_samples = num_samples if recorder is None else _count("num_samples", num_samples)
        self._data_ready = self._gradient_ready = self._reduced = NAN

    def data_ready(self) -> None:
        """Mark that the batch is there, where it is loaded inside the step."""
        self._data_ready = self._mark("compute", self._gradient_ready, self._reduced)

    def gradient_ready(self) -> None:
        """Mark that the local gradient is there and the all-reduce begins."""
        self._gradient_ready = self._mark("all_reduce", self._reduced)

    def reduced(self) -> None:
        """Mark that the reduced gradient is there and the update begins."""
        self._reduced = self._mark("update")

    def __enter__(self) -> Self:
        if self._recorder is not None:
            self._data_ready = self._recorder.enter()
            self._recorder.is_in_step = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._recorder is not None:
            self._recorder.is_in_step = False
        if self._recorder is not None and kind is None:
            loss = _number("the step's loss", self.loss)
            started, ended = self._recorder.counted_to, self._recorder.leave(self._num_steps)
            timestamps = StepTimestamps(started, self._data_ready, self._gradient_ready, NAN, self._reduced, ended)
            try:
                self._recorder.add(self._num_samples, timestamps, loss, num_steps=self._num_steps)
            except Diverged as diverged:
                raise Diverged(f"{_place()}: {diverged}") from None

    def _mark(self, phase: str, *later: float) -> float:
        if any(moment == moment for moment in later):  # NaN is a mark that is still to come
            order = "a step's marks come in the order data_ready, gradient_ready, reduced"
            raise UserError(order, where=_place())
        if self._recorder is not None:
            self._recorder.reporter.phase = phase
        return perf_counter()


class Run:
    """The run a script belongs to, or a silent stand-in for one outside dlbench.

    Attributes:
        settings: The scenario's settings; outside dlbench the defaults, with those given to `begin`.
        options: Options of plugins by dotted name.
        seed: Seed of this repeat.
        rank: Rank of this process.
        size: Number of processes.
        batch_size: Samples of this process in one step, whatever `batch_scope` says.
        learning_rate: Rate after warm-up, scaled by the global batch as the scenario asks.
        epochs: Epochs this worker trains, divided over workers where the scenario asks for it.
        metrics: What the scenario declares besides the scores that are known.
        recorder: What keeps its rows; None outside dlbench.
    """

    def __init__(self, spec: RunSpec, workers: Iterable[int], rank: int, size: int, session: Session | None) -> None:
        self.settings, self.options, self.seed = spec.settings, dict(spec.options), spec.seed
        self.rank, self.size = rank, size
        self.batch_size = sum(spec.local_batch_size(worker) for worker in workers)
        self.learning_rate, self.epochs = spec.full_learning_rate, spec.epochs_per_worker
        self.metrics, self._session = spec.metrics, session
        self.recorder = session.recorder if session else None
        self._step: Step | None = None

    def check(self, rank: int, size: int) -> None:
        """Check what the script's library says of this process, where it says so after `begin`.

        Raises:
            UserError: This is not the process, or there are not as many, as dlbench started.
        """
        if self._session is not None:
            self._session.check(rank, size)

    def step(self, num_samples: int) -> Step:
        """Return the next step, to be used in a `with` statement; `num_samples` are those of this process.

        Raises:
            UserError: They are no whole number, or negative; says the line of the script.
        """
        return Step(self.recorder, num_samples)

    def begin_step(self, num_samples: int = 0) -> Step:
        """Begin a step where a `with` statement does not fit; `end_step` ends it, and may say its samples."""
        self._step = self.step(num_samples).__enter__()
        return self._step

    def end_step(self, loss: float | None = None, num_samples: int | None = None, num_steps: int = 1) -> None:
        """End the step that `begin_step` began, or the steps that one call has made since.

        Raises:
            UserError: There is none.
        """
        step, self._step = self._step, None
        if step is None:
            raise UserError("end_step: no step has begun")
        step.loss = step.loss if loss is None else loss
        if num_samples is not None and self.recorder is not None:
            step._num_samples = _count("num_samples", num_samples)
        step._num_steps = num_steps
        step.__exit__(None, None, None)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the time since the last step out of training: a checkpoint, an evaluation between two steps.

        A collective where `begin` has a barrier: all processes enter it, also where one alone does something there, and
        wait for that one.

        Raises:
            UserError: A step is open; says the line of the script.
        """
        if self.recorder is not None and self.recorder.is_in_step:
            hint = "pause between two steps; a callback of Keras's that does so comes after dlbench's"
            raise UserError("run.pause: a step is open", hint=hint, where=_place())
        if self.recorder is not None:
            self.recorder.catch_up()
        try:
            yield
        finally:
            if self.recorder is not None:
                self.recorder.leave_out()

    def epoch(self, *, learning_rate: float | None = None, **scores: float | None) -> bool:
        """End an epoch with its scores over all workers, the same on each; a collective where `begin` has a barrier.

        Args:
            learning_rate: Rate of the epoch's last step.
            scores: `train_loss`, `train_accuracy`, `train_mean_squared_error`, the same with `validation_`, and what
                the scenario declares under `metrics`.

        Returns:
            Whether the run's target is reached and ends the run: then leave the loop.

        Raises:
            Diverged: A score is not a finite number.
            UserError: It is none, or an accuracy is not between 0 and 1, or the scenario does not declare it; says the
                line of the script.
        """
        if self.recorder is None:
            return False
        checked: EpochScores = {name: self._score(name, value) for name, value in scores.items()}
        return self.recorder.end_epoch(checked, _number("learning_rate", learning_rate, least=0))

    def _score(self, name: str, value: Any) -> float | None:
        if name not in SCORE_COLUMNS and name not in self.metrics:
            near = nearest(name, (*SCORE_COLUMNS, *self.metrics))
            hint = f"{near} declare it in the scenario: `metrics: {{{name}: {{better: lower, matters: 2%}}}}`".strip()
            raise UserError(f"run.epoch: the scenario declares no metric {name}", hint=hint, where=_place())
        metric = BUILT_IN.get(name)
        if metric is not None and metric.most < math.inf:
            return _number(name, value, metric.least, metric.most)
        number = _number(name, value)
        if number is not None and not math.isfinite(number):
            raise Diverged(f"{_place()}: {name} is {number}")
        return number

    def finish(self, weights: Iterable[Any] | None = None) -> None:
        """Hand in this worker's account; without it the run counts as failed.

        Args:
            weights: Trainable weights as arrays: hashed, and compared over workers.
        """
        if self._session is not None:
            self._session.finish(weights)


def begin(
    *,
    rank: int | None = None,
    size: int | None = None,
    barrier: Callable[[], object] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Run:
    """Begin a run: the one dlbench started this process for, or a silent stand-in; of a child, with the run's settings.

    Args:
        rank: Rank of this process as the script's own library knows it.
        size: Number of processes as that library knows it; checked against the run's.
        barrier: Waits for all processes, such as `comm.Barrier`; opens the pieces of the timed window, between steps
            too, so that all processes must make as many. Without it rates stay empty.
        defaults: Settings of the stand-in, such as `{"epochs": 3}`.

    Raises:
        UserError: The processes that were started are not those of the run.
    """
    if VARIABLE not in os.environ:
        settings = Settings(**{"workers": size or 1, **(defaults or {})})
        spec = RunSpec(scenario="", label="", repeat=0, settings=settings)
        return Run(spec, (rank or 0,), rank or 0, size or 1, None)
    if os.getpid() in _BEGUN:
        raise UserError(
            "this process has a hook already, and a run has one",
            hint="begin once, or let each training be a run: a setting such as `seed` says which",
        )
    assignment = read_assignment(os.environ)
    places, own_name = assignment.layout.places, f"{assignment.attempt_id} {os.getpid()}"
    begun_by = os.environ.get(_BEGUN_BY, "")
    if begun_by != own_name and begun_by.startswith(f"{assignment.attempt_id} "):  # a loader of data, say
        inside = assignment.run.settings.workers_inside
        its_rank = identify(os.environ, assignment.layout, has_peers_inside=inside)
        return Run(assignment.run, places[min(its_rank, len(places) - 1)].workers, its_rank, len(places), None)
    _BEGUN.append(os.getpid())
    os.environ[_BEGUN_BY] = own_name
    take_over()
    session = Session(assignment, barrier)
    sys.excepthook = session.watch_exceptions(sys.excepthook)
    atexit.register(session.end)
    session.check(rank, size)
    return Run(assignment.run, places[session.rank].workers, session.rank, len(places), session)


def _count(name: str, value: Any) -> int:
    """Return a number of things.

    Raises:
        UserError: It is none.
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    if not 0 <= number <= MOST_SAMPLES or bool(number != value):
        raise UserError(f"{name} is a whole number from 0 to {MOST_SAMPLES:,}, not {shown(value)}", where=_place())
    return number


def _number(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float | None:
    """Return a number within limits, or None for None; one that is above `most` by rounding alone is `most`.

    Raises:
        UserError: It is none, or beyond them.
    """
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name} is a number, not {shown(value)}", where=_place()) from None
    if least == -math.inf:
        return number
    if not least <= number <= most + ROUNDING or math.isinf(number):
        limits = f"between {least:g} and {most:g}" if most < math.inf else f"a finite number, at least {least:g}"
        raise UserError(f"{name} is {limits}, not {number}", where=_place())
    return min(number, most)


def _place() -> str:
    """Return the line of the script that has called the hook, such as `train.py:12`."""
    frame = sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(("dlbench.", "contextlib")):
        frame = frame.f_back
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
