"""What sensors say about the training of a run: from its first step to the end of its last one."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from dlbench.analysis.rates import FIELD
from dlbench.records.journal import Journal, Rows, SensorReading

# A counter is read before, during and after training; less of the training than this says nothing about all of it.
MIN_COVERED = 0.9

Series = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


def counted(journal: Journal, sensor: str, quantity: str) -> float | None:
    """Return by how much a counter grew while the run trained: sum over the workers that read it.

    None where no worker read it, or one that did has readings for less than nine tenths of its training.
    """
    grown = [_growth(series, journal.steps.get(worker)) for worker, series in _series(journal, sensor, quantity)]
    known = [value for value in grown if value is not None]
    return sum(known) if known and len(known) == len(grown) else None


def mean_in_training(journal: Journal, sensor: str, quantity: str) -> float | None:
    """Return the mean of the readings taken while the run trained, mean over the workers that read it."""
    means = []
    for worker, (at_s, values) in _series(journal, sensor, quantity):
        inside = values[(at_s > 0) & (at_s <= training_end(journal.steps.get(worker)))]
        if len(inside):
            means.append(float(inside.mean()))
    return float(np.mean(means)) if means else None


def training_end(rows: Rows | None) -> float:
    """Return when a worker's last step ended, in seconds since its first one began; 0 where it made none."""
    if rows is None or not len(rows):
        return 0.0
    return float(rows[-1, FIELD["started_at_s"]] + rows[-1, FIELD["step_time_s"]])


def _series(journal: Journal, sensor: str, quantity: str) -> list[tuple[int, Series]]:
    by_worker: dict[int, list[SensorReading]] = {}
    for reading in journal.sensors:
        if (reading.sensor, reading.quantity) == (sensor, quantity) and None not in (reading.at_s, reading.value):
            by_worker.setdefault(reading.worker, []).append(reading)
    return [(worker, _arrays(readings)) for worker, readings in sorted(by_worker.items())]


def _arrays(readings: Iterable[SensorReading]) -> Series:
    table = np.array(sorted((reading.at_s, reading.value) for reading in readings), dtype=np.float64)
    return table[:, 0], table[:, 1]


def _growth(series: Series, rows: Rows | None) -> float | None:
    """Return a counter's growth over training, interpolated between the readings about its two ends."""
    at_s, values = series
    end = training_end(rows)
    covered = min(end, at_s[-1]) - max(0.0, at_s[0])
    if end <= 0 or covered < MIN_COVERED * end:
        return None
    start_value, end_value = np.interp([0.0, end], at_s, values)
    return float(end_value - start_value)
