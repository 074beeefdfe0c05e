"""How far a network with batch norm ends, in slices over Horovod's workers, from one worker on the joined batches."""

from collections.abc import Callable

import numpy as np

from dlbench import plugins
from dlbench.communicators.horovod import HorovodCommunicator
from dlbench.scenario.settings import Settings
from dlbench.strategies import horovod
from dlbench.trainers import Array, Threads, Trainer
from tests.functional.mpi_programs.train import LEARNING_RATE, PROBLEM, batches, difference, from_worker_0

Slice = Callable[[Array], Array]


def differences(communicator: HorovodCommunicator) -> dict[str, list[float]]:
    """Return the largest relative differences of weights and of moving statistics, by kind of batch norm."""
    strategy = horovod.create(horovod.OPTIONS(), communicator, None)
    found = {}
    for kind in ("synchronized", "local"):
        trainer = build(kind, communicator.size)
        start = trainer.parameters(), trainer.state("statistics")["statistics"]
        trainer.compile(strategy.in_graph, strategy.in_forward)
        # One size of a batch is enough to see that statistics are local; of the last batch some workers have no sample.
        given = list(batches())[: None if kind == "synchronized" else 1]
        alone = start
        if communicator.rank == 0:  # elsewhere its batches would be traced for nothing
            one = build(kind, 1)
            one.compile(None)
            alone = train(one, start, given, lambda array: array)
        joined = [from_worker_0(array, communicator) for array in alone]
        ends = train(trainer, start, given, lambda array: np.array_split(array, communicator.size)[communicator.rank])
        found[kind] = [difference(mine, theirs) for mine, theirs in zip(ends, joined, strict=True)]
    return found


def build(kind: str, workers: int) -> Trainer:
    """Return a trainer of a small network in float64, the same on all workers."""
    settings = Settings.model_validate({"model": "cnn", "precision": "float64", "workers": workers})
    engine, model = plugins.load("trainers", "keras_tensorflow"), plugins.load("models", "cnn")
    options = model.options(filters=(3, 4), batch_norm=kind)
    trainer: Trainer = engine.get("create")(settings, model, options, engine.options(), PROBLEM, 3, Threads(1, 1))
    return trainer


def train(
    trainer: Trainer, start: tuple[Array, Array], given: list[tuple[Array, Array]], mine: Slice
) -> tuple[Array, Array]:
    """Return weights and moving statistics after training on slices of global batches."""
    trainer.set_parameters(start[0])
    trainer.set_state({"statistics": start[1]})
    for x, y in given:
        trainer.step(np.ascontiguousarray(mine(x)), mine(y), 1 / len(y), LEARNING_RATE)
    return trainer.parameters(), trainer.state("statistics")["statistics"]
