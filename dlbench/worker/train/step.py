"""One step, with its marks: batch, local gradient, exchange, update; or one compiled call for all of it."""

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple, Protocol

from dlbench.strategies import Communicator, Strategy
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Trainer
from dlbench.worker.train.window import PHASE_NUMBERS

NAN = float("nan")

Batches = Callable[[Array], tuple[Array, Array]]


class Marks(NamedTuple):
    """Moments of one step on `perf_counter`; NaN where a moment cannot be observed."""

    started: float
    batch_ready: float
    gradient_ready: float
    peers_ready: float
    reduced: float
    ended: float
    loss_sum: float
    correct: float


class Step(Protocol):
    """Runs one step on the samples of `indices`; `marked` puts a barrier before the exchange."""

    def __call__(self, indices: Array, learning_rate: float, marked: bool) -> Marks:
        """Return the step's marks, the sum of its losses and the number of correct predictions."""


def all_reduce_step(
    trainer: Trainer, strategy: Strategy, communicator: Communicator, batches: Batches, scale: float, beat: Reporter
) -> Step:
    """Return the step of a strategy that exchanges flat gradients between two compiled calls."""

    def run(indices: Array, learning_rate: float, marked: bool) -> Marks:
        beat.phase = "data"
        started = perf_counter()
        x, y = batches(indices)
        beat.phase = "compute"
        batch_ready = perf_counter()
        gradient, loss_sum, correct = trainer.gradient(x, y, scale)
        gradient_ready = peers_ready = perf_counter()
        if marked:
            beat.phase = "barrier"
            communicator.barrier()
            peers_ready = perf_counter()
        beat.phase = "exchange"
        update = strategy.all_reduce(gradient)
        beat.phase = "update"
        reduced = perf_counter()
        trainer.apply(update, learning_rate)
        ended = perf_counter()
        return Marks(started, batch_ready, gradient_ready, peers_ready, reduced, ended, loss_sum, correct)

    return run


def compiled_step(trainer: Trainer, batches: Batches, scale: float, beat: Reporter) -> Step:
    """Return the step of a strategy that reduces inside the compiled call: nothing between can be observed."""

    def run(indices: Array, learning_rate: float, marked: bool) -> Marks:
        beat.phase = "data"
        started = perf_counter()
        x, y = batches(indices)
        beat.phase = "compute"
        batch_ready = perf_counter()
        loss_sum, correct = trainer.step(x, y, scale, learning_rate)
        ended = perf_counter()
        return Marks(started, batch_ready, NAN, NAN, NAN, ended, loss_sum, correct)

    return run


def step_row(step: int, epoch: int, phase: str, num_samples: int, marks: Marks, zero: float) -> tuple[float, ...]:
    """Return one step in the order of `columns.STEP_FIELDS`; NaN is an empty cell."""
    one_call = marks.reduced != marks.reduced  # NaN: nothing inside the step can be observed
    return (
        step,
        1,
        epoch,
        PHASE_NUMBERS[phase],
        num_samples,
        marks.started - zero,
        marks.ended - marks.started,
        marks.batch_ready - marks.started,
        (marks.ended if one_call else marks.gradient_ready) - marks.batch_ready,
        marks.peers_ready - marks.gradient_ready if phase == "sampled" else NAN,
        marks.reduced - marks.peers_ready,
        marks.ended - marks.reduced,
        marks.loss_sum / num_samples,
    )
