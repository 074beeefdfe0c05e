"""Bytes and packets on all network interfaces of the host, loopback included, and those on the way to other hosts."""

import os
from collections.abc import Iterable

from dlbench import plugins
from dlbench.records.assignment import INTERFACE_VARIABLE
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading
from dlbench.worker.sensors._kernel import PROC, KernelFile, is_readable

OPTIONS = plugins.Options
PER_HOST = True
QUANTITIES = {
    "sent_bytes": "Bytes sent on all interfaces since the host started, loopback included.",
    "received_bytes": "Bytes received on all interfaces since the host started, loopback included.",
    "sent_packets": "Packets sent on all interfaces since the host started.",
    "received_packets": "Packets received on all interfaces since the host started.",
    "wire_sent_bytes": "Bytes sent on the interface that leads to the run's other hosts; absent on one host.",
    "wire_received_bytes": "Bytes received on it.",
}

# One for each of the first four of QUANTITIES.
Counters = tuple[int, int, int, int]
# Of this process's network namespace: in a container, its own interfaces.
DEVICES = PROC / "self" / "net" / "dev"


def available() -> bool:
    """Whether the kernel tells what its interfaces carry (Linux)."""
    return is_readable(DEVICES)


def open(place: Place) -> "NetworkSensor":  # noqa: A001
    """Return the sensor of this host."""
    return NetworkSensor()


class NetworkSensor:
    """Reads `/proc/self/net/dev`; what an interface that goes away has carried stays counted."""

    def __init__(self) -> None:
        self._file = KernelFile(DEVICES)
        self._last: dict[bytes, Counters] = {}
        self._gone: Counters = (0, 0, 0, 0)
        self._wire = os.environ.get(INTERFACE_VARIABLE, "").encode()

    def read(self) -> Reading:
        """Return bytes and packets so far, over all interfaces, and the bytes of the one to other hosts."""
        return self.total(self._file.read())

    def total(self, devices: bytes) -> Reading:
        """Return the sums that never fall, from the text of `/proc/net/dev` as it is now."""
        now = interfaces(devices)
        for name, last in self._last.items():
            # What went away, and a counter that fell: it counts from 0 anew.
            fallen = (old if new < old else 0 for new, old in zip(now.get(name, (-1,) * 4), last, strict=True))
            self._gone = _added(self._gone, tuple(fallen))
        self._last = now
        sums = self._gone
        for counters in now.values():
            sums = _added(sums, counters)
        wire = now.get(self._wire, ())[:2]
        return list(zip(QUANTITIES, map(float, (*sums, *wire)), strict=False))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def interfaces(devices: bytes) -> dict[bytes, Counters]:
    """Return what each interface in the text of `/proc/net/dev` has carried, in the order of QUANTITIES.

    After the name come eight numbers received and eight sent; bytes and packets are the first two of each.
    """
    parts = [line.partition(b":") for line in devices.splitlines() if b":" in line]
    rows = {name.strip(): list(map(int, numbers.split())) for name, _, numbers in parts}
    return {name: (row[8], row[0], row[9], row[1]) for name, row in rows.items()}


def _added(counters: Counters, more: Iterable[int]) -> Counters:
    sent, received, packets_out, packets_in = (one + other for one, other in zip(counters, more, strict=True))
    return sent, received, packets_out, packets_in
