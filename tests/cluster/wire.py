"""How fast the wire between two hosts is: one TCP connection, timed where it arrives.

It runs by its path inside the hosts, and needs nothing but Python: `wire.py receive ADDRESS SKIPPED`, and
`wire.py send ADDRESS BYTES`.
"""

import json
import socket
import sys
import time

PORT = 29_500
_BLOCK = 1 << 20
_CONNECT_S = 60.0
_SILENCE_S = 60.0
_POLL_S = 0.01


def receive(address: str, skipped: int) -> None:
    """Print the bytes and the seconds of a connection from the skipped bytes on."""
    with socket.create_server((address, PORT)) as server:
        server.settimeout(_SILENCE_S)
        connection, _ = server.accept()
    connection.settimeout(_SILENCE_S)
    block, count, started, counted_before = bytearray(_BLOCK), 0, 0.0, 0
    with connection:
        while size := connection.recv_into(block):
            count += size
            if not started and count >= skipped:
                started, counted_before = time.perf_counter(), count
    if not started:
        raise ConnectionError(f"{count} bytes came where {skipped} were to be left out")
    json.dump({"num_bytes": count - counted_before, "seconds": time.perf_counter() - started}, sys.stdout)


def send(address: str, num_bytes: int) -> None:
    """Send so many bytes as soon as somebody listens."""
    block = bytes(_BLOCK)
    with _connected(address) as connection:
        for _ in range(num_bytes // _BLOCK):
            connection.sendall(block)


def _connected(address: str) -> socket.socket:
    deadline = time.monotonic() + _CONNECT_S
    while True:
        try:
            return socket.create_connection((address, PORT), timeout=_SILENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


if __name__ == "__main__":
    role, where, number = sys.argv[1:]
    {"receive": receive, "send": send}[role](where, int(number))
