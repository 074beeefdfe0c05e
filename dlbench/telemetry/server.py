"""The telemetry server: one thread takes the lines of every worker and acknowledges what is on disk.

The protocol is described in `dlbench.telemetry.messages`. All that has arrived from all workers by one turn of the
thread is forced to disk at once, so that the cost of a turn hardly depends on how many workers there are.

Anyone who reaches the port may connect. Until its hello is accepted a connection is a stranger: strangers are served
after workers, have some kilobytes and seconds each, and their number is limited: the oldest goes first. A limited
number is let in within a tick, in the order of arrival, so that no caller can be so fast that a worker is passed over;
those that have gone again are not counted.
"""

import contextlib
import os
import resource
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from dlbench.errors import UserError
from dlbench.records.assignment import Assignment, Endpoint
from dlbench.records.interfaces import route_out
from dlbench.telemetry import messages
from dlbench.telemetry.attempt_session import AttemptSession
from dlbench.telemetry.messages import CODE_LENGTH, Seal, new_nonce

_LOCAL = "127.0.0.1"
_EVERYWHERE = ""
# All workers of a run connect at about the same time.
_BACKLOG = 4096
# A line of steps holds at most some thousands of rows; a hello a few hundred bytes.
_LONGEST_LINE = 64 * 2**20
_LONGEST_HELLO = 4 * 2**10
_HELLO_TIMEOUT_S = 10.0
_RECEIVE_BYTES = 2**20
_TICK_S = 0.25
_THREAD_TIMEOUT_S = 10.0
# Besides as many as workers are still to connect: how many strangers are held, and how many are let in within one tick.
_MOST_STRANGERS = 128
_MOST_ACCEPTED = 75
# How many that have gone before they were let in are cleared away within one tick.
_MOST_GONE = 1000
# The first field of struct tcp_info where the other side has closed: TCP_CLOSE and TCP_CLOSE_WAIT.
_GONE = (7, 8)
# Descriptors for everything but workers: logs, journals, the launcher, strangers.
_OTHER_DESCRIPTORS = 256 + _MOST_STRANGERS


@dataclass(eq=False)
class _Connection:
    """One socket: a stranger until its hello is accepted; from then on it has seals, of what comes and of what goes."""

    socket: socket.socket
    nonce: str = field(default_factory=new_nonce)
    opened_at: float = field(default_factory=time.monotonic)
    session: AttemptSession | None = None
    rank: int = -1
    seals: tuple[Seal, Seal] | None = None
    received_bytes: int = 0
    pieces: list[bytes] = field(default_factory=list)
    pending_bytes: int = 0
    to_send: bytes = b""

    def lines(self, data: bytes) -> list[bytes]:
        """Return the lines completed by new data; what is left waits for its end.

        Raises:
            ConnectionError: A line is too long, or a stranger says too much.
        """
        self.received_bytes += len(data)
        if self.session is None and self.received_bytes > _LONGEST_HELLO:
            raise ConnectionError("a stranger that says no hello")
        head, newline, remainder = data.rpartition(b"\n")
        if newline:
            done = (b"".join(self.pieces) + head).split(b"\n")
            self.pieces, self.pending_bytes = [], 0
        else:
            done, remainder = [], data
        if remainder:
            self.pieces.append(remainder)
            self.pending_bytes += len(remainder)
        if self.pending_bytes > _LONGEST_LINE:
            raise ConnectionError("an over-long line")
        return done


class TelemetryServer:
    """Takes in what workers send, for any number of attempts at once; one for each dlbench process.

    Args:
        hosts: Addresses of all hosts that workers may connect from; it listens beyond this machine only if it has to.

    Raises:
        UserError: No port is free.
    """

    def __init__(self, hosts: Sequence[str] = ("localhost",)) -> None:
        is_local = set(hosts) <= {"localhost", _LOCAL, socket.gethostname()}
        self._address = _LOCAL if is_local else own_address(hosts)
        self._listener = _listener(_EVERYWHERE if self._address == _own_name() else self._address)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        # In order of arrival.
        self._strangers: dict[_Connection, None] = {}
        self._is_listening, self._may_accept, self._may_clear, self._tick_at = True, _MOST_ACCEPTED, _MOST_GONE, 0.0
        self._workers: dict[tuple[AttemptSession, int], _Connection] = {}
        self._sessions: dict[str, AttemptSession] = {}
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._lock = threading.RLock()
        self._is_closing = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="telemetry-server", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def endpoint(self) -> Endpoint:
        """Return where the workers of one attempt connect to, with its own token."""
        return Endpoint(address=self._address, port=self._listener.getsockname()[1], token=secrets.token_hex(16))

    def expect(self, assignment: Assignment, journal: Path) -> AttemptSession:
        """Let the workers of an attempt in; what they send is appended to `journal`.

        Raises:
            OSError: The journal cannot be opened.
            UserError: This process may not open as many connections as the attempt has workers.
        """
        _allow_descriptors(len(assignment.layout.places) + _OTHER_DESCRIPTORS)
        session = AttemptSession(assignment, journal, self._end)
        with self._lock:
            self._sessions[assignment.attempt_id] = session
            self._may_accept += session.num_workers
        return session

    def __exit__(self, *_: object) -> None:
        self._is_closing = True
        self._wake_writer.send(b"x")
        self._thread.join(_THREAD_TIMEOUT_S)
        for session in list(self._sessions.values()):
            self._end(session)
        for connection in list(self._strangers):
            self._drop(connection)
        for open_socket in (self._listener, self._wake_reader, self._wake_writer):
            open_socket.close()
        self._selector.close()

    def drop_connections(self, session: AttemptSession) -> None:
        """Close the connections of an attempt; its workers connect again if the attempt goes on."""
        with self._lock:
            for connection in [connected for (owner, _), connected in self._workers.items() if owner is session]:
                self._drop(connection)

    def _end(self, session: AttemptSession) -> None:
        with self._lock:
            if self._sessions.pop(session.attempt_id, None) is not None:
                self.drop_connections(session)
                session.journal.close()

    def _serve(self) -> None:
        while not self._is_closing:
            ready = self._selector.select(max(0.0, self._tick_at + _TICK_S - time.monotonic()))
            with self._lock:
                for key, events in sorted(ready, key=_is_of_stranger):
                    self._handle(key, events)
                self._commit()
                self._tick()

    def _handle(self, key: selectors.SelectorKey, events: int) -> None:
        if key.fileobj is self._listener:
            self._accept()
        elif isinstance(key.data, _Connection) and key.data.socket.fileno() >= 0:
            try:
                self._talk(key.data, events)
            except (OSError, ValueError, RecursionError):
                self._drop(key.data)
            except Exception as error:  # noqa: BLE001 - whatever one connection does, the others go on
                if key.data.session is not None:
                    key.data.session.fail(f"a line of worker {key.data.rank} cannot be taken: {error!r}")
                self._drop(key.data)

    def _accept(self) -> None:
        """Let in waiting callers, as many as this tick may; the others wait in the kernel until the next."""
        try:
            while self._may_accept > 0 and self._may_clear > 0:
                accepted, _ = self._listener.accept()
                if _is_gone(accepted):
                    accepted.close()
                    self._may_clear -= 1
                else:
                    self._may_accept -= 1
                    self._receive_stranger(accepted)
        except (BlockingIOError, ConnectionError):  # no caller waits, or one that waited is gone
            return
        except OSError:  # no descriptor, no memory: what is open goes on
            self._may_accept = 0
        self._selector.unregister(self._listener)
        self._is_listening = False

    def _receive_stranger(self, accepted: socket.socket) -> None:
        connection = _Connection(accepted)
        self._strangers[connection] = None
        self._selector.register(accepted, selectors.EVENT_READ, connection)
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send(connection, b'{"nonce":"%b"}\n' % connection.nonce.encode())
        except OSError:
            self._drop(connection)
        while len(self._strangers) > _MOST_STRANGERS + self._num_to_come():
            self._drop(next(iter(self._strangers)))

    def _num_to_come(self) -> int:
        """Return how many workers of all attempts are not connected."""
        return sum(session.num_workers for session in self._sessions.values()) - len(self._workers)

    def _tick(self) -> None:
        """Every `_TICK_S`: let in again, and drop strangers that are silent."""
        now = time.monotonic()
        if now < self._tick_at + _TICK_S:
            return
        self._tick_at, self._may_accept, self._may_clear = now, _MOST_ACCEPTED + self._num_to_come(), _MOST_GONE
        if not self._is_listening:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._is_listening = True
        for connection in [stranger for stranger in self._strangers if stranger.opened_at < now - _HELLO_TIMEOUT_S]:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if connection.socket.fileno() < 0:
            return
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._strangers.pop(connection, None)
        if connection.session is not None:
            del self._workers[connection.session, connection.rank]
            connection.session.disconnected(connection.rank)

    def _talk(self, connection: _Connection, events: int) -> None:
        """Send what waits, and read what has arrived.

        Raises:
            ConnectionError: The other side is gone, or says what it must not.
            ValueError: A stranger does not speak the protocol.
        """
        if events & selectors.EVENT_WRITE:
            self._send(connection, b"")
        if not events & selectors.EVENT_READ:
            return
        num_bytes = connection.socket.recv_into(self._buffer, 0 if connection.session else _LONGEST_HELLO + 1)
        if not num_bytes:
            raise ConnectionError("closed")
        lines = connection.lines(bytes(self._buffer[:num_bytes]))
        if connection.session is None and lines:
            self._greet(connection, lines.pop(0))
        if connection.session is not None and connection.seals is not None and lines:
            connection.session.receive(connection.rank, [connection.seals[0].opened(line) for line in lines])

    def _commit(self) -> None:
        """Force to disk what has arrived in this turn, and acknowledge it."""
        for session in self._sessions.values():
            for rank, number in session.commit().items():
                if connection := self._workers.get((session, rank)):
                    self._acknowledge(connection, number)

    def _greet(self, connection: _Connection, line: bytes) -> None:
        """Accept a hello that is sealed with the token of an expected attempt.

        Raises:
            ConnectionError: It is not.
            ValueError: It is no hello.
        """
        hello = messages.decode(line[CODE_LENGTH:])
        session = self._sessions.get(str(hello.get("attempt_id")))
        if hello.get("kind") != "hello" or session is None or not session.admits(hello):
            raise ConnectionError("a stranger")
        seals = Seal.pair(session.token, connection.nonce, hello["nonce"])
        seals[0].opened(line)
        session.require_version(hello)
        rank = int(hello["worker"])
        if older := self._workers.get((session, rank)):
            self._drop(older)  # a worker connects again when it has lost us, which we may not have noticed
        self._strangers.pop(connection, None)
        connection.session, connection.rank, connection.seals = session, rank, seals
        self._workers[session, rank] = connection
        self._acknowledge(connection, session.connected(hello))

    def _acknowledge(self, connection: _Connection, number: int) -> None:
        assert connection.seals is not None, "it is no stranger"
        try:
            self._send(connection, connection.seals[1].sealed(b'{"ack":%d}\n' % number))
        except OSError:
            self._drop(connection)

    def _send(self, connection: _Connection, data: bytes) -> None:
        waited = bool(connection.to_send)
        connection.to_send += data
        if len(connection.to_send) > _RECEIVE_BYTES:
            raise ConnectionError("nothing reads the acknowledgements")
        with contextlib.suppress(BlockingIOError):
            connection.to_send = connection.to_send[connection.socket.send(connection.to_send) :]
        if waited != bool(connection.to_send):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.to_send else 0)
            self._selector.modify(connection.socket, events, connection)


def _is_gone(connection: socket.socket) -> bool:
    """Return whether the other side has closed it already, whatever it has sent before."""
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _GONE
    except OSError:
        return False


def _listener(address: str) -> socket.socket:
    """Return a socket that listens on a port the kernel gives.

    Raises:
        UserError: It gives none.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, 0), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UserError(
            f"workers cannot connect: no port of this machine is free ({os.strerror(error.errno or 0)})",
            hint="`ss -tan` shows who has them, `sysctl net.ipv4.ip_local_port_range` which there are",
        ) from error


def _allow_descriptors(wanted: int) -> None:
    """Raise this process's limit of open files where it is below `wanted`.

    Raises:
        UserError: It may not be raised so far.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except ValueError as error:
            raise UserError(
                f"each worker needs a connection, and this process may open {hard} files only, not {wanted}",
                hint="raise the hard limit of open files (`ulimit -Hn`)",
            ) from error


def own_address(hosts: Sequence[str]) -> str:
    """Return the address of this machine on the route to other hosts, or its name where there is no route (yet).

    Raises:
        UserError: It has no name but that of loopback.
    """
    if route := route_out(hosts, socket.AF_INET) or route_out(hosts, socket.AF_INET6):
        return route.own
    if name := _own_name():
        return name
    raise UserError(
        f"workers on {', '.join(hosts)} cannot connect: none has a route here, and this machine is called localhost",
        hint="name the hosts by their addresses, or give this machine a name that they know (`hostnamectl hostname`)",
    )


def _own_name() -> str:
    """Return the name that other hosts may call this machine by; none where it is that of loopback."""
    names = socket.getfqdn(), socket.gethostname()
    return next((name for name in names if name.partition(".")[0] != "localhost"), "")


def _is_of_stranger(ready: tuple[selectors.SelectorKey, int]) -> bool:
    """Whether what is ready is a stranger, or the listener: they come after workers."""
    key, _ = ready
    return not isinstance(key.data, _Connection) or key.data.session is None
