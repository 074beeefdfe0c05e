"""`journal.jsonl`: what the workers of one attempt reported, in order of arrival, written and read.

The telemetry server appends one line for each message and forces it to disk before it acknowledges it, so the only
line that can be torn is the last one. Kinds that a newer dlbench adds are passed over.
"""

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.records.columns import FIELD
from dlbench.records.result import BatchChange, Result
from dlbench.regular_file import open_regular
from dlbench.telemetry.failure import WorkerError
from dlbench.telemetry.line_check import LineChecker
from dlbench.telemetry.messages import decode, unpack_steps

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SensorReading:
    """One reading of a sensor: seconds since the worker's first step, sensor, quantity with its unit, value."""

    worker: int
    at_s: float | None
    sensor: str
    quantity: str
    value: float | None


@dataclass(frozen=True)
class Journal:
    """All that was reported of one attempt, by worker.

    Attributes:
        steps: Step rows [n, len(STEP_FIELDS)] of each worker, in the order they were made.
        epochs: Epoch rows in order of arrival: columns of `epochs.csv` after `run_id` and `attempt`.
        batch_changes: Changes of the batch in the order in which they were made.
        sensors: Readings in order of arrival.
        facts: What each worker knew once; later messages add to earlier ones.
        results: What each worker handed in at its end.
        errors: Errors in order of arrival.
        ended: Workers that sent `bye`.
    """

    steps: dict[int, Rows] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    batch_changes: list[BatchChange] = field(default_factory=list)
    sensors: list[SensorReading] = field(default_factory=list)
    facts: dict[int, dict[str, Any]] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)
    errors: list[WorkerError] = field(default_factory=list)
    ended: set[int] = field(default_factory=set)


class JournalWriter:
    """Appends whole lines to a journal; they are on disk when `write` returns.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        self._size = os.fstat(self._descriptor).st_size

    def write(self, lines: list[bytes]) -> None:
        """Append lines and force them to disk; where that fails, none of them stays.

        Raises:
            OSError: The disk is full, or gone.
        """
        content = memoryview(b"".join(lines))
        written = 0
        try:
            while written < len(content):
                written += os.write(self._descriptor, content[written:])
            os.fdatasync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(content)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read_journal(path: Path) -> Journal:
    """Read one attempt's journal; an absent file is an empty one.

    Raises:
        UserError: It cannot be read, a line other than the last is damaged, or one is missing.
    """
    journal, blocks = Journal(), defaultdict[int, list[Rows]](list)
    held, checkers = defaultdict[int, int](int), defaultdict[int, LineChecker](LineChecker)
    for number, message in _messages(path):
        try:
            worker, sequence = int(message["worker"]), message.get("seq")
            held[worker] += 1
            if sequence not in (None, held[worker]):
                raise ValueError(f"line {held[worker]} of worker {worker} is missing")
            rows = _step_rows(message["rows"]) if message.get("kind") == "steps" else None
            checkers[worker].check(message, rows)
            if rows is not None:
                blocks[worker].append(rows)
            _take(worker, message, journal)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise _damaged(path, number, error) from error
    return replace(
        journal,
        steps={worker: np.concatenate(blocks[worker]) for worker in sorted(blocks)},
        facts=dict(sorted(journal.facts.items())),
        results=dict(sorted(journal.results.items())),
    )


def _step_rows(text: str) -> Rows:
    """Return step rows; versions before 0.2 kept the infinite loss with which a run had diverged."""
    rows = unpack_steps(text).copy()  # which may be read-only
    losses = rows[:, FIELD["loss"]]
    losses[np.isinf(losses)] = np.nan
    return rows


def _take(worker: int, message: dict[str, Any], journal: Journal) -> None:
    """Add a message to the journal, but for steps; kinds of a newer dlbench are passed over."""
    match message["kind"]:
        case "epoch":
            journal.epochs.append({**message["row"], "worker": worker})
        case "batch_change":
            journal.batch_changes.append(BatchChange.model_validate(message["row"]))
        case "sensors":
            journal.sensors.extend(SensorReading(worker, *row) for row in message["rows"])
        case "facts":
            journal.facts.setdefault(worker, {}).update(message["facts"])
        case "result":
            journal.results[worker] = Result.model_validate(message["result"])
        case "error":
            journal.errors.append(WorkerError.of(worker, message))
        case "bye":
            journal.ended.add(worker)


def _messages(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, message); a last line that is torn was never acknowledged and is left out."""
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"it cannot be read ({error.strerror})", where=str(path)) from error
    with file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                message = decode(line)
            except (ValueError, RecursionError) as error:
                if file.read(1):
                    raise _damaged(path, number, error) from error
                return
            yield number, message


def _damaged(path: Path, number: int, error: Exception) -> UserError:
    what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
    return UserError(f"this line is damaged ({what})", where=f"{path}:{number}")
