"""Train a network with batch norm on the joined batches and in slices, and say how far the ends are apart.

Run as a program with a number of workers and a file, it trains on that many mirrored devices and saves the ends.
"""

import functools
import sys
from collections.abc import Callable

import numpy as np

from dlbench import plugins
from dlbench.scenario.settings import Settings
from dlbench.strategies import mirrored
from dlbench.trainers import Array, Threads, Trainer
from tests.functional.mpi_programs.train import GLOBAL_BATCH, LEARNING_RATE, PROBLEM, batches

KINDS = ("synchronized", "local")
Slice = Callable[[Array], Array]
Ends = tuple[Array, Array]


def build(kind: str, workers: int = 1, threads: Threads | None = None) -> Trainer:
    """Return a trainer of a small network in float64, the same on all workers."""
    settings = Settings.model_validate({"model": "cnn", "precision": "float64", "workers": workers})
    engine, model = plugins.load("trainers", "keras_tensorflow"), plugins.load("models", "cnn")
    options = model.options(filters=(3, 4), batch_norm=kind)
    trainer: Trainer = engine.get("create")(
        settings, model, options, engine.options(), PROBLEM, 3, threads or Threads(1, 1)
    )
    return trainer


def train(trainer: Trainer, start: Ends, mine: Slice = lambda array: array) -> Ends:
    """Return weights and moving statistics after training on slices of the global batches."""
    trainer.set_parameters(start[0])
    trainer.set_statistics(start[1])
    for x, y in batches():
        trainer.step(np.ascontiguousarray(mine(x)), mine(y), 1 / GLOBAL_BATCH, LEARNING_RATE)
    return trainer.parameters(), trainer.statistics()


def apart(ends: Ends, others: Ends) -> list[float]:
    """Return the largest differences of weights and of statistics, relative to the largest of each."""
    return [float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in zip(ends, others, strict=True)]


def main(workers: int, path: str) -> None:
    """Save start and end of mirrored workers with each kind of batch norm; no other device can be in their process."""
    strategy = mirrored.create(mirrored.OPTIONS(), Alone(), None)
    # One for both: a second one in a process numbers its collectives from the start again, and they meet the first's.
    distribution = functools.cache(strategy.distribution)
    threads = Threads(1, 1, replicas=workers, distribution=distribution)
    found: dict[str, Array] = {}
    for kind in KINDS:
        trainer = build(kind, workers, threads)
        start = trainer.parameters(), trainer.statistics()
        trainer.compile(strategy.in_graph, strategy.in_forward)
        parts = (*start, *train(trainer, start))
        found |= {f"{kind} {number}": part for number, part in enumerate(parts)}
    np.savez(path, **found)


class Alone:
    """The driver of a single process."""

    size, rank = 1, 0


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
