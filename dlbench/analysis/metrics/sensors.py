"""What sensors say about the training of a run, from its first step to the end of its last one, or about its window.

Steps that only lengthen the window come after training: what they cost is no cost of the run.
"""

from collections.abc import Iterable

import numpy as np

from dlbench.analysis.metrics.rates import ended_at
from dlbench.grouping import by_key
from dlbench.records.columns import FIELD
from dlbench.telemetry.journal import Journal, Rows

# Number of the epoch in the rows of an extended window.
EXTENDED_EPOCH = 0


def counted(journal: Journal, sensor: str, quantity: str) -> float | None:
    """Return by how much a counter grew while the run trained: sum over the workers that read it.

    None where no worker read it, or one that did lacks a reading before its first step or after its last one.
    """
    return total(counted_by_worker(journal, sensor, quantity).values())


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum of values; None where there is none, or one is unknown."""
    all_values = list(values)
    numbers = [value for value in all_values if value is not None]
    return sum(numbers) if numbers and len(numbers) == len(all_values) else None


def counted_by_worker(journal: Journal, sensor: str, quantity: str) -> dict[int, float | None]:
    """Return the same of each worker that read it; None where it lacks a reading before or after its training.

    Workers read just before their first step and just after the last one of an epoch. Nothing is interpolated: a short
    run sends all it sends in a few milliseconds of a second between two readings.
    """
    grown: dict[int, float | None] = {}
    for worker, (at_s, values) in _readings(journal, sensor, quantity):
        # A server makes no steps; its clock begins with the workers'.
        end = training_end(journal.steps.get(worker, journal.steps.get(0)))
        before, after = values[at_s <= 0], values[at_s >= end]
        grown[worker] = float(after[0] - before[-1]) if end > 0 and len(before) and len(after) else None
    return grown


def mean_in_window(journal: Journal, sensor: str, quantity: str) -> float | None:
    """Return the mean of the readings taken inside the timed window, mean over the workers with that sensor.

    None where one of them has no such reading there.
    """
    means, results = [], journal.results
    workers = readers(journal, sensor) & results.keys()
    for worker, (at_s, values) in _readings(journal, sensor, quantity):
        pieces = results[worker].segments if worker in results else ()
        inside = [(piece.opened_at_s <= at_s) & (at_s <= piece.closed_at_s) for piece in pieces]
        if np.any(inside):
            means.append(float(values[np.any(inside, axis=0)].mean()))
    return float(np.mean(means)) if means and len(means) == len(workers) else None


def readers(journal: Journal, sensor: str, quantity: str = "") -> set[int]:
    """Return the workers with readings of a sensor, or of one quantity of it."""
    return {it.worker for it in journal.sensors if it.sensor == sensor and quantity in ("", it.quantity)}


def training_end(rows: Rows | None) -> float:
    """Return when a worker's last training step ended, in seconds since its first one began; 0 where it made none."""
    trained = None if rows is None else rows[rows[:, FIELD["epoch"]] != EXTENDED_EPOCH]
    return 0.0 if trained is None or not len(trained) else float(ended_at(trained)[-1])


def _readings(journal: Journal, sensor: str, quantity: str) -> list[tuple[int, Rows]]:
    """Return the moments and values that each worker read, by moment: [2, readings]."""
    asked_for = [reading for reading in journal.sensors if (reading.sensor, reading.quantity) == (sensor, quantity)]
    by_worker = by_key(
        (each.worker, (each.at_s, each.value)) for each in asked_for if None not in (each.at_s, each.value)
    )
    return [(worker, np.array(sorted(pairs), np.float64).T) for worker, pairs in sorted(by_worker.items())]
