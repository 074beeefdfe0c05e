"""Bytes and packets on all network interfaces of the host, loopback included."""

from dlbench import plugins
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
}

# Of this process's network namespace: in a container, its own interfaces.
DEVICES = PROC / "self" / "net" / "dev"


def available() -> bool:
    """Whether the kernel tells what its interfaces carry (Linux)."""
    return is_readable(DEVICES)


def open(place: Place) -> "NetworkSensor":  # noqa: A001
    """Return the sensor of this host."""
    return NetworkSensor()


class NetworkSensor:
    """Reads `/proc/self/net/dev`."""

    def __init__(self) -> None:
        self._file = KernelFile(DEVICES)

    def read(self) -> Reading:
        """Return bytes and packets so far, over all interfaces."""
        return traffic(self._file.read())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def traffic(devices: bytes) -> Reading:
    """Return the sums over all interfaces in the text of `/proc/net/dev`.

    After the name come eight numbers received and eight sent; bytes and packets are the first two of each.
    """
    rows = [line.partition(b":")[2].split() for line in devices.splitlines() if b":" in line]
    places = (("sent_bytes", 8), ("received_bytes", 0), ("sent_packets", 9), ("received_packets", 1))
    return [(name, float(sum(int(row[place]) for row in rows))) for name, place in places]
