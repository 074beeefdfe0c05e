"""What dropout drops on each worker, step by step: under `mirrored`, and in processes of their own.

A mask is read from the gradient of the layer above: a row of it is zero where its input was dropped. Of replicas only
the sum of gradients is seen, so each worker's samples have inputs of its own, and zeros in place of the others'.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dlbench import plugins
from dlbench.scenario.settings import Settings
from dlbench.trainers import Array, Problem, Threads, Trainer
from tests.functional.mpi_programs.train import PROBLEM

# Samples of all workers in each step, by their number: in the second one only the first worker has any.
SHARES: tuple[Callable[[int], int], ...] = (lambda workers: workers, lambda _: 1, lambda workers: workers)
Masks = list[list[bool]]


def network(problem: Problem) -> Any:
    """Return dropout below one dense layer."""
    from keras import Sequential, layers

    above = [layers.Dropout(0.5), layers.Dense(problem.num_classes, use_bias=False)]
    return Sequential([layers.Input(problem.input_shape), layers.Flatten(), *above])


def build(threads: Threads, num_workers: int) -> Trainer:
    """Return a trainer of that network."""
    target = f"{network.__module__}:{network.__name__}"
    settings = Settings.model_validate({"model": target, "workers": num_workers, "precision": "float64"})
    engine, model = plugins.load("trainers", "keras_tensorflow"), plugins.load("models", target)
    create: Callable[..., Trainer] = engine.get("create")
    trainer = create(settings, model, model.options(), engine.options(), PROBLEM, 5, threads)
    trainer.compile(None)
    return trainer


def kept(trainer: Trainer, workers: list[int], num_workers: int, num_samples: int) -> list[bool]:
    """Return which inputs are kept in one step, of a sample of each of these workers, as far as there are so many."""
    x = np.zeros((num_samples, 64))
    for worker in range(num_samples):
        x[worker, worker::num_workers] = 1.0
    own = [worker for worker in workers if worker < num_samples]
    gradient: Array = trainer.gradient(x[own].reshape(-1, *PROBLEM.input_shape), np.zeros(len(own), int), 1.0)[0]
    return [bool(row.any()) for row in gradient.reshape(64, -1)]


def walk(trainer: Trainer, workers: list[int], num_workers: int) -> Masks:
    """Return what is kept in each step."""
    return [kept(trainer, workers, num_workers, share(num_workers)) for share in SHARES]


def masks(num_workers: int, make_replicas: Callable[[], Trainer]) -> dict[str, Any]:
    """Return the masks of replicas, of processes, and of processes that are all taken for the first worker."""
    replicas, everyone = make_replicas(), list(range(num_workers))
    found = {"replicas": walk(replicas, everyone, num_workers)}
    # Of each pair the first is the worker that trains, the second the one that it is taken for.
    as_taken = {(worker, number) for worker in everyone for number in (worker, 0)}
    # The processor looks like so many devices here, also to a trainer that uses one.
    apart = {
        (worker, number): walk(
            build(Threads(1, 2, replicas=num_workers, workers=(number,)), num_workers), [worker], num_workers
        )
        for worker, number in as_taken
    }
    found["processes"] = np.any([apart[worker, worker] for worker in everyone], axis=0).tolist()
    found["all the first"] = np.any([apart[worker, 0] for worker in everyone], axis=0).tolist()
    other = make_replicas()
    other.set_state(replicas.state("optimizer"))
    following = [walk(trainer, everyone, num_workers) for trainer in (replicas, other)]
    return {**found, "following": following[0], "restored": following[1]}
