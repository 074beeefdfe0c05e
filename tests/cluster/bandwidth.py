"""The bandwidth between two hosts: one TCP connection, timed where it arrives.

It also runs by its path inside the hosts, and needs nothing but Python there: `bandwidth.py receive ADDRESS SKIPPED`,
and `bandwidth.py send ADDRESS BYTES`.
"""

import json
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.host import Host

PORT = 29_500
_PROGRAM = [sys.executable, "-I", __file__]
_BLOCK = 1 << 20
_SILENCE_S = 60.0
_POLL_S = 0.01


def bandwidth_bits_per_s(sender: "Host", receiver: "Host", num_bytes: int = 32 << 20, skipped: int = 8 << 20) -> float:
    """Return how fast bytes come from one host to another.

    Args:
        sender: Where they come from.
        receiver: Where they are counted and timed.
        num_bytes: How many are sent, in whole MiB.
        skipped: How many of them come before the clock starts: well over what a limiter lets through at once.
    """
    answer = receiver.folder / "tmp" / "bandwidth.json"
    answer.unlink(missing_ok=True)
    with receiver.start([*_PROGRAM, "receive", receiver.address, str(skipped)], output=answer):
        sender.run([*_PROGRAM, "send", receiver.address, str(num_bytes)])
    return float(json.loads(Path(answer).read_text()))


def receive(address: str, skipped: int) -> None:
    """Print the bits per second of a connection from the skipped bytes on."""
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
    json.dump(8 * (count - counted_before) / (time.perf_counter() - started), sys.stdout)


def send(address: str, num_bytes: int) -> None:
    """Send so many bytes as soon as the other host listens."""
    deadline = time.monotonic() + _SILENCE_S
    while True:
        try:
            connection = socket.create_connection((address, PORT), timeout=_SILENCE_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
    with connection:
        for _ in range(num_bytes // _BLOCK):
            connection.sendall(bytes(_BLOCK))


if __name__ == "__main__":
    role, where, number = sys.argv[1:]
    {"receive": receive, "send": send}[role](where, int(number))
