"""The thread that carries a worker's messages home: numbers them, spools them, sends them, waits for their receipt."""

import contextlib
import os
import select
import threading
import traceback
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from dlbench.records.messages import encode, encode_steps
from dlbench.worker.link import Link
from dlbench.worker.spool import Spool
from dlbench.worker.watchdog import Watchdog

# A worker that cannot send its rows must not train on as if it did.
FAILED_EXIT_CODE = 82

Message = dict[str, Any]


class Courier:
    """Owns spool, link and watchdog; everything but `wake`, `finish` and `queue` belongs to its thread.

    Args:
        spool: Where lines wait for their acknowledgement.
        link: The connection.
        watchdog: Asked at each turn.
        heartbeat: Returns the heartbeat message of this moment.
        interval_s: Time between two turns.
    """

    def __init__(
        self, spool: Spool, link: Link, watchdog: Watchdog, heartbeat: Callable[[], Message], interval_s: float
    ) -> None:
        # A message, or an event to set once every message before it is acknowledged.
        self.queue: deque[Message | threading.Event] = deque()
        self.taken_bytes = 0
        self._spool, self._link, self._watchdog, self._heartbeat = spool, link, watchdog, heartbeat
        self._interval_s = interval_s
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._finish = threading.Event()
        self._receipts: deque[tuple[int, threading.Event]] = deque()
        self._thread = threading.Thread(target=self._run, name="dlbench-stream", daemon=True)
        os.register_at_fork(after_in_child=link.forget)

    def start(self, register: Callable[[], None]) -> None:
        """Start the thread; `register` is called in it first."""
        self._register = register
        self._thread.start()

    def wake(self) -> None:
        """Make the thread take its next turn now."""
        os.eventfd_write(self._alarm, 1)

    def finish(self) -> None:
        """End the thread; what is not acknowledged by now is forgotten."""
        self._finish.set()
        self.wake()
        self._thread.join()
        os.close(self._alarm)

    def _run(self) -> None:
        self._register()
        try:
            while not self._finish.is_set():
                self._turn()
            self._link.close()
            self._spool.close()
            self._watchdog.stop()
        except BaseException:  # noqa: BLE001 - a worker whose rows go nowhere ends, whatever the reason
            with contextlib.suppress(OSError):  # a full disk
                traceback.print_exc()
            os._exit(FAILED_EXIT_CODE)

    def _turn(self) -> None:
        """Take what is queued, send it with a heartbeat, and wait for the next turn, serving the connection."""
        self._take_queue()
        beat = self._heartbeat()
        self._watchdog.progress((beat["phase"], beat["step"]))
        self._link.beat(beat)
        until = monotonic() + self._interval_s
        while self._serve() and not self._wait(until):
            pass

    def _serve(self) -> bool:
        """Move bytes and look at what came of it; always true."""
        self._link.pump()
        self._watchdog.contact(self._link.is_open, self._link.last_error)
        while self._receipts and self._receipts[0][0] < self._spool.first:
            self._receipts.popleft()[1].set()
        return True

    def _wait(self, until: float) -> bool:
        """Wait for the connection, an alarm or the end of the turn; return whether the turn is over."""
        poll = select.poll()
        poll.register(self._alarm, select.POLLIN)
        self._link.watch(poll)
        now = monotonic()
        if now >= until:
            return True
        # A connection that is not open has a moment of its own: to dial again, or to give up waiting for an answer.
        moment = until if self._link.is_open else min(until, max(self._link.deadline, now + 0.001))
        events = poll.poll((moment - now) * 1000)
        if any(descriptor == self._alarm for descriptor, _ in events):
            os.eventfd_read(self._alarm)
            return True
        return False

    def _take_queue(self) -> None:
        """Number and spool what is queued."""
        while self.queue:
            message = self.queue.popleft()
            if isinstance(message, threading.Event):
                self._receipts.append((self._spool.last, message))
                continue
            number = self._spool.last + 1
            if message["kind"] == "steps":
                self._spool.append(encode_steps(number, message["rows"]))
                self.taken_bytes += message["rows"].nbytes
            else:
                self._spool.append(encode({"seq": number, **message}))
