"""What a worker reports, as its training thread sees it: assignments and appends; its own thread does the rest.

The training thread sets plain attributes and queues messages, which costs it about a microsecond each. Every
`flush_interval_s` the sender's thread (`dlbench.telemetry.sender`) sends what is queued, with a heartbeat made from
the attributes.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench.cgroups import oom_kills
from dlbench.records.assignment import Assignment
from dlbench.records.result import BatchChange, Result
from dlbench.scenario.run_spec import Limits
from dlbench.telemetry.failure import describe
from dlbench.telemetry.messages import PHASES, PROTOCOL_VERSION
from dlbench.telemetry.sender import Connection, Sender
from dlbench.telemetry.spool import Spool
from dlbench.telemetry.watchdog import Watchdog

# This many bytes of queued rows wake the thread early, and this many make the training thread wait for it.
WAKE_BYTES = 2**20
MOST_QUEUED_BYTES = 2**26
# How long a worker that failed waits until its error is acknowledged.
ERROR_DRAIN_S = 5.0


class Reporter:
    """Reports the rows, messages and heartbeat of one process; does nothing where the assignment has no endpoint.

    Attributes:
        phase: What the worker is doing, one of `messages.PHASES`.
        step: Number of the last step; likewise `epoch`, and `loss`, `accuracy`, `samples_per_s` where known.
    """

    def __init__(self, assignment: Assignment, rank: int, watchdog: Callable[[Limits], Watchdog] = Watchdog) -> None:
        self.phase = PHASES[0]
        self.step = 0
        self.epoch = 0
        self.loss: float | None = None
        self.accuracy: float | None = None
        self.samples_per_s: float | None = None
        self._queued_bytes = self._woken_at_bytes = 0
        # By the CPU clock of each thread, which any thread can read.
        self._cpu_s: dict[int, float] = {}
        self._sender: Sender | None = None
        if assignment.endpoint is not None:
            limits = assignment.run.limits
            hello = {
                "kind": "hello",
                "attempt_id": assignment.attempt_id,
                "worker": rank,
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "version": PROTOCOL_VERSION,
                "oom_kills": oom_kills(),
            }
            connection = Connection(assignment.endpoint, hello, Spool(), silence_s=limits.orphan_timeout_s / 2)
            self._sender = Sender(connection, watchdog(limits), self._heartbeat, limits.flush_interval_s)
            self._sender.start(self.register_thread)

    def send(self, message: dict[str, Any]) -> None:
        """Queue one message to be numbered, journaled and acknowledged; its values are JSON-able."""
        if self._sender is not None:
            self._sender.queue.append(message)

    def send_facts(self, facts: Mapping[str, Any]) -> None:
        """Queue what is known once, by column name."""
        self.send({"kind": "facts", "facts": facts})

    def send_epoch(self, row: Mapping[str, Any]) -> None:
        """Queue a row of `epochs.csv`, without what names the worker."""
        self.send({"kind": "epoch", "row": row})

    def send_batch_change(self, change: BatchChange) -> None:
        """Queue a row of `batch_changes.csv`."""
        self.send({"kind": "batch_change", "row": change.model_dump()})

    def send_readings(self, rows: Sequence[tuple[float, str, str, float]]) -> None:
        """Queue readings of sensors: seconds since the first step, sensor, quantity, value."""
        self.send({"kind": "sensors", "rows": rows})

    def send_result(self, result: Result) -> None:
        """Queue this worker's result, and how long its process stood still."""
        stood_still_s = 0.0 if self._sender is None else self._sender.stood_still_s
        account = result.model_copy(update={"stood_still_s": stood_still_s})
        self.send({"kind": "result", "result": account.model_dump(mode="json")})

    def send_steps(self, rows: npt.NDArray[np.float64]) -> None:
        """Queue a copy of step rows [n, len(STEP_FIELDS)]; called by one thread only."""
        sender = self._sender
        if sender is None:
            return
        sender.queue.append({"kind": "steps", "rows": rows.copy()})
        self._queued_bytes += rows.nbytes
        if self._queued_bytes - self._woken_at_bytes > WAKE_BYTES:
            self._woken_at_bytes = self._queued_bytes
            sender.wake()
        while self._queued_bytes - sender.taken_bytes > MOST_QUEUED_BYTES:
            time.sleep(0.001)  # rows are made faster than they can be written down: memory must not grow

    def flush(self) -> None:
        """Send what is queued now, without waiting for it."""
        if self._sender is not None:
            self._sender.wake()

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything queued so far is acknowledged; return whether it is."""
        if self._sender is None:
            return True
        receipt = threading.Event()
        self._sender.queue.append(receipt)
        self._sender.wake()
        return receipt.wait(timeout_s)

    def error(self, exception: BaseException) -> None:
        """Queue the description of the exception that ends this worker, and send it now."""
        self.send(describe(exception))
        self.flush()

    def close(self, timeout_s: float) -> bool:
        """Send `bye`, as a worker that ends as it should, wait for the acknowledgements, and disconnect.

        Returns:
            Whether every message is acknowledged.
        """
        self.phase = PHASES[-1]
        self.send({"kind": "bye"})
        is_acknowledged = self.drain(timeout_s)
        self.abandon()
        return is_acknowledged

    def abandon(self) -> None:
        """Disconnect without `bye`; what is not acknowledged is dropped."""
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.finish()

    def register_thread(self) -> None:
        """Count the calling thread among dlbench's own."""
        self._cpu_s[time.pthread_getcpuclockid(threading.get_ident())] = 0.0

    def observer_cpu_s(self) -> float:
        """Return the CPU time of dlbench's own threads so far, in seconds; of one that ended, as when last read."""
        for clock in list(self._cpu_s):
            with contextlib.suppress(OSError):  # the thread has ended
                self._cpu_s[clock] = time.clock_gettime(clock)
        return sum(self._cpu_s.values())

    def _heartbeat(self) -> dict[str, Any]:
        return {
            "kind": "beat",
            "phase": self.phase,
            "step": self.step,
            "epoch": self.epoch,
            "loss": self.loss,
            "accuracy": self.accuracy,
            "samples_per_s": self.samples_per_s,
        }


class HeldReporter(Reporter):
    """Sends heartbeats alone until `release`: until then another process may report in its place."""

    def __init__(self, assignment: Assignment, rank: int, watchdog: Callable[[Limits], Watchdog] = Watchdog) -> None:
        self._held: list[dict[str, Any]] = []
        super().__init__(assignment, rank, watchdog)

    def send(self, message: dict[str, Any]) -> None:
        """Keep one message."""
        self._held.append(message)

    def release(self) -> None:
        """Queue what was kept, and what comes."""
        held, self.send = self._held, super().send  # type: ignore[method-assign]
        for message in held:
            self.send(message)
