"""The server of the way home: one thread takes the lines of every worker and acknowledges what is on disk.

The protocol is written down in `dlbench.records.messages`.
"""

import contextlib
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from dlbench.errors import UserError
from dlbench.launch.reception import Reception
from dlbench.records import messages
from dlbench.records.assignment import Assignment, Home

_LOCAL = "127.0.0.1"
_EVERYWHERE = ""
# A line of steps holds at most some thousands of rows; a hello a few hundred bytes.
_LONGEST_LINE = 64 * 2**20
_LONGEST_HELLO = 16 * 2**10
_HELLO_TIMEOUT_S = 10.0
_RECEIVE_BYTES = 2**20
_TICK_S = 0.25
_THREAD_TIMEOUT_S = 10.0


@dataclass(eq=False)
class _Connection:
    """One socket: a stranger until its hello is accepted."""

    socket: socket.socket
    opened_at: float = field(default_factory=time.monotonic)
    reception: Reception | None = None
    rank: int = -1
    pieces: list[bytes] = field(default_factory=list)
    pending_bytes: int = 0
    to_send: bytes = b""

    def lines(self, data: bytes) -> list[bytes]:
        """Return the lines completed by new data; what is left waits for its end.

        Raises:
            ConnectionError: A line is too long.
        """
        head, newline, rest = data.rpartition(b"\n")
        if not newline:
            head, rest = b"", data
        done = (b"".join(self.pieces) + head).split(b"\n") if newline else []
        if newline:
            self.pieces, self.pending_bytes = [], 0
        self.pieces.append(rest)
        self.pending_bytes += len(rest)
        if self.pending_bytes > (_LONGEST_LINE if self.reception else _LONGEST_HELLO):
            raise ConnectionError("an over-long line")
        return [line for line in done if line.strip()]


class Inbox:
    """Takes in what workers send, for any number of attempts at once; one for each dlbench process.

    Args:
        hosts: Addresses of all hosts that workers may call from; it listens beyond this machine only if it has to.

    Raises:
        UserError: No port is free.
    """

    def __init__(self, hosts: Sequence[str] = ("localhost",)) -> None:
        is_local = set(hosts) <= {"localhost", _LOCAL, socket.gethostname()}
        self._listener = _listener(_LOCAL if is_local else _EVERYWHERE)
        self._listener.setblocking(False)
        self._address = _LOCAL if is_local else own_address(hosts)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._connections: set[_Connection] = set()
        self._receptions: dict[str, Reception] = {}
        self._lock = threading.RLock()
        self._is_closing = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="inbox", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def home(self) -> Home:
        """Return the way home for one attempt, with a token of its own."""
        return Home(address=self._address, port=self._listener.getsockname()[1], token=secrets.token_hex(16))

    def expect(self, assignment: Assignment, journal: Path) -> Reception:
        """Let the workers of an attempt in; what they send is appended to `journal`.

        Raises:
            OSError: The journal cannot be opened.
        """
        reception = Reception(assignment, journal, self._dismiss)
        with self._lock:
            self._receptions[assignment.attempt_id] = reception
        return reception

    def close(self) -> None:
        """Close every connection, the listener and the journals."""
        self._is_closing = True
        self._wake_writer.send(b"x")
        self._thread.join(_THREAD_TIMEOUT_S)
        for reception in list(self._receptions.values()):
            self._dismiss(reception)
        for connection in list(self._connections):
            self._drop(connection)
        for open_socket in (self._listener, self._wake_reader, self._wake_writer):
            open_socket.close()
        self._selector.close()

    def _dismiss(self, reception: Reception) -> None:
        with self._lock:
            if self._receptions.pop(reception.attempt_id, None) is None:
                return
            for connection in [c for c in self._connections if c.reception is reception]:
                self._drop(connection)
            reception.shut()

    def _serve(self) -> None:
        while not self._is_closing:
            ready = self._selector.select(_TICK_S)
            with self._lock:
                for key, events in ready:
                    self._handle(key, events)
                self._drop_silent_strangers()

    def _handle(self, key: selectors.SelectorKey, events: int) -> None:
        if key.fileobj is self._listener:
            self._accept()
        elif isinstance(key.data, _Connection) and key.data in self._connections:
            try:
                self._talk(key.data, events)
            except (OSError, ValueError, RecursionError):
                self._drop(key.data)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = self._listener.accept()
            accepted.setblocking(False)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(accepted)
            self._connections.add(connection)
            self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _drop_silent_strangers(self) -> None:
        oldest = time.monotonic() - _HELLO_TIMEOUT_S
        for connection in [c for c in self._connections if c.reception is None and c.opened_at < oldest]:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.socket.close()
        if connection.reception is not None:
            connection.reception.farewell(connection.rank)

    def _talk(self, connection: _Connection, events: int) -> None:
        """Send what waits; read all that has arrived, keep it as one group, and acknowledge it.

        Raises:
            ConnectionError: The other side is gone, or says what it must not.
            ValueError: A stranger does not speak our language.
        """
        if events & selectors.EVENT_WRITE:
            self._send(connection, b"")
        if not events & selectors.EVENT_READ:
            return
        data = connection.socket.recv(_RECEIVE_BYTES)
        if not data:
            raise ConnectionError("closed")
        lines = connection.lines(data)
        if connection.reception is None and lines:
            self._greet(connection, lines.pop(0))
        if connection.reception is not None and lines:
            number = connection.reception.take(connection.rank, _messages(lines))
            if number is not None:
                self._send(connection, messages.encode({"ack": number}))

    def _greet(self, connection: _Connection, line: bytes) -> None:
        """Accept a hello that carries the token of an attempt we expect.

        Raises:
            ConnectionError: It does not.
        """
        hello = messages.decode(line)
        reception = self._receptions.get(str(hello.get("attempt_id")))
        if hello.get("kind") != "hello" or reception is None or not reception.admits(hello):
            raise ConnectionError("a stranger")
        rank = int(hello["worker"])
        for older in [c for c in self._connections if c.reception is reception and c.rank == rank]:
            self._drop(older)  # a worker calls again when it has lost us, which we may not have noticed
        connection.reception, connection.rank = reception, rank
        number = reception.welcome(hello)
        self._send(connection, messages.encode({"ack": number}))

    def _send(self, connection: _Connection, data: bytes) -> None:
        connection.to_send += data
        if len(connection.to_send) > _RECEIVE_BYTES:
            raise ConnectionError("nobody reads what we answer")
        try:
            sent = connection.socket.send(connection.to_send)
        except BlockingIOError:
            sent = 0
        connection.to_send = connection.to_send[sent:]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.to_send else 0)
        self._selector.modify(connection.socket, events, connection)


def _listener(address: str) -> socket.socket:
    """Return a socket that listens on a port the kernel gives.

    Raises:
        UserError: It gives none.
    """
    try:
        return socket.create_server((address, 0), backlog=512)
    except OSError as error:
        raise UserError(
            f"workers cannot call home: no port of this machine is free ({os.strerror(error.errno or 0)})",
            hint="`ss -tan` shows who has them, `sysctl net.ipv4.ip_local_port_range` which there are",
        ) from error


def own_address(hosts: Sequence[str]) -> str:
    """Return the address of this machine on its way to other hosts, or its name where there is no such way (yet)."""
    for host in hosts:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            # Nothing is sent: the kernel only looks for the way.
            asked.connect((host, 9))
            address = str(asked.getsockname()[0])
            if not address.startswith("127."):
                return address
    return socket.getfqdn()


def _messages(lines: list[bytes]) -> list[tuple[bytes, dict[str, Any]]]:
    """Return the messages of lines; garbage is left out."""
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            found.append((line, messages.decode(line)))
    return found
