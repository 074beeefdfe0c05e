"""`journal.jsonl`: what the workers of one attempt reported, in order of arrival, written and read.

The telemetry server appends one line for each message and forces it to disk before it acknowledges it, so the only
line that can be torn is the last one. Kinds that a newer dlbench adds are passed over.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from dlbench.errors import UserError
from dlbench.records.columns import STEP_FIELDS
from dlbench.records.result import Result
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
class WorkerError:
    """An error that a worker reported before it ended."""

    worker: int
    error: str
    traceback: str = ""
    out_of_memory: bool = False


@dataclass(frozen=True)
class Journal:
    """All that was reported of one attempt, by worker.

    Attributes:
        steps: Step rows [n, len(STEP_FIELDS)] of each worker, in the order they were made.
        epochs: Epoch rows in order of arrival: columns of `epochs.csv` after `run_id` and `attempt`.
        sensors: Readings in order of arrival.
        facts: What each worker knew once; later messages add to earlier ones.
        results: What each worker handed in at its end.
        errors: Errors in order of arrival.
        ended: Workers that sent `bye`.
    """

    steps: dict[int, Rows] = field(default_factory=dict)
    epochs: tuple[dict[str, Any], ...] = ()
    sensors: tuple[SensorReading, ...] = ()
    facts: dict[int, dict[str, Any]] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)
    errors: tuple[WorkerError, ...] = ()
    ended: frozenset[int] = frozenset()


class JournalWriter:
    """Appends whole lines to a journal; they are on disk when `write` returns.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
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
        UserError: A line other than the last is damaged.
    """
    reader = _Reader()
    for number, message in _messages(path):
        try:
            reader.take(message)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, number, error) from error
    return reader.journal()


def _messages(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, message); a last line that is torn was never acknowledged and is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                message = decode(line)
            except ValueError as error:
                if file.read(1):
                    raise _damaged(path, number, error) from error
                return
            yield number, message


def _damaged(path: Path, number: int, error: Exception) -> UserError:
    what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
    return UserError(
        f"this line of the journal is damaged ({what})",
        where=f"{path}:{number}",
        hint="remove the attempt's folder and continue the study with --resume: the run is then repeated",
    )


class _Reader:
    """Takes messages one by one; kinds without a method of their own are passed over."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[Rows]] = {}
        self._epochs: list[dict[str, Any]] = []
        self._sensors: list[SensorReading] = []
        self._facts: dict[int, dict[str, Any]] = {}
        self._results: dict[int, Result] = {}
        self._errors: list[WorkerError] = []
        self._ended: set[int] = set()
        self._takers: dict[str, Callable[[int, dict[str, Any]], None]] = {
            "steps": self._take_steps,
            "epoch": self._take_epoch,
            "sensors": self._take_sensors,
            "facts": self._take_facts,
            "result": self._take_result,
            "error": self._take_error,
            "bye": lambda worker, _: self._ended.add(worker),
        }

    def take(self, message: dict[str, Any]) -> None:
        taker = self._takers.get(str(message.get("kind")))
        if taker is not None:
            taker(int(message["worker"]), message)

    def journal(self) -> Journal:
        return Journal(
            steps={worker: np.concatenate(blocks) for worker, blocks in sorted(self._blocks.items())},
            epochs=tuple(self._epochs),
            sensors=tuple(self._sensors),
            facts=dict(sorted(self._facts.items())),
            results=dict(sorted(self._results.items())),
            errors=tuple(self._errors),
            ended=frozenset(self._ended),
        )

    def _take_steps(self, worker: int, message: dict[str, Any]) -> None:
        self._blocks.setdefault(worker, [np.empty((0, len(STEP_FIELDS)))]).append(unpack_steps(message["rows"]))

    def _take_epoch(self, worker: int, message: dict[str, Any]) -> None:
        self._epochs.append({**message["row"], "worker": worker})

    def _take_sensors(self, worker: int, message: dict[str, Any]) -> None:
        self._sensors.extend(
            SensorReading(worker, at_s, str(sensor), str(quantity), value)
            for at_s, sensor, quantity, value in message["rows"]
        )

    def _take_facts(self, worker: int, message: dict[str, Any]) -> None:
        self._facts.setdefault(worker, {}).update(message["facts"])

    def _take_result(self, worker: int, message: dict[str, Any]) -> None:
        self._results[worker] = Result.model_validate(message["result"])

    def _take_error(self, worker: int, message: dict[str, Any]) -> None:
        self._errors.append(
            WorkerError(
                worker,
                str(message["error"]),
                str(message.get("traceback") or ""),
                bool(message.get("out_of_memory")),
            )
        )
