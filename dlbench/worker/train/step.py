"""One step, with its timestamps: batch, local gradient, all-reduce, update; or one compiled call for all of it."""

from collections.abc import Callable
from time import perf_counter

from dlbench.strategies import Communicator, Strategy
from dlbench.telemetry.reporter import Reporter
from dlbench.trainers import Sums, Trainer
from dlbench.worker.step_recorder import NAN, StepTimestamps
from dlbench.worker.train.batches import Batches
from dlbench.worker.train.gradient_noise import GradientNorms
from dlbench.worker.train.order import Share

# Runs one step on a share of an epoch's samples, with a learning rate; where the flag is set, with a barrier before the
# all-reduce. Returns the step's timestamps and the sums over its samples.
RunStep = Callable[[Share, int, float, bool], tuple[StepTimestamps, Sums]]


def scale_of(share: Share, strategy: Strategy) -> float:
    """Return what a process's losses are multiplied by: the gradients' sum over workers is the mean over the step.

    A strategy that `takes_local_means` (see `dlbench.strategies`) gets each worker's own mean.
    """
    if getattr(strategy, "takes_local_means", False):
        return 1.0 / max(1, len(share.indices))
    return 1.0 / share.total


def all_reduce_step(
    trainer: Trainer,
    strategy: Strategy,
    communicator: Communicator,
    batches: Batches,
    reporter: Reporter,
    norms: GradientNorms,
) -> RunStep:
    """Return the step of a strategy that reduces flat gradients between two compiled calls, and add up their norms."""

    def run(share: Share, epoch: int, learning_rate: float, marked: bool) -> tuple[StepTimestamps, Sums]:
        reporter.phase = "data"
        started = perf_counter()
        x, y = batches(share, epoch)
        reporter.phase = "compute"
        batch_ready = perf_counter()
        gradient, sums = trainer.gradient(x, y, scale_of(share, strategy))
        is_even = communicator.size > 1 and len(share.indices) * communicator.size == share.total
        if is_even:
            norms.before(gradient, scale=1 / communicator.size)
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
        if is_even:
            norms.after(update)
        trainer.apply(update, learning_rate)
        return StepTimestamps(started, batch_ready, gradient_ready, peers_ready, reduced, perf_counter()), sums

    return run


def compiled_step(trainer: Trainer, strategy: Strategy, batches: Batches, reporter: Reporter) -> RunStep:
    """Return the step of a strategy that reduces inside the compiled call: nothing between can be observed."""

    def run(share: Share, epoch: int, learning_rate: float, marked: bool) -> tuple[StepTimestamps, Sums]:
        reporter.phase = "data"
        started = perf_counter()
        x, y = batches(share, epoch)
        reporter.phase = "compute"
        batch_ready = perf_counter()
        sums = trainer.step(x, y, scale_of(share, strategy), learning_rate)
        return StepTimestamps(started, batch_ready, NAN, NAN, NAN, perf_counter()), sums

    return run
