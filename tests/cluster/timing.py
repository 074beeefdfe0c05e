"""How fast a stream of TCP comes from one host to another, and how long messages take there by their size.

It also runs by its path inside the hosts, and needs nothing but Python there: `timing.py ROLE ADDRESS PORT NUMBERS...`.
"""

import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.host import Host

PORT = 29_500
_PROGRAM = [sys.executable, "-I", __file__]
_BLOCK = 1 << 20
_SILENCE_S = 60.0
_POLL_S = 0.01
_LENGTH = struct.Struct("!q")


def bandwidth_bits_per_s(sender: "Host", receiver: "Host", num_bytes: int = 32 << 20, skipped: int = 8 << 20) -> float:
    """Return how fast bytes come from one host to another, timed where they arrive.

    Args:
        sender: Where they come from.
        receiver: Where they are counted and timed.
        num_bytes: How many are sent, in whole MiB.
        skipped: How many of them come before the clock starts: well over what a limiter lets through at once.
    """
    answer = receiver.folder / "tmp" / "bandwidth.json"
    answer.unlink(missing_ok=True)
    where = [receiver.address, str(PORT)]
    with receiver.start([*_PROGRAM, "receive-stream", *where, str(skipped)], output=answer):
        sender.run([*_PROGRAM, "send-stream", *where, str(num_bytes)])
    return float(json.loads(Path(answer).read_text()))


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
        for place, (sender, receiver) in enumerate(pairs, start=1):
            where = [receiver.address, str(PORT + place)]
            receiving = [*_PROGRAM, "receive-messages", *where]
            stack.enter_context(receiver.start(receiving, output=receiver.folder / "messages.log"))
            words = [*_PROGRAM, "send-messages", *where, str(number), str(pause_s), *map(str, sizes)]
            command = sender.entering(words)
            senders.append(stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
        answers = [json.loads(process.communicate(timeout=_SILENCE_S)[0]) for process in senders]
    return [{size: times[str(size)] for size in sizes} for times in answers]


def accepted(address: str, port: int) -> socket.socket:
    """Return the one connection that comes."""
    with socket.create_server((address, port)) as server:
        server.settimeout(_SILENCE_S)
        connection, _ = server.accept()
    connection.settimeout(_SILENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def connected(address: str, port: int) -> socket.socket:
    """Return a connection to the other host, as soon as that listens."""
    deadline = time.monotonic() + _SILENCE_S
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=_SILENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def receive_stream(connection: socket.socket, skipped: int) -> float:
    """Return the bits per second of a connection from the skipped bytes on."""
    block, count, started, counted_before = bytearray(_BLOCK), 0, 0.0, 0
    while size := connection.recv_into(block):
        count += size
        if not started and count >= skipped:
            started, counted_before = time.perf_counter(), count
    if not started:
        raise ConnectionError(f"{count} bytes came where {skipped} were to be left out")
    return 8 * (count - counted_before) / (time.perf_counter() - started)


def receive_messages(connection: socket.socket) -> None:
    """Answer each message with a byte."""
    block = bytearray(_BLOCK)
    while len(head := connection.recv(_LENGTH.size, socket.MSG_WAITALL)) == _LENGTH.size:
        (left,) = _LENGTH.unpack(head)
        while left:
            left -= connection.recv_into(block, min(left, len(block))) or left
        connection.sendall(b"k")


def send_messages(connection: socket.socket, number: int, pause_s: float, sizes: Sequence[int]) -> dict[int, float]:
    """Return the median time of the messages of each size, in seconds."""
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for size in sizes:
        message = _LENGTH.pack(size) + bytes(size)
        for _ in range(number):
            time.sleep(pause_s)
            started = time.perf_counter()
            connection.sendall(message)
            connection.recv(1)
            times[size].append(time.perf_counter() - started)
    return {size: median(of_size) for size, of_size in times.items()}


def main(role: str, address: str, port: str, *numbers: str) -> None:
    """Be one end of a connection; print what it measures as JSON."""
    with (accepted if role.startswith("receive") else connected)(address, int(port)) as connection:
        if role == "receive-stream":
            json.dump(receive_stream(connection, int(numbers[0])), sys.stdout)
        elif role == "receive-messages":
            receive_messages(connection)
        elif role == "send-stream":
            for _ in range(int(numbers[0]) // _BLOCK):
                connection.sendall(bytes(_BLOCK))
        else:
            number, pause_s, *sizes = numbers
            json.dump(send_messages(connection, int(number), float(pause_s), list(map(int, sizes))), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
