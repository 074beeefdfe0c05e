"""How long gradients take: drawn for each worker from a distribution, or from what was measured."""

import csv
import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Any, cast

import numpy as np

from dlbench.communicators.simulated import SimulatedOptions
from dlbench.errors import UserError
from dlbench.records import parquet
from dlbench.regular_file import open_regular
from dlbench.scenario.run_spec import arm_name
from dlbench.trainers import Array

_BLOCK = 256
# Apart from what permutations and strategies draw by the same seed.
_STREAM = 0x74696D65
_IN_WINDOW = ("timed", "extended")
# The columns that are read of a table of steps, and rows at once.
_COLUMNS = ("run_id", "num_steps", "phase", "step_time_s", "compute_time_s", "communication_time_s")
_ROWS = 200_000


class ComputeTimes:
    """Draws the time of a worker's next gradient.

    Each worker has its own generator, so that its times are the same in all strategies, whatever the order of
    events: arms that differ in their strategy alone are compared in pairs.
    """

    def __init__(self, options: SimulatedOptions, num_workers: int, seed: int) -> None:
        self._options = options
        # A measured time is that of a step as it was.
        is_measured = options.compute_times == "measured"
        self._per_sample_s = 0.0 if is_measured else options.compute_time_per_sample_s / options.compute_time_s
        self._draw = _distribution(options)
        self._generators = [np.random.default_rng([_STREAM, seed, worker]) for worker in range(num_workers)]
        self._factors = [
            options.slow_factor if worker >= num_workers - options.slow_workers else 1.0
            for worker in range(num_workers)
        ]
        self._blocks: list[list[float]] = [[] for _ in range(num_workers)]

    def next(self, worker: int, num_samples: int) -> float:
        """Return the seconds of the worker's next gradient, of this many samples; of none it takes no time."""
        if not num_samples:
            return 0.0
        if not self._blocks[worker]:
            generator, options = self._generators[worker], self._options
            seconds = self._draw(generator, _BLOCK) * self._factors[worker]
            if options.hiccup_probability:
                seconds[generator.random(_BLOCK) < options.hiccup_probability] *= options.hiccup_factor
            self._blocks[worker] = seconds[::-1].tolist()
        return self._blocks[worker].pop() * (1 + self._per_sample_s * num_samples)


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


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table of steps; unknown cells are empty or None."""
    if path.suffix == parquet.SUFFIX:
        for piece in parquet.pieces(path, "steps", _ROWS, _COLUMNS):
            yield from cast("Any", piece.astype(object).where(piece.notna(), None).to_dict("records"))
        return
    with TextIOWrapper(open_regular(path), "utf-8", newline="") as text:
        yield from csv.DictReader(text)


def measured(path: Path) -> Array:
    """Return what the timed steps in a `steps.csv` (or .parquet) of one arm took beside communication, in seconds.

    That is the batch, the gradient, and what a worker does with parameters; where a step cannot be taken apart, its
    compute time is empty, and so is what is returned of it.

    Raises:
        UserError: It cannot be read, or has none.
    """
    try:
        times_s, arms = array("d"), set[str]()
        for row in _rows(path):
            if row["phase"] in _IN_WINDOW and row["compute_time_s"]:
                beside_s = float(row["step_time_s"]) - float(row["communication_time_s"] or 0)
                times_s.append(beside_s / int(row["num_steps"]))
                arms.add(arm_name(row["run_id"]))
    except (OSError, KeyError, ValueError, csv.Error) as error:
        raise UserError(f"communicator.measured: {path} is no table of steps that can be read ({error})") from error
    if len(arms) != 1:
        what = (
            f"the timed steps of {len(arms)} arms" if arms else "no timed step that can be taken apart (compute_time_s)"
        )
        raise UserError(f"communicator.measured: {path} must hold those of one arm, and has {what}")
    return np.array(times_s)
