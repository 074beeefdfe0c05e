"""Train a language model over MPI with every route of its embedding, and with the all-reduce of `mpi`.

Hands in, for each: the weights' hash, the largest difference to those of `mpi`, and the bytes sent; and the hash where
a second strategy went on from the state of the first.
"""

import sys
from typing import Any

import numpy as np

from dlbench import plugins
from dlbench.communicators.mpi import MpiCommunicator, connect
from dlbench.scenario.settings import Settings
from dlbench.strategies import mpi, parallax
from dlbench.strategies._step import Step
from dlbench.trainers import Array, Problem, Threads, Trainer
from dlbench.worker.train.agreement import weights_hash
from tests.fakes import KeptReporter
from tests.functional.mpi_programs.launch import hand_in

# No number of workers divides the rows of the table.
PROBLEM = Problem(input_shape=(6,), num_classes=4, vocabulary=211)
OPTIONS = {"embedding_size": 5, "window": 2, "units": 7}
# Of the last step some workers have no samples. A checkpoint is made after two.
SIZES, KEPT_AFTER = (26, 26, 26, 26, 1), 2
LEARNING_RATE = 0.5


def main(trainer_name: str, workers: int) -> None:
    """Run every route and hand in what was found."""
    world = connect(workers)
    trainer = build(trainer_name)
    start = trainer.state()
    dense = mpi.create(mpi.OPTIONS(), world, "own-ring")
    train(dense.bind(trainer, KeptReporter()), world)
    expected, found = trainer.parameters(), {}
    for route in parallax.Route:
        trainer.set_state(start)
        found[route.value] = of_route(route, trainer, world, expected)
    of_mpi = {"bytes_sent": dense.bytes_sent, "moved": distance(expected, start["parameters"])}
    hand_in(world.rank, found | {"mpi": of_mpi})
    world.close()


def of_route(route: parallax.Route, trainer: Trainer, world: MpiCommunicator, expected: Array) -> dict[str, Any]:
    """Train all steps twice, the second time from a checkpoint of the first, and return what came of it."""
    strategy = parallax.create(parallax.OPTIONS(route=route), world, None)
    step = strategy.bind(trainer, KeptReporter())
    train(step, world, range(KEPT_AFTER))
    kept, routes = trainer.state(), strategy.state()
    train(step, world, range(KEPT_AFTER, len(SIZES)))
    end = trainer.parameters()
    trainer.set_state(kept)
    again = parallax.create(parallax.OPTIONS(route=route), world, None)
    step = again.bind(trainer, KeptReporter())
    again.set_state(routes)
    train(step, world, range(KEPT_AFTER, len(SIZES)))
    return {
        "hash": weights_hash(end),
        "resumed": weights_hash(trainer.parameters()),
        "difference": distance(end, expected),
        "bytes_sent": strategy.bytes_sent,
        "routes": strategy.facts()["routes"],
    }


def build(trainer_name: str) -> Trainer:
    """Return a trainer; the weights of a seed are the same on all workers."""
    settings = Settings.model_validate({"model": "feed_forward_lm", "trainer": trainer_name})
    plugin, model = plugins.load("trainers", trainer_name), plugins.load("models", "feed_forward_lm")
    create = plugin.get("create")
    trainer: Trainer = create(settings, model, model.options(**OPTIONS), plugin.options(), PROBLEM, 5, Threads(1, 1))
    return trainer


def train(step: Step, world: MpiCommunicator, numbers: range = range(len(SIZES))) -> None:
    """Train on this worker's slices of some steps, and bring the weights up to date."""
    for number in numbers:
        random = np.random.default_rng(number)
        x = random.integers(0, PROBLEM.vocabulary, (SIZES[number], *PROBLEM.input_shape)).astype(np.int32)
        y = random.integers(0, PROBLEM.num_classes, SIZES[number])
        mine = np.array_split(np.arange(len(y)), world.size)[world.rank]
        step.run(lambda x=x[mine], y=y[mine]: (x, y), len(y), LEARNING_RATE, marked=number == 1)
    step.refresh()


def distance(a: Array, b: Array) -> float:
    """Return the largest difference."""
    return float(np.max(np.abs(a - b)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
