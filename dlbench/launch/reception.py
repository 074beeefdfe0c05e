"""What one attempt's workers have said so far: journaled lines on disk, the rest in memory for the watch."""

import contextlib
import hmac
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from dlbench.records.assignment import Assignment
from dlbench.records.messages import PHASES

# Kinds that a worker sends only once it trains.
_TRAINING_KINDS = frozenset({"steps", "epoch", "result", "bye"})
_FIRST_TRAINING_PHASE = PHASES.index("data")


@dataclass(frozen=True)
class ErrorSeen:
    """An error a worker has reported, with the time of its arrival (monotonic)."""

    worker: int
    error: str
    traceback: str = ""
    out_of_memory: bool = False
    status: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class WorkerView:
    """What is known of one worker; times are monotonic seconds of arrival.

    Attributes:
        oom_kills: How many processes the kernel of its host had killed for lack of memory when it first called.
        is_connected: Whether it has a connection open.
        has_trained: Whether it ever got past build and broadcast.
        progressed_at: When its phase, step or epoch last changed.
        closed_at: When its last connection closed, or None.
        has_left: Whether it has said bye.
    """

    rank: int
    host: str = ""
    pid: int = 0
    oom_kills: int | None = None
    is_connected: bool = False
    has_trained: bool = False
    phase: str = ""
    step: int | None = None
    epoch: int | None = None
    loss: float | None = None
    accuracy: float | None = None
    samples_per_s: float | None = None
    beat_at: float | None = None
    progressed_at: float | None = None
    closed_at: float | None = None
    errors: tuple[ErrorSeen, ...] = ()
    result: dict[str, Any] | None = None
    has_left: bool = False

    @property
    def has_called(self) -> bool:
        """Whether it ever said hello."""
        return self.pid != 0

    @property
    def is_gone(self) -> bool:
        """Whether its connection closed before it said bye."""
        return self.has_called and not self.is_connected and not self.has_left


@dataclass
class _Journal:
    """The journal file of an attempt: whole lines only, on disk when `write` returns."""

    path: Path
    descriptor: int = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.size = os.fstat(self.descriptor).st_size

    def write(self, lines: list[bytes]) -> None:
        """Append lines and force them to disk; where that fails, none of them stays.

        Raises:
            OSError: The disk is full, or gone.
        """
        content = memoryview(b"".join(lines))
        written = 0
        try:
            while written < len(content):
                written += os.write(self.descriptor, content[written:])
            os.fdatasync(self.descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self.descriptor, self.size)
            raise
        self.size += len(content)


class Reception:
    """The inbox's side of one attempt; the inbox's thread writes, others read `workers()`."""

    def __init__(self, assignment: Assignment, journal: Path, leave: Callable[["Reception"], None]) -> None:
        assert assignment.home is not None, "an attempt without a home has no reception"
        self.attempt_id = assignment.attempt_id
        self._token = assignment.home.token.encode()
        self._journal = _Journal(journal)
        self._leave = leave
        self._lock = threading.Lock()
        self._views = {place.rank: WorkerView(place.rank) for place in assignment.layout.places}
        self._held = dict.fromkeys(self._views, 0)
        self._failure = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take no more lines of this attempt; its connections are closed."""
        self._leave(self)

    @property
    def failure(self) -> str:
        """Why rows can no longer be kept, or "" while they can."""
        return self._failure

    def workers(self) -> dict[int, WorkerView]:
        """Return what is known of every worker, by rank."""
        with self._lock:
            return dict(self._views)

    def is_drained(self) -> bool:
        """Whether no worker has a connection open any more."""
        return not any(view.is_connected for view in self.workers().values())

    # Below: called by the inbox's thread only.

    def admits(self, hello: dict[str, Any]) -> bool:
        """Whether a hello carries the token and the rank of a process of this attempt."""
        token, rank = hello.get("token"), hello.get("worker")
        is_known = isinstance(rank, int) and not isinstance(rank, bool) and rank in self._views
        return is_known and isinstance(token, str) and hmac.compare_digest(token.encode(), self._token)

    def welcome(self, hello: dict[str, Any]) -> int:
        """Note a worker's connection and return the highest sequence number held of it."""
        rank = int(hello["worker"])
        pid, host, oom_kills = hello.get("pid"), hello.get("host"), hello.get("oom_kills")
        view = self._views[rank]
        self._update(
            rank,
            pid=pid if isinstance(pid, int) and pid > 0 else -1,
            host=host if isinstance(host, str) else "",
            oom_kills=oom_kills if isinstance(oom_kills, int) and not view.has_called else view.oom_kills,
            is_connected=True,
            progressed_at=view.progressed_at or time.monotonic(),
        )
        return self._held[rank]

    def farewell(self, rank: int) -> None:
        """Note that a connection of a worker has closed."""
        self._update(rank, is_connected=False, closed_at=time.monotonic())

    def take(self, rank: int, lines: list[tuple[bytes, dict[str, Any]]]) -> int | None:
        """Keep what is new of a worker's lines; return the number to acknowledge, or None where nothing is to be.

        Raises:
            ConnectionError: Numbers are missing: the worker has to say hello again and send them.
        """
        fresh: list[tuple[bytes, dict[str, Any]]] = []
        held, has_numbers = self._held[rank], False
        for line, message in lines:
            number = message.get("seq")
            if not isinstance(number, int) or isinstance(number, bool):
                self._notice(rank, message)
                continue
            has_numbers = True
            if number > held + 1 and not self._failure:
                raise ConnectionError(f"line {held + 1} of worker {rank} is missing")
            if number == held + 1:
                fresh.append((line, message))
                held = number
        return self._keep(rank, fresh, held) if has_numbers else None

    def _keep(self, rank: int, fresh: list[tuple[bytes, dict[str, Any]]], held: int) -> int | None:
        if self._failure:
            return None
        try:
            if fresh:
                self._journal.write([_with_worker(line, message, rank) for line, message in fresh])
        except OSError as error:
            self._failure = f"the journal cannot be written: {error.strerror or error}"
            return None
        self._held[rank] = held
        for _, message in fresh:
            self._notice(rank, message)
        return held

    def _notice(self, rank: int, message: dict[str, Any]) -> None:
        kind = message.get("kind")
        if kind == "beat":
            self._beat(rank, message)
        elif kind == "phase":
            self._phase(rank, message)
        elif kind == "error":
            self._update(rank, errors=(*self._views[rank].errors, _error(rank, message)))
        elif kind == "result":
            result = message.get("result")
            self._update(rank, result=result if isinstance(result, dict) else {})
        elif kind == "bye":
            self._update(rank, has_left=True)
        if kind in _TRAINING_KINDS:
            self._update(rank, has_trained=True, progressed_at=time.monotonic())

    def _beat(self, rank: int, message: dict[str, Any]) -> None:
        view, now = self._views[rank], time.monotonic()
        names = ("loss", "accuracy", "samples_per_s")
        phase = str(message.get("phase") or view.phase)
        step, epoch = _whole(message.get("step")), _whole(message.get("epoch"))
        has_moved = (phase, step, epoch) != (view.phase, view.step, view.epoch)
        self._update(
            rank,
            phase=phase,
            step=step,
            epoch=epoch,
            **{name: _number(message.get(name)) for name in names},
            beat_at=now,
            progressed_at=now if has_moved else view.progressed_at,
            has_trained=view.has_trained or _is_training(phase),
        )

    def _phase(self, rank: int, message: dict[str, Any]) -> None:
        """A journaled phase is a sign of life; beats, which are not held back, say which phase it is now."""
        view, phase = self._views[rank], str(message.get("phase") or "")
        self._update(
            rank,
            phase=phase if view.beat_at is None else view.phase,
            progressed_at=time.monotonic(),
            has_trained=view.has_trained or _is_training(phase),
        )

    def _update(self, rank: int, **changes: Any) -> None:
        with self._lock:
            self._views[rank] = replace(self._views[rank], **changes)

    def shut(self) -> None:
        """Close the journal file."""
        os.close(self._journal.descriptor)


def _is_training(phase: str) -> bool:
    return phase in PHASES and PHASES.index(phase) >= _FIRST_TRAINING_PHASE


def _error(rank: int, message: dict[str, Any]) -> ErrorSeen:
    return ErrorSeen(
        worker=rank,
        error=str(message.get("error") or ""),
        traceback=str(message.get("traceback") or ""),
        out_of_memory=message.get("out_of_memory") is True,
        status=str(message.get("status") or ""),
        at=time.monotonic(),
    )


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 2**62 else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _with_worker(line: bytes, message: dict[str, Any], rank: int) -> bytes:
    """Return the line with `worker` in it; a long line is spliced, not encoded again."""
    if "worker" in message:
        return json.dumps(message | {"worker": rank}, separators=(",", ":")).encode() + b"\n"
    return b'{"worker":%d,' % rank + line.strip()[1:] + b"\n"
