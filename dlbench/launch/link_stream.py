"""What is timed between two ends of a link, over one TCP connection: round trips, then a stream; needs only Python."""

import contextlib
import socket
import struct
import time
from dataclasses import dataclass
from statistics import median

_PING, _STREAM = b"p", b"s"
_BLOCK_BYTES = 256 << 10
# Whoever hears nothing for so long is alone.
_SILENCE_S = 5.0
_MOST_PINGS, _LEAST_PINGS, _PINGS_S = 500, 5, 0.15
# The first round trips of a connection find caches cold.
_COLD_PINGS = 3


@dataclass(frozen=True)
class Span:
    """A piece of a stream: so long and so many bytes at least, and so long at most, so that slow links end, too."""

    least_s: float
    least_bytes: int
    most_s: float

    def is_over(self, seconds: float, num_bytes: int) -> bool:
        """Whether it is long enough."""
        return seconds >= self.most_s or (seconds >= self.least_s and num_bytes >= self.least_bytes)


# What a limiter lets through at once (some 256 kB), and TCP's slow start, come before the clock starts.
SKIPPED = Span(least_s=0.15, least_bytes=4 << 20, most_s=0.5)
TIMED = Span(least_s=0.4, least_bytes=4 << 20, most_s=1.0)


def prepare(connection: socket.socket) -> None:
    """Have small messages leave at once, and silence end."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(_SILENCE_S)


def call(connection: socket.socket) -> float:
    """Time round trips, then stream until the other end has seen enough; return the median round trip in seconds.

    Raises:
        OSError: The other end is gone.
    """
    latency_s = _round_trip(connection)
    connection.sendall(_STREAM)
    block = bytes(_BLOCK_BYTES)
    with contextlib.suppress(ConnectionError):  # so the other end says that it has seen enough
        while True:
            connection.sendall(block)
    return latency_s


def _round_trip(connection: socket.socket) -> float:
    """Return the median time of a byte there and one back, in seconds."""
    times: list[float] = []
    end = time.perf_counter() + _PINGS_S
    while len(times) < _LEAST_PINGS + _COLD_PINGS or (len(times) < _MOST_PINGS and time.perf_counter() < end):
        started = time.perf_counter()
        connection.sendall(_PING)
        _receive_byte(connection)
        times.append(time.perf_counter() - started)
    return median(times[_COLD_PINGS:])


def answer(connection: socket.socket) -> float:
    """Answer round trips, then time what streams in; return the rate in bytes per second.

    Raises:
        OSError: The other end is gone.
    """
    while (word := _receive_byte(connection)) == _PING:
        connection.sendall(_PING)
    if word != _STREAM:
        raise ConnectionError(f"the other end says {word!r}")
    try:
        return _rate(connection)
    finally:
        # Without lingering, closing tells the sender at once, whatever is still on its way.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _rate(connection: socket.socket) -> float:
    """Return how fast bytes arrive once enough of them are skipped."""
    block = bytearray(_BLOCK_BYTES)
    began_at = opened_at = 0.0
    count = opened_count = 0
    while True:
        count += _received(connection.recv_into(block))
        now = time.perf_counter()
        began_at = began_at or now
        if not opened_at:
            if SKIPPED.is_over(now - began_at, count):
                opened_at, opened_count = now, count
        elif TIMED.is_over(now - opened_at, count - opened_count):
            return (count - opened_count) / (now - opened_at)


def _receive_byte(connection: socket.socket) -> bytes:
    word = connection.recv(1)
    _received(len(word))
    return word


def _received(num_bytes: int) -> int:
    if not num_bytes:
        raise ConnectionError("the other end has closed the connection")
    return num_bytes
