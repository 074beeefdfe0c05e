"""The way home as the training thread sees it: assignments and appends; a thread of its own does the rest.

The training thread writes plain attributes and queues messages, which costs it about a microsecond each. Every
`flush_interval_s` the stream's thread (`dlbench.worker.courier`) numbers what is queued, spools it to a local file,
sends it with a heartbeat, and forgets what the inbox acknowledges. A broken connection is dialled again and
everything after the last acknowledged number is sent once more; the inbox drops what it has already.
"""

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlbench import __version__
from dlbench.records.assignment import Assignment, Home
from dlbench.records.memory import oom_kills
from dlbench.records.messages import PHASES, PROTOCOL_VERSION
from dlbench.records.own_files import own_file
from dlbench.worker.courier import Courier
from dlbench.worker.failure import describe
from dlbench.worker.link import Link
from dlbench.worker.spool import Spool
from dlbench.worker.watchdog import Watchdog

# So many bytes of queued rows wake the thread early, and so many make the training thread wait for it.
WAKE_BYTES = 2**20
MOST_QUEUED_BYTES = 2**26


class Stream:
    """The way home of one process; silent and free where the assignment has no inbox.

    Attributes:
        phase: What the worker is doing, one of `messages.PHASES`.
        step: Number of the last step; likewise `epoch`, and `loss`, `accuracy`, `samples_per_s` where known.
    """

    def __init__(self, assignment: Assignment, rank: int) -> None:
        self.phase = PHASES[0]
        self.step = 0
        self.epoch = 0
        self.loss: float | None = None
        self.accuracy: float | None = None
        self.samples_per_s: float | None = None
        self._queued_bytes = self._woken_at_bytes = 0
        self._clocks = ThreadClocks()
        self._courier: Courier | None = None
        if assignment.home is not None:
            self._courier = self._open(assignment, assignment.home, rank)
            self._courier.start(self.register_thread)

    def enter(self, phase: str) -> None:
        """Set the phase and put the change on record; for the few coarse phases, not for those inside a step."""
        self.phase = phase
        self.send({"kind": "phase", "phase": phase, "at": time.time(), "monotonic": time.monotonic()})

    def send(self, message: dict[str, Any]) -> None:
        """Queue one message to be numbered, journaled and acknowledged; its values are JSON-able."""
        if self._courier is not None:
            self._courier.queue.append(message)

    def send_steps(self, rows: npt.NDArray[np.float64]) -> None:
        """Queue a copy of step rows [n, len(STEP_FIELDS)]; called by one thread only."""
        courier = self._courier
        if courier is None:
            return
        courier.queue.append({"kind": "steps", "rows": rows.copy()})
        self._queued_bytes += rows.nbytes
        if self._queued_bytes - self._woken_at_bytes > WAKE_BYTES:
            self._woken_at_bytes = self._queued_bytes
            courier.wake()
        while self._queued_bytes - courier.taken_bytes > MOST_QUEUED_BYTES:
            time.sleep(0.001)  # rows are made faster than they can be written down: memory must not grow

    def flush(self) -> None:
        """Send what is queued now, without waiting for it."""
        if self._courier is not None:
            self._courier.wake()

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything queued so far is acknowledged; return whether it is."""
        if self._courier is None:
            return True
        receipt = threading.Event()
        self._courier.queue.append(receipt)
        self._courier.wake()
        return receipt.wait(timeout_s)

    def error(self, exception: BaseException) -> None:
        """Queue what is told of the exception that ends this worker, and send it now."""
        self.send(describe(exception))
        self.flush()

    def close(self, timeout_s: float) -> bool:
        """Say goodbye as a worker that ended as it should, wait for the receipts, and hang up.

        Returns:
            Whether every message is acknowledged.
        """
        self.phase = PHASES[-1]
        self.send({"kind": "bye"})
        is_home = self.drain(timeout_s)
        self.abandon()
        return is_home

    def abandon(self) -> None:
        """Hang up without a goodbye; what is not acknowledged is forgotten."""
        courier, self._courier = self._courier, None
        if courier is not None:
            courier.finish()

    def register_thread(self) -> None:
        """Count the calling thread among dlbench's own."""
        self._clocks.add_current()

    def observer_cpu_s(self) -> float:
        """Return the CPU time of dlbench's own threads so far, in seconds."""
        return self._clocks.total_s()

    def _open(self, assignment: Assignment, home: Home, rank: int) -> Courier:
        limits = assignment.run.limits
        name = f"{assignment.attempt_id}-{rank}.spool"
        # Where there can be no file, as on a full disk, the path is one that cannot be: the spool takes to memory.
        spool = Spool(own_file(name) or Path(os.devnull, name))
        hello = {
            "kind": "hello",
            "token": home.token,
            "attempt_id": assignment.attempt_id,
            "worker": rank,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "version": PROTOCOL_VERSION,
            "oom_kills": oom_kills(),
            "dlbench_version": __version__,
        }
        link = Link(home, hello, spool, silence_s=limits.orphan_timeout_s / 2)
        return Courier(spool, link, Watchdog(limits), self._heartbeat, limits.flush_interval_s)

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


class ThreadClocks:
    """CPU clocks of threads, readable from any thread, also after they ended."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def add_current(self) -> None:
        """Add the calling thread."""
        self._seconds[time.pthread_getcpuclockid(threading.get_ident())] = 0.0

    def total_s(self) -> float:
        """Return the CPU time of all of them; of one that ended, as it was when last read."""
        for clock in list(self._seconds):
            try:
                self._seconds[clock] = time.clock_gettime(clock)
            except OSError:  # the thread has ended
                continue
        return sum(self._seconds.values())
