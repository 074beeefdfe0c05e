"""The worker's connection to the telemetry server, and the thread that serves it.

The thread numbers what the reporter queues, spools it, sends it, and drops it when the server acknowledges it. A
broken connection is opened again and everything after the last acknowledged number is sent once more.
"""

import contextlib
import os
import random
import resource
import select
import socket
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

from dlbench.records.assignment import Endpoint
from dlbench.telemetry.messages import START_UP_PHASES, Seal, decode, encode, encode_steps, new_nonce
from dlbench.telemetry.spool import Spool
from dlbench.telemetry.watchdog import Watchdog

# A worker that cannot send its rows must not train on as if it did.
FAILED_EXIT_CODE = 82

FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 1.0
# A server that accepts and does not answer the hello for so long is given up, and connected to again: longer than a
# queue takes that strangers have filled.
HANDSHAKE_S = 20.0
CHUNK_BYTES = 2**18
# An acknowledgement is some twenty bytes; more without a line's end is not our server.
LONGEST_LINE_BYTES = 2**16
# Nothing but a process that stands still lets this thread wait for so much longer than it asked for, and sleep all the
# while: one that waits for the interpreter's lock wakes up once in a switch interval.
STANDSTILL_S, MOST_WAKES = 1.0, 0.1

Message = dict[str, Any]


class Connection:
    """The connection, or the absence of one; opened again when it breaks. Used by one thread; nothing here waits.

    Args:
        endpoint: Where the server listens.
        hello: First message on every new connection; the nonce is added.
        spool: Where lines wait for their acknowledgement.
        silence_s: Longest time a vanished host goes unnoticed while there is something to send.

    Attributes:
        spool: The same.
        is_open: Whether the server has answered the hello, and so has shown that it knows the token.
        last_error: Why it is not open.
        deadline: When to connect again, or to give up waiting for an answer to the hello (monotonic).
    """

    def __init__(self, endpoint: Endpoint, hello: Message, spool: Spool, silence_s: float) -> None:
        self.is_open = False
        self.last_error = "never connected"
        self.deadline = 0.0
        self.spool = spool
        self._endpoint, self._hello, self._silence_s = endpoint, hello, silence_s
        self._socket: socket.socket | None = None
        self._backoff_s = FIRST_BACKOFF_S
        self._random = random.Random()  # never the generator that a user's script has seeded
        self._sent = 0
        self._outgoing = memoryview(b"")
        self._incoming = self._beat = b""
        # Of this connection, once the server has sent its nonce: what is sent, and what is received.
        self._seals: tuple[Seal, Seal] | None = None

    def beat(self, message: Message) -> None:
        """Send a heartbeat with the next bytes; it overtakes lines that wait."""
        self._beat = encode(message) if self.is_open else b""

    def pump(self) -> None:
        """Connect if it is time, read what has arrived, send what can be sent; never raises for the network."""
        try:
            if self._socket is None and monotonic() >= self.deadline:
                self._connect()
            if self._socket is not None:
                self._receive(self._socket)
                self._transmit(self._socket)
                if not self.is_open and monotonic() >= self.deadline:
                    raise TimeoutError("the server accepts connections and does not answer")
        except (OSError, ValueError) as error:
            self._disconnect(f"{type(error).__name__}: {error}")

    def watch(self, poll: "select.poll") -> None:
        """Register what to wait for."""
        if self._socket is not None:
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))

    def close(self) -> None:
        """Disconnect for good; in a forked child, so that the server sees this process end when it does."""
        self._disconnect("closed")

    def _connect(self) -> None:
        self.deadline = monotonic() + HANDSHAKE_S
        family, kind, protocol, _, address = socket.getaddrinfo(
            self._endpoint.address, self._endpoint.port, type=socket.SOCK_STREAM
        )[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._silence_s * 1000))
        self._outgoing, self._incoming, self._beat, self._seals = memoryview(b""), b"", b"", None
        self._socket.connect_ex(address)

    def _disconnect(self, reason: str) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self.is_open = None, False
        self.last_error = f"{self._endpoint.address} port {self._endpoint.port}: {reason}"
        self._outgoing = memoryview(b"")
        # Never in step with the server's ticks, nor with the other workers.
        self.deadline = monotonic() + self._backoff_s * self._random.uniform(0.5, 1.0)
        self._backoff_s = min(2 * self._backoff_s, LONGEST_BACKOFF_S)

    def _receive(self, connection: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data = connection.recv(2**16)
                if not data:
                    raise ConnectionResetError("the server closed the connection")
                *lines, self._incoming = (self._incoming + data).split(b"\n")
                for line in lines:
                    self._take(line)
                if len(self._incoming) > LONGEST_LINE_BYTES:
                    raise ValueError("what answers is no telemetry server")

    def _take(self, line: bytes) -> None:
        if self._seals is None:
            self._greet(decode(line).get("nonce"))
            return
        number = decode(self._seals[1].opened(line)).get("ack")
        if not isinstance(number, int) or not 0 <= number <= self.spool.last:
            raise ValueError(f"the server acknowledges {number!r}")
        if not self.is_open:
            self.is_open, self._sent, self._backoff_s = True, number, FIRST_BACKOFF_S
        self.spool.acknowledge(number)

    def _greet(self, nonce: Any) -> None:
        """Answer the server's nonce with the hello."""
        if not isinstance(nonce, str):
            raise ValueError("what answers is no telemetry server")
        own_nonce = new_nonce()
        self._seals = Seal.pair(self._endpoint.token, nonce, own_nonce)
        self._outgoing = memoryview(self._seals[0].sealed(encode({**self._hello, "nonce": own_nonce})))

    def _transmit(self, connection: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                if not self._outgoing and self.is_open:
                    self._outgoing = memoryview(b"".join(self._next_lines()))
                if not self._outgoing:
                    return
                self._outgoing = self._outgoing[connection.send(self._outgoing) :]

    def _next_lines(self) -> Iterator[bytes]:
        """Yield the next chunk of whole lines."""
        assert self._seals is not None, "it is open"
        seal = self._seals[0]
        num_bytes = len(self._beat)
        if self._beat:
            yield seal.sealed(self._beat)
        self._beat = b""
        for line in self.spool.lines_after(self._sent):
            yield seal.sealed(line)
            self._sent += 1
            num_bytes += len(line)
            if num_bytes >= CHUNK_BYTES:
                return


class Sender:
    """The thread; it owns spool, connection and watchdog. Only `wake`, `finish` and `queue` belong to others.

    Args:
        connection: The connection, with the spool of lines that wait for their acknowledgement.
        watchdog: Called at each turn.
        heartbeat: Returns the heartbeat message of this moment.
        interval_s: Time between two turns.

    Attributes:
        queue: Messages; an event is set once every message before it is acknowledged.
        taken_bytes: Bytes of step rows taken from the queue so far.
        stood_still_s: How long this process has stood still after its start-up: a suspended job, say.
    """

    def __init__(
        self, connection: Connection, watchdog: Watchdog, heartbeat: Callable[[], Message], interval_s: float
    ) -> None:
        self.queue: deque[Message | threading.Event] = deque()
        self.taken_bytes, self.stood_still_s = 0, 0.0
        self._connection, self._spool = connection, connection.spool
        self._watchdog, self._heartbeat, self._interval_s = watchdog, heartbeat, interval_s
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._finish = threading.Event()
        self._receipts: deque[tuple[int, threading.Event]] = deque()
        os.register_at_fork(after_in_child=connection.close)

    def start(self, register: Callable[[], None]) -> None:
        """Start the thread; `register` is called in it first."""
        self._thread = threading.Thread(target=self._run, args=(register,), name="dlbench-sender", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Make the thread take its next turn now."""
        os.eventfd_write(self._alarm, 1)

    def finish(self) -> None:
        """End the thread; what is not acknowledged by now is dropped."""
        self._finish.set()
        self.wake()
        self._thread.join()
        os.close(self._alarm)

    def _run(self, register: Callable[[], None]) -> None:
        register()
        try:
            while not self._finish.is_set():
                self._turn()
            self._connection.close()
            self._spool.close()
            self._watchdog.stop()
        except BaseException:  # noqa: BLE001 - a worker whose rows go nowhere ends, whatever the reason
            with contextlib.suppress(OSError):  # a full disk
                traceback.print_exc()
            os._exit(FAILED_EXIT_CODE)

    def _turn(self) -> None:
        """Take what is queued, send it with a heartbeat, and serve the connection until the next turn."""
        self._take_queue()
        beat = self._heartbeat()
        self._watchdog.progress((beat["phase"], beat["step"]))
        self._connection.beat(beat)
        until = monotonic() + self._interval_s
        while True:
            self._connection.pump()
            self._watchdog.contact(self._connection.is_open, self._connection.last_error)
            while self._receipts and self._receipts[0][0] < self._spool.first:
                self._receipts.popleft()[1].set()
            if self._wait(until, beat["phase"]):
                return

    def _wait(self, until: float, phase: str) -> bool:
        """Wait for the connection, an alarm or the end of the turn; return whether the turn is over."""
        poll = select.poll()
        poll.register(self._alarm, select.POLLIN)
        self._connection.watch(poll)
        now = monotonic()
        if now >= until:
            return True
        moment = until if self._connection.is_open else min(until, max(self._connection.deadline, now + 0.001))
        wakes = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        events = poll.poll((moment - now) * 1000)
        late_s = monotonic() - moment
        wakes = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - wakes
        if (
            late_s > STANDSTILL_S
            and wakes < MOST_WAKES * late_s / sys.getswitchinterval()
            and phase not in START_UP_PHASES
        ):
            self.stood_still_s += late_s
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
