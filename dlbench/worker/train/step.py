"""One step, with its timestamps: batch, local gradient, all-reduce, update; or one compiled call for all of it."""

from collections.abc import Callable
from time import perf_counter

from dlbench.strategies import Communicator, Strategy
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Array, Trainer
from dlbench.worker.recorder import NAN, StepTimestamps
from dlbench.worker.train.batches import Batches

# Runs one step on the samples of some indices in an epoch, with a learning rate; where the flag is set, with a barrier
# before the all-reduce. Returns the step's timestamps, the sum of its losses and the number of correct predictions.
RunStep = Callable[[Array, int, float, bool], tuple[StepTimestamps, float, float]]


def all_reduce_step(
    trainer: Trainer, strategy: Strategy, communicator: Communicator, batches: Batches, scale: float, reporter: Reporter
) -> RunStep:
    """Return the step of a strategy that reduces flat gradients between two compiled calls."""

    def run(indices: Array, epoch: int, learning_rate: float, marked: bool) -> tuple[StepTimestamps, float, float]:
        reporter.phase = "data"
        started = perf_counter()
        x, y = batches(indices, epoch)
        reporter.phase = "compute"
        batch_ready = perf_counter()
        gradient, loss_sum, correct = trainer.gradient(x, y, scale)
        gradient_ready = perf_counter()
        peers_ready = NAN
        if marked:
            reporter.phase = "barrier"
            communicator.barrier()
            peers_ready = perf_counter()
        reporter.phase = "all_reduce"
        update = strategy.all_reduce(gradient)
        reporter.phase = "update"
        reduced = perf_counter()
        trainer.apply(update, learning_rate)
        return (
            StepTimestamps(started, batch_ready, gradient_ready, peers_ready, reduced, perf_counter()),
            loss_sum,
            correct,
        )

    return run


def compiled_step(trainer: Trainer, batches: Batches, scale: float, reporter: Reporter) -> RunStep:
    """Return the step of a strategy that reduces inside the compiled call: nothing between can be observed."""

    def run(indices: Array, epoch: int, learning_rate: float, marked: bool) -> tuple[StepTimestamps, float, float]:
        reporter.phase = "data"
        started = perf_counter()
        x, y = batches(indices, epoch)
        reporter.phase = "compute"
        batch_ready = perf_counter()
        loss_sum, correct = trainer.step(x, y, scale, learning_rate)
        return StepTimestamps(started, batch_ready, NAN, NAN, NAN, perf_counter()), loss_sum, correct

    return run
