"""One attempt at the telemetry server: journaled lines go to disk, what the stall check needs stays in memory."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from dlbench.errors import shorten, shown
from dlbench.records.assignment import Assignment
from dlbench.telemetry.failure import WorkerError
from dlbench.telemetry.journal import JournalWriter
from dlbench.telemetry.line_check import LineChecker
from dlbench.telemetry.messages import PROTOCOL_VERSION, TRAINING_PHASES, decode

# Kinds that a worker sends only once it trains.
_TRAINING_KINDS = frozenset({"steps", "epoch", "result", "bye"})
_LONGEST_PHASE = 40


@dataclass(frozen=True)
class WorkerView:
    """What is known of one worker; times are monotonic seconds of arrival.

    Attributes:
        role: `worker`, or what else it does.
        index: Its number among those of its role; None for a worker, whose rank it is.
        address: Its host's, as the cluster has it; empty where the attempt has one host.
        host: Its host's name, as the worker says it.
        oom_kills: How many processes the kernel of its host had killed for lack of memory when it first connected.
        is_connected: Whether it has a connection open.
        has_trained: Whether it ever got past build and broadcast.
        progressed_at: When its phase, step or epoch last changed.
        closed_at: When its last connection closed, or None.
        has_left: Whether it has sent `bye`.
    """

    rank: int
    role: str = "worker"
    index: int | None = None
    address: str = ""
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
    errors: tuple[WorkerError, ...] = ()
    result: dict[str, Any] | None = None
    has_left: bool = False

    @property
    def name(self) -> str:
        """What it is called: `worker 2`, `server 0`."""
        return f"{self.role} {self.number}"

    @property
    def number(self) -> int:
        """Its number among the processes of its role."""
        return self.rank if self.index is None else self.index

    @property
    def has_connected(self) -> bool:
        """Whether it ever connected."""
        return self.pid != 0

    @property
    def is_gone(self) -> bool:
        """Whether its connection closed before it sent `bye`."""
        return self.has_connected and not self.is_connected and not self.has_left


class AttemptSession:
    """The server's side of one attempt; the server's thread writes, others read `workers()`.

    Args:
        assignment: The attempt.
        journal: Where its lines go.
        end: Called with the session when its block ends.

    Attributes:
        token: What its workers know.
        journal: What writes it; the server closes it.
        num_workers: How many processes report.
        failure: Why rows can no longer be kept; empty while they can.
    """

    def __init__(self, assignment: Assignment, journal: Path, end: Callable[["AttemptSession"], None]) -> None:
        assert assignment.endpoint is not None, "an attempt that reports nowhere has no session"
        self.attempt_id = assignment.attempt_id
        self.token = assignment.endpoint.token
        self.journal = JournalWriter(journal)
        self._end = end
        self._lock = threading.Lock()
        places = assignment.layout.places
        are_far = len({place.host for place in places}) > 1
        self._views = {
            it.rank: WorkerView(it.rank, it.role, None if it.workers else it.index, it.host if are_far else "")
            for it in places
        }
        self.num_workers = len(self._views)
        self._held = dict.fromkeys(self._views, 0)
        self._checkers = {rank: LineChecker() for rank in self._views}
        # What has arrived since the last commit: lines with their messages, and the highest number of each worker.
        self._group: list[tuple[int, bytes, dict[str, Any]]] = []
        self._received: dict[int, int] = {}
        # The process of each rank that has made steps.
        self._trainers: dict[int, int] = {}
        self.failure = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self)

    def workers(self) -> dict[int, WorkerView]:
        """Return what is known of every worker, by rank."""
        with self._lock:
            return dict(self._views)

    # Below: called by the server's thread only.

    def admits(self, hello: dict[str, Any]) -> bool:
        """Whether a hello has the rank of a process of this attempt, and a nonce."""
        nonce, rank = hello.get("nonce"), hello.get("worker")
        is_known = isinstance(rank, int) and not isinstance(rank, bool) and rank in self._views
        return is_known and isinstance(nonce, str) and nonce.isalnum()

    def require_version(self, hello: dict[str, Any]) -> None:
        """End the attempt where a worker's dlbench speaks another protocol than this one.

        Raises:
            ConnectionError: It does.
        """
        if (version := hello.get("version")) != PROTOCOL_VERSION:
            self.fail(
                f"{self._views[int(hello['worker'])].name} runs another version of dlbench than this machine "
                f"(its protocol is {shown(version)}, this one's {PROTOCOL_VERSION}): install the same on every host"
            )
            raise ConnectionError("another version")

    def connected(self, hello: dict[str, Any]) -> int:
        """Note a worker's connection and return the highest number on disk of its lines.

        Of another process than the one that has made steps none is on disk.
        """
        rank = int(hello["worker"])
        pid, host, oom_kills = hello.get("pid"), hello.get("host"), hello.get("oom_kills")
        pid = pid if isinstance(pid, int) and pid > 0 else -1
        view = self._views[rank]
        self._update(
            rank,
            pid=pid,
            host=host if isinstance(host, str) else "",
            oom_kills=oom_kills if isinstance(oom_kills, int) and not view.has_connected else view.oom_kills,
            is_connected=True,
            # Another process of this rank starts from the beginning.
            has_trained=view.has_trained and pid == view.pid,
            progressed_at=view.progressed_at or time.monotonic(),
        )
        return self._held[rank] if self._trainers.get(rank, pid) == pid else 0

    def disconnected(self, rank: int) -> None:
        """Note that a worker's connection has closed."""
        self._update(rank, is_connected=False, closed_at=time.monotonic())

    def receive(self, rank: int, lines: list[bytes]) -> None:
        """Take a worker's lines: heartbeats at once, numbered ones with the next commit.

        A line that says what it must not ends the attempt: what it held is lost, and rows with a hole are none.

        Raises:
            ConnectionError: Numbers are missing: the worker has to connect again and send them.
        """
        for line in lines:
            if self.failure:
                return
            try:
                self._take(rank, line)
            except (ValueError, RecursionError) as error:
                self.fail(f"{self._views[rank].name} has sent a line that is none: {shorten(str(error), 200)}")

    def fail(self, reason: str) -> None:
        """Take no more rows: the first reason given is why."""
        self.failure = self.failure or reason

    def _take(self, rank: int, line: bytes) -> None:
        message = decode(line)
        number = message.get("seq")
        if not isinstance(number, int) or isinstance(number, bool):
            if message.get("kind") != "beat":
                raise ValueError("it has no number and is no heartbeat")
            self._beat(rank, message)
            return
        pid = self._views[rank].pid
        if message.get("kind") in ("steps", "epoch") and self._trainers.setdefault(rank, pid) != pid:
            self.fail(
                f"two processes of the script report steps as {self._views[rank].name}: where it starts workers "
                "itself, one of them reports for all (`workers_inside: true`, docs/own-code.md)"
            )
            return
        last = self._received.setdefault(rank, self._held[rank])
        if number > last + 1:
            raise ConnectionError(f"line {last + 1} of {self._views[rank].name} is missing")
        if number == last + 1:  # others are on disk already, and are acknowledged again
            self._checkers[rank].check(message)
            self._group.append((rank, line, message))
            self._received[rank] = number

    def commit(self) -> dict[int, int]:
        """Force to disk what was received since the last commit; return the number to acknowledge, by rank."""
        received, group = self._received, self._group
        self._received, self._group = {}, []
        if self.failure or not received:
            return {}
        try:
            if group:
                self.journal.write([_with_worker(line, rank) for rank, line, _ in group])
        except OSError as error:
            self.fail(f"the journal cannot be written: {error.strerror or error}")
            return {}
        self._held |= received
        for rank, _, message in group:
            self._notice(rank, message)
        return received

    def _notice(self, rank: int, message: dict[str, Any]) -> None:
        kind = message.get("kind")
        if kind == "error":
            self._update(rank, errors=(*self._views[rank].errors, WorkerError.of(rank, message, time.monotonic())))
        elif kind == "result":
            self._update(rank, result=message["result"])
        elif kind == "bye":
            self._update(rank, has_left=True)
        if kind in _TRAINING_KINDS:
            self._update(rank, has_trained=True, progressed_at=time.monotonic())

    def _beat(self, rank: int, message: dict[str, Any]) -> None:
        view, now = self._views[rank], time.monotonic()
        phase = str(message.get("phase") or view.phase)[:_LONGEST_PHASE]
        step, epoch = _whole(message.get("step")), _whole(message.get("epoch"))
        numbers = {name: _float(message.get(name)) for name in ("loss", "accuracy", "samples_per_s")}
        has_moved = (phase, step, epoch) != (view.phase, view.step, view.epoch)
        self._update(
            rank,
            phase=phase,
            step=step,
            epoch=epoch,
            **numbers,
            beat_at=now,
            progressed_at=now if has_moved else view.progressed_at,
            has_trained=view.has_trained or phase in TRAINING_PHASES,
        )

    def _update(self, rank: int, **changes: Any) -> None:
        with self._lock:
            self._views[rank] = replace(self._views[rank], **changes)


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 2**62 else None


def _float(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _with_worker(line: bytes, rank: int) -> bytes:
    """Return the line with `worker` at its end, where it overrules any that the line has; it is not encoded again."""
    return line.strip()[:-1] + b',"worker":%d}\n' % rank
