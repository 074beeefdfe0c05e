"""Both ends of a TCP connection that is timed: round trips, messages, a stream. The agent runs one end on each host.

| `do` | request | answer |
| --- | --- | --- |
| route | to: a host | address, own, interface, is_loopback (`records.interfaces.Route`); empty: the name is unknown |
| address | interface: its name, or a network; empty: any | address of this host on it |
| listen | address, token | port; then, once called, bandwidth_bytes_per_s, interface |
| stop | | none: `listen` waits for no caller any more |
| call | address, port, token, own (empty: any), sizes: of messages to time | round_trip_s, messages, interface |
"""

import contextlib
import hmac
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dlbench.records.interfaces import UnknownNameError, address_on, interface_of, route_to

_PING, _MESSAGE, _STREAM, _WELCOME = b"p", b"m", b"s", b"k"
_LENGTH = struct.Struct("!q")
_BLOCK_BYTES = 256 << 10
_CONNECT_S, _CALLED_S, _SILENCE_S = 5.0, 8.0, 5.0
_MAX_PINGS, _MIN_PINGS, _PINGS_S = 500, 5, 0.15
# The first round trips of a connection find caches cold.
_COLD_PINGS = 3
# Messages follow a pause, as gradients do: a token bucket fills in it and then lets a burst through.
NUM_MESSAGES, _PAUSE_S = 7, 0.005
# Where a message takes longer, larger ones are left out.
_LONG_S = 0.05

_Answers = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class Span:
    """A part of a stream: at least this long and this many bytes, and at most that long, so that slow links end."""

    min_s: float
    min_bytes: int
    max_s: float

    def is_over(self, seconds: float, num_bytes: int) -> bool:
        """Whether it is long enough."""
        return seconds >= self.max_s or (seconds >= self.min_s and num_bytes >= self.min_bytes)


# What a limiter lets through at once (some 256 kB), and TCP's slow start, come before the clock starts.
SKIPPED = Span(min_s=0.15, min_bytes=4 << 20, max_s=0.5)
TIMED = Span(min_s=0.4, min_bytes=4 << 20, max_s=1.0)


def answers(do: str, request: dict[str, Any]) -> _Answers:
    """Yield the answers to a request.

    Raises:
        OSError: It cannot be done.
    """
    requests: dict[str, Callable[..., _Answers]] = {
        "route": _route, "address": _address, "listen": _listen, "stop": _stop, "call": _call,
    }  # fmt: skip
    return requests[do](**request)


def _route(to: str) -> _Answers:
    try:
        yield route_to(to).as_json()
    except UnknownNameError:
        yield {"address": "", "own": "", "interface": "", "is_loopback": False}


def _address(interface: str) -> _Answers:
    yield {"address": address_on(interface)}


def _listen(address: str, token: str) -> _Answers:
    """Wait for the caller that has the token, and receive what it sends; the connections of others are closed."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:  # the address only leads here, as behind a router
        server = socket.create_server(("", 0), family=family)
    with server:
        yield {"port": server.getsockname()[1]}
        deadline = time.monotonic() + _CALLED_S
        while (left_s := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([server, sys.stdin], [], [], left_s)
            if server not in ready:
                break
            connection, _ = server.accept()
            with connection:
                prepare(connection)
                if _has(connection, token):
                    connection.sendall(_WELCOME)
                    interface = interface_of(connection.getsockname()[0])
                    yield {"bandwidth_bytes_per_s": receive(connection), "interface": interface}
                    return
    raise TimeoutError(f"no caller within {_CALLED_S:g} s")


def _has(connection: socket.socket, token: str) -> bool:
    with contextlib.suppress(OSError):
        return hmac.compare_digest(connection.recv(len(token), socket.MSG_WAITALL), token.encode())
    return False


def _stop() -> _Answers:
    yield from ()


def _call(address: str, port: int, token: str, own: str, sizes: Sequence[int] = ()) -> _Answers:
    source = (own, 0) if own else None
    with socket.create_connection((address, port), timeout=_CONNECT_S, source_address=source) as connection:
        prepare(connection)
        connection.sendall(token.encode())
        if connection.recv(1) != _WELCOME:
            raise ConnectionError("the other end refuses the connection")
        interface = interface_of(connection.getsockname()[0])
        round_trip_s, messages = send(connection, sizes)
        yield {"round_trip_s": round_trip_s, "messages": messages, "interface": interface}


def prepare(connection: socket.socket) -> None:
    """Have small messages leave at once, and silence raise an error."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(_SILENCE_S)


def send(connection: socket.socket, sizes: Sequence[int] = ()) -> tuple[float, list[tuple[int, float, float]]]:
    """Time round trips and messages, then stream until the other end closes.

    Args:
        connection: The connection.
        sizes: Bytes of the messages, from small to large.

    Returns:
        The median round trip in seconds, and what messages took (see `_message_times`).

    Raises:
        OSError: The other end is gone.
    """
    round_trip_s, messages = _round_trip(connection), _message_times(connection, sizes)
    connection.sendall(_STREAM)
    block = bytes(_BLOCK_BYTES)
    with contextlib.suppress(ConnectionError):  # the other end has seen enough
        while True:
            connection.sendall(block)
    return round_trip_s, messages


def _message_times(connection: socket.socket, sizes: Sequence[int]) -> list[tuple[int, float, float]]:
    """Return size, median and least time of messages: until a byte comes back, less the least time of one byte."""
    measured: list[tuple[int, float, float]] = []
    for size in (1, *sizes) if sizes else ():
        message, times = _MESSAGE + _LENGTH.pack(size) + bytes(size), []
        for _ in range(NUM_MESSAGES):
            time.sleep(_PAUSE_S)
            times.append(_answered_after_s(connection, message))
        measured.append((size, median(times), min(times)))
        if min(times) > _LONG_S:
            break
    latency_s = measured[0][2] if measured else 0.0
    return [(size, typical_s - latency_s, least_s - latency_s) for size, typical_s, least_s in measured[1:]]


def _round_trip(connection: socket.socket) -> float:
    """Return the median time of one byte there and one back, in seconds."""
    times: list[float] = []
    end = time.perf_counter() + _PINGS_S
    while len(times) < _MIN_PINGS + _COLD_PINGS or (len(times) < _MAX_PINGS and time.perf_counter() < end):
        times.append(_answered_after_s(connection, _PING))
    return median(times[_COLD_PINGS:])


def _answered_after_s(connection: socket.socket, message: bytes) -> float:
    started = time.perf_counter()
    connection.sendall(message)
    _receive_byte(connection)
    return time.perf_counter() - started


def receive(connection: socket.socket) -> float:
    """Answer round trips and messages, then time what streams in; return the rate in bytes per second.

    Raises:
        OSError: The other end is gone.
    """
    while (word := _receive_byte(connection)) in (_PING, _MESSAGE):
        if word == _MESSAGE:
            _take_message(connection)
        connection.sendall(_PING)
    if word != _STREAM:
        raise ConnectionError(f"the other end sends {word!r}")
    try:
        return _rate(connection)
    finally:
        # Without lingering, closing reaches the sender at once, whatever is still on its way.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _rate(connection: socket.socket) -> float:
    """Return how fast bytes arrive once enough of them are skipped."""
    block = bytearray(_BLOCK_BYTES)
    began_at = opened_at = 0.0
    count = opened_count = 0
    while True:
        count += _checked(connection.recv_into(block))
        now = time.perf_counter()
        began_at = began_at or now
        if not opened_at:
            if SKIPPED.is_over(now - began_at, count):
                opened_at, opened_count = now, count
        elif TIMED.is_over(now - opened_at, count - opened_count):
            return (count - opened_count) / (now - opened_at)


def _take_message(connection: socket.socket) -> None:
    head = connection.recv(_LENGTH.size, socket.MSG_WAITALL)
    _checked(len(head) == _LENGTH.size)
    (left,) = _LENGTH.unpack(head)
    block = bytearray(_BLOCK_BYTES)
    while left:
        left -= _checked(connection.recv_into(block, min(left, _BLOCK_BYTES)))


def _receive_byte(connection: socket.socket) -> bytes:
    word = connection.recv(1)
    _checked(len(word))
    return word


def _checked(num_bytes: int) -> int:
    if not num_bytes:
        raise ConnectionError("the other end has closed the connection")
    return num_bytes
