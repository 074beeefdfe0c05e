"""How long gradients take: drawn for each worker from a distribution, or from what was measured."""

import csv
import math
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path

import numpy as np

from dlbench.communicators.simulated import SimulatedOptions
from dlbench.errors import UserError
from dlbench.regular_file import open_regular
from dlbench.trainers import Array

_BLOCK = 256
_IN_WINDOW = ("timed", "extended")


class ComputeTimes:
    """Draws the time of a worker's next gradient.

    Each worker has a generator of its own, so that its times are the same in all strategies, whatever the order of
    events: arms that differ in their strategy alone are compared in pairs.
    """

    def __init__(self, options: SimulatedOptions, num_workers: int, seed: int) -> None:
        self._options = options
        self._draw = _distribution(options)
        self._generators = [np.random.default_rng([seed, 1, worker]) for worker in range(num_workers)]
        self._factors = [
            options.slow_factor if worker >= num_workers - options.slow_workers else 1.0
            for worker in range(num_workers)
        ]
        self._blocks: list[list[float]] = [[] for _ in range(num_workers)]

    def next(self, worker: int) -> float:
        """Return the seconds of the worker's next gradient of a whole batch."""
        block = self._blocks[worker]
        if not block:
            block = self._blocks[worker] = self._next_block(worker)
        return block.pop()

    def _next_block(self, worker: int) -> list[float]:
        generator, options = self._generators[worker], self._options
        seconds = self._draw(generator, _BLOCK) * self._factors[worker]
        if options.hiccup_probability:
            seconds[generator.random(_BLOCK) < options.hiccup_probability] *= options.hiccup_factor
        found: list[float] = seconds[::-1].tolist()
        return found


def _distribution(options: SimulatedOptions) -> Callable[[np.random.Generator, int], Array]:
    mean = options.compute_time_s
    if options.compute_times == "measured":
        rows = measured(Path(options.measured))
        return lambda generator, count: generator.choice(rows, count)
    if options.compute_times == "exponential":
        return lambda generator, count: generator.exponential(mean, count)
    if options.compute_times == "constant" or not options.variation:
        return lambda _, count: np.full(count, mean)
    sigma = math.sqrt(math.log1p(options.variation**2))
    return lambda generator, count: generator.lognormal(math.log(mean) - sigma**2 / 2, sigma, count)


def measured(path: Path) -> Array:
    """Return the compute times of the timed steps in a `steps.csv`, in seconds.

    Raises:
        UserError: It cannot be read, or has none.
    """
    try:
        with TextIOWrapper(open_regular(path), "utf-8", newline="") as text:
            found = [
                float(row["compute_time_s"])
                for row in csv.DictReader(text)
                if row["phase"] in _IN_WINDOW and row["compute_time_s"]
            ]
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise UserError(f"communicator.measured: {path} is no steps.csv that can be read ({error})") from error
    if not found:
        raise UserError(f"communicator.measured: {path} has no timed step with a compute_time_s")
    return np.array(found)
