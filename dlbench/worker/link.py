"""One worker's connection to the inbox: dialled again when it breaks, replaying whatever is not acknowledged.

Nothing here waits: `pump` does what can be done at once, and the caller sleeps on `socket` and `deadline` in between.
"""

import select
import socket
from collections.abc import Iterator
from time import monotonic
from typing import Any

from dlbench.records.assignment import Home
from dlbench.records.messages import decode, encode
from dlbench.worker.spool import Spool

FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 1.0
# A server that accepts and does not answer the hello for so long is given up, and dialled again.
HANDSHAKE_S = 10.0
CHUNK_BYTES = 2**18
# An acknowledgement is some twenty bytes; more without a line's end is not our server.
LONGEST_LINE_BYTES = 2**16


class Link:
    """The connection, or the absence of one. Used by one thread.

    Args:
        home: Where the inbox listens.
        hello: First message on every new connection.
        spool: Where lines wait for their acknowledgement.
        silence_s: Longest time a vanished host goes unnoticed while there is something to send.
    """

    def __init__(self, home: Home, hello: dict[str, Any], spool: Spool, silence_s: float) -> None:
        self.is_open = False
        self.last_error = "never connected"
        self.deadline = 0.0
        self._home, self._hello, self._spool, self._silence_s = home, encode(hello), spool, silence_s
        self._socket: socket.socket | None = None
        self._backoff_s = FIRST_BACKOFF_S
        self._sent = 0
        self._outgoing = memoryview(b"")
        self._incoming = b""
        self._beat = b""

    def beat(self, message: dict[str, Any]) -> None:
        """Send a heartbeat with the next bytes that go out; it overtakes lines that wait."""
        self._beat = encode(message) if self.is_open else b""

    def pump(self) -> None:
        """Dial if it is time, take what has arrived, send what goes; never waits and never raises for the network."""
        try:
            if self._socket is None and monotonic() >= self.deadline:
                self._dial()
            if self._socket is not None:
                self._receive(self._socket)
                self._transmit(self._socket)
                self._check_handshake()
        except (OSError, ValueError) as error:
            self._hang_up(f"{type(error).__name__}: {error}")

    def watch(self, poll: "select.poll") -> None:
        """Register what to wait for."""
        if self._socket is not None:
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._outgoing else 0))

    def close(self) -> None:
        """Hang up for good."""
        self._hang_up("closed")

    def forget(self) -> None:
        """Close the descriptor in a forked child, so that the inbox sees this process end when it does."""
        if self._socket is not None:
            self._socket.close()

    def _dial(self) -> None:
        self.deadline = monotonic() + HANDSHAKE_S
        family, kind, protocol, _, address = socket.getaddrinfo(
            self._home.address, self._home.port, type=socket.SOCK_STREAM
        )[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self._silence_s * 1000))
        self._outgoing, self._incoming, self._beat = memoryview(self._hello), b"", b""
        self._socket.connect_ex(address)

    def _check_handshake(self) -> None:
        if not self.is_open and monotonic() >= self.deadline:
            raise TimeoutError("the inbox accepts connections and does not answer")

    def _hang_up(self, reason: str) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self.is_open, self.last_error = None, False, reason
        self._outgoing = memoryview(b"")
        self.deadline = monotonic() + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, LONGEST_BACKOFF_S)

    def _receive(self, connection: socket.socket) -> None:
        try:
            while True:
                data = connection.recv(2**16)
                if not data:
                    raise ConnectionResetError("the inbox closed the connection")
                *lines, self._incoming = (self._incoming + data).split(b"\n")
                for line in lines:
                    self._take(decode(line))
                if len(self._incoming) > LONGEST_LINE_BYTES:
                    raise ValueError("what answers is no inbox")
        except BlockingIOError:
            return

    def _take(self, message: dict[str, Any]) -> None:
        number = message.get("ack")
        if not isinstance(number, int) or not 0 <= number <= self._spool.last:
            raise ValueError(f"the inbox answered {message!r}")
        if not self.is_open:
            self.is_open, self._sent, self._backoff_s = True, number, FIRST_BACKOFF_S
        self._spool.acknowledge(number)

    def _transmit(self, connection: socket.socket) -> None:
        try:
            while self._outgoing or self._fill():
                self._outgoing = self._outgoing[connection.send(self._outgoing) :]
        except BlockingIOError:
            return

    def _fill(self) -> bool:
        """Take the next chunk of whole lines; return whether there is one."""
        if self.is_open:
            self._outgoing = memoryview(b"".join(self._next_lines()))
        return bool(self._outgoing)

    def _next_lines(self) -> Iterator[bytes]:
        num_bytes = len(self._beat)
        yield self._beat
        self._beat = b""
        for line in self._spool.lines_after(self._sent):
            yield line
            self._sent += 1
            num_bytes += len(line)
            if num_bytes >= CHUNK_BYTES:
                return
