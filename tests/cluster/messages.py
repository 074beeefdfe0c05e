"""How long messages take from one host to another, by size: each after a pause, with a byte back when it is there.

It also runs by its path inside the hosts, and needs nothing but Python there: `messages.py receive ADDRESS PORT`, and
`messages.py send ADDRESS PORT NUMBER PAUSE_S SIZE...`.
"""

import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.host import Host

PORT = 29_600
_PROGRAM = [sys.executable, "-I", __file__]
_SILENCE_S = 60.0
_POLL_S = 0.01
_LENGTH = struct.Struct("!q")


def message_times_s(
    pairs: Sequence[tuple["Host", "Host"]], sizes: Sequence[int], number: int = 9, pause_s: float = 0.05
) -> list[dict[int, float]]:
    """Return the median time of a message of each size between each pair of hosts, all pairs at once.

    Args:
        pairs: Sender and receiver.
        sizes: Bytes of the messages.
        number: How many of each size are sent.
        pause_s: How long the link is idle before each.

    Returns:
        For each pair, seconds by size, from the call that sends to the byte that comes back: what the link takes and
        what the processors need to wake, which is some 0.1 ms of a quiet machine.
    """
    with ExitStack() as stack:
        senders = []
        for place, (sender, receiver) in enumerate(pairs):
            where = [receiver.address, str(PORT + place)]
            stack.enter_context(receiver.start([*_PROGRAM, "receive", *where], output=receiver.folder / "messages.log"))
            words = [*_PROGRAM, "send", *where, str(number), str(pause_s), *map(str, sizes)]
            command = sender.entering(words)
            senders.append(stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
        answers = [json.loads(one.communicate(timeout=_SILENCE_S)[0]) for one in senders]
    return [{size: times[str(size)] for size in sizes} for times in answers]


def receive(address: str, port: int) -> None:
    """Answer each message of one connection with a byte."""
    with socket.create_server((address, port)) as server:
        server.settimeout(_SILENCE_S)
        connection, _ = server.accept()
    buffer = bytearray(1 << 20)
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(head := connection.recv(_LENGTH.size, socket.MSG_WAITALL)) == _LENGTH.size:
            (left,) = _LENGTH.unpack(head)
            while left:
                left -= connection.recv_into(buffer, min(left, len(buffer))) or left
            connection.sendall(b"k")


def send(address: str, port: int, number: int, pause_s: float, sizes: Sequence[int]) -> None:
    """Print the median time of the messages of each size, in seconds, as JSON."""
    deadline = time.monotonic() + _SILENCE_S
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=_SILENCE_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
    found = {}
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in sizes:
            message, times = _LENGTH.pack(size) + bytes(size), []
            for _ in range(number):
                time.sleep(pause_s)
                started = time.perf_counter()
                connection.sendall(message)
                connection.recv(1)
                times.append(time.perf_counter() - started)
            found[size] = median(times)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    role, where, door, *rest = sys.argv[1:]
    if role == "receive":
        receive(where, int(door))
    else:
        send(where, int(door), int(rest[0]), float(rest[1]), list(map(int, rest[2:])))
