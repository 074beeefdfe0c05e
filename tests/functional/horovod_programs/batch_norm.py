"""How far a network with batch norm ends, in slices over Horovod's workers, from one worker on the joined batches."""

from collections.abc import Callable

import numpy as np

from dlbench import plugins
from dlbench.communicators.horovod import HorovodCommunicator
from dlbench.scenario.settings import Settings
from dlbench.strategies import horovod
from dlbench.trainers import Array, Threads, Trainer
from tests.functional.mpi_programs.train import LEARNING_RATE, PROBLEM, batches, difference

Slice = Callable[[Array], Array]


def differences(communicator: HorovodCommunicator) -> dict[str, list[float]]:
    """Return the largest relative differences of weights and of moving statistics, by kind of batch norm."""
    strategy = horovod.create(horovod.OPTIONS(), communicator, None)
    found = {}
    for kind in ("synchronized", "local"):
        trainer, one = build(kind, communicator.size), build(kind, 1)
        start = trainer.parameters(), trainer.state("statistics")["statistics"]
        one.compile(None)
        trainer.compile(strategy.in_graph, strategy.in_forward)
        # One size of a batch is enough to see that statistics are local; of the last batch some workers have no sample.
        given = list(batches())[: None if kind == "synchronized" else 1]
        joined = train(one, start, given, lambda array: array)
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
