"""What a worker's lines may say: finite numbers in their ranges, texts, rows in the order in which they were made.

The server checks a line before it acknowledges it. Readers of a journal check it again: an older dlbench, or a failing
disk, may have written anything. Facts that are not columns are ignored: a newer dlbench may have added them.
"""

import math
import sys
from collections.abc import Mapping
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dlbench.errors import shown
from dlbench.records.columns import BATCH_CHANGES, EPOCHS, FIELD, FORMULA_MARKS, RUNS, STEP_PHASES, STEPS, Kind
from dlbench.records.result import BatchChange, Result
from dlbench.scenario.metrics import SCORES
from dlbench.telemetry.messages import MOST_ROWS, unpack_steps

# Up to here a float64 holds every whole number.
MOST_COUNT = 2**53
# Samples of one worker in one step: beyond any batch, of tokens too.
MOST_SAMPLES = 2**31
# 30,000 years: simulated clocks may run far.
MOST_S = 1e12
# Moments are differences of `perf_counter`, shares are sums of floats: what they differ by less than is rounding.
ROUNDING = 1e-6
LONGEST_TEXT = 4096


class Range(NamedTuple):
    """The numbers that a column may hold."""

    least: float
    most: float
    is_whole: bool = False

    def holds(self, values: Any) -> Any:
        """Whether a number is one of them, or each number of an array; NaN and infinity never are."""
        is_within = (self.least <= values) & (values <= self.most)
        return is_within & (values == np.floor(values)) if self.is_whole else is_within


_RUN_KINDS = {column.name: column.kind for column in RUNS}
_EPOCH_KINDS = {column.name: column.kind for column in EPOCHS}
_BATCH_CHANGE_KINDS = {column.name: column.kind for column in BATCH_CHANGES}
_BOUNDED = tuple(name for name, score in SCORES.items() if score.most == 1)
_SHARES = {name for name in (*_RUN_KINDS, *_EPOCH_KINDS) if name.endswith(_BOUNDED)}


def range_of(name: str, kind: Kind | None) -> Range:
    """Return what a column may hold, by its name and kind; None is the kind of any other number."""
    if kind == "int":
        return Range(0, MOST_SAMPLES if name == "num_samples" else MOST_COUNT, is_whole=True)
    if name in _SHARES:
        return Range(0, 1 + ROUNDING)
    if name == "at_s":  # the moment of a reading: before the first step, too
        return Range(-MOST_S, MOST_S)
    return Range(-ROUNDING, MOST_S) if name.endswith("_s") else Range(-sys.float_info.max, sys.float_info.max)


# In the order of `STEP_FIELDS`.
_STEP_RANGES = {
    **{column.name: range_of(column.name, column.kind) for column in STEPS[3:]},
    "num_steps": Range(1, MOST_ROWS, is_whole=True),
    "phase": Range(0, len(STEP_PHASES) - 1, is_whole=True),
}
# The others are unknown, NaN, where they could not be observed.
_REQUIRED = {"step", "num_steps", "epoch", "phase", "num_samples", "started_at_s", "step_time_s"}


class LineChecker:
    """Checks the lines of one worker in the order of their numbers."""

    def __init__(self) -> None:
        self._step = self._epoch = self._changed_at = 0
        self._started_at_s = -math.inf
        self._has_left = False

    def check(self, message: Mapping[str, Any], steps: npt.NDArray[np.float64] | None = None) -> None:
        """Check what a message says of the kinds that this dlbench has; others are passed over.

        Args:
            message: The message.
            steps: The rows [n, len(STEP_FIELDS)] of a line of steps, where they are unpacked already.

        Raises:
            ValueError: A field is missing, or is not what the kind has, or a row is out of order.
        """
        if self._has_left:
            raise ValueError("it comes after `bye`")
        match _field(message, "kind", str):
            case "steps":
                self._check_steps(unpack_steps(_field(message, "rows", str)) if steps is None else steps)
            case "epoch" | "batch_change" as kind:
                check_row = self._check_epoch if kind == "epoch" else self._check_batch_change
                check_row(_field(message, "row", dict))
            case "sensors":
                for row in _field(message, "rows", list):
                    _check_reading(row)
            case "facts":
                _check_cells(_field(message, "facts", dict), _RUN_KINDS)
            case "result":
                _check_result(Result.model_validate(_field(message, "result", dict)))
            case "error":
                _field(message, "error", str)
            case "bye":
                self._has_left = True

    def _check_steps(self, rows: npt.NDArray[np.float64]) -> None:
        if not len(rows):
            return
        for (name, numbers), values in zip(_STEP_RANGES.items(), rows.T, strict=True):
            is_sound = numbers.holds(values)
            if name not in _REQUIRED:
                is_sound |= np.isnan(values)
            if not is_sound.all():
                raise ValueError(f"{name} is {values[~is_sound][0]:g}")
        step, num_steps, started_at_s = (rows[:, FIELD[name]] for name in ("step", "num_steps", "started_at_s"))
        if num_steps.sum() > MOST_ROWS:
            raise ValueError(f"one line stands for {num_steps.sum():g} steps")
        is_covered = np.diff(step, prepend=self._step) < num_steps
        is_early = np.diff(started_at_s, prepend=self._started_at_s) < -ROUNDING
        if (is_covered | is_early).any():
            raise ValueError("steps are not in the order in which they were made")
        self._step, self._started_at_s = step[-1], started_at_s[-1]

    def _check_epoch(self, row: dict[str, Any]) -> None:
        _check_cells(row, _EPOCH_KINDS)
        # Metrics that a scenario declares.
        _check_values("row", {name: value for name, value in row.items() if name not in _EPOCH_KINDS})
        epoch = row.get("epoch")
        if epoch is None or epoch <= self._epoch:
            raise ValueError(f"epoch {shown(epoch)} comes after epoch {self._epoch}")
        self._epoch = epoch

    def _check_batch_change(self, row: dict[str, Any]) -> None:
        change = BatchChange.model_validate(row)
        _check_cells(row, _BATCH_CHANGE_KINDS)
        if change.step < self._changed_at:
            raise ValueError(f"the batch changed at step {change.step} after a change at step {self._changed_at}")
        self._changed_at = change.step


def _field(message: Mapping[str, Any], name: str, kind: type) -> Any:
    value = message.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{name!r} is missing or is no {kind.__name__}")
    return value


def _check_cells(row: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
    for name, value in row.items():
        if name in kinds and value is not None:
            _check_value(name, kinds[name], value)


def _check_value(name: str, kind: Kind, value: Any) -> None:
    if kind in ("text", "time"):
        is_sound = isinstance(value, str) and len(value) <= LONGEST_TEXT and not value.startswith(FORMULA_MARKS)
    elif kind == "bool":
        is_sound = isinstance(value, bool)
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_sound = is_number and range_of(name, kind).holds(value)
    if not is_sound:
        raise ValueError(f"{name} is {shown(value)}")


def _check_reading(row: Any) -> None:
    if not isinstance(row, list) or len(row) != 4:
        raise ValueError(f"{shown(row)} is no reading of a sensor")
    at_s, sensor, quantity, value = row
    _check_value("sensor", "text", sensor)
    _check_value("quantity", "text", quantity)
    _check_cells({"at_s": at_s, "value": value}, {"at_s": "float", "value": "float"})


def _check_result(result: Result) -> None:
    _check_values("result", result.model_dump())
    every = chain(*((piece.opened_at_s, piece.closing_at_s, piece.closed_at_s) for piece in result.segments))
    moments = [moment for moment in every if moment is not None]
    if any(later < earlier - ROUNDING for earlier, later in pairwise(moments)):
        raise ValueError("pieces of the window are not in order")


def _check_values(name: str, value: Any) -> None:
    """Check every number and text of a result: whole numbers are counts."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_values(key, item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_values(name, item)
    elif value is not None and not isinstance(value, bool):
        _check_value(name, "text" if isinstance(value, str) else "int" if isinstance(value, int) else "float", value)
