"""Bytes and packets on all network interfaces of the host, loopback included, and those on the route to other hosts."""

import os
from collections import Counter

import psutil

from dlbench import plugins
from dlbench.records.assignment import INTERFACE_VARIABLE
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading, Sensor

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

# psutil's names of the first four of QUANTITIES.
_COUNTERS = dict(zip(QUANTITIES, ("bytes_sent", "bytes_recv", "packets_sent", "packets_recv"), strict=False))


def open(place: Place) -> "NetworkSensor":  # noqa: A001
    """Return the sensor of this host."""
    return NetworkSensor()


class NetworkSensor(Sensor):
    """Adds up the counters of all interfaces; what an interface that goes away has carried stays counted."""

    def __init__(self) -> None:
        self._wire = os.environ.get(INTERFACE_VARIABLE, "")
        self._last: dict[str, dict[str, int]] = {}
        self._gone: Counter[str] = Counter()

    def read(self) -> Reading:
        """Return bytes and packets so far, over all interfaces, and the bytes of the one to other hosts."""
        now = {
            interface: {name: getattr(counters, field) for name, field in _COUNTERS.items()}
            for interface, counters in psutil.net_io_counters(pernic=True, nowrap=False).items()
        }
        for interface, last in self._last.items():
            for name, count in last.items():
                # The interface is gone, or its counter has started again at 0.
                if now.get(interface, {}).get(name, -1) < count:
                    self._gone[name] += count
        self._last = now
        sums = {name: self._gone[name] + sum(counts[name] for counts in now.values()) for name in _COUNTERS}
        wire = now.get(self._wire, {})
        sums |= {f"wire_{name}": wire[name] for name in ("sent_bytes", "received_bytes") if wire}
        return [(name, float(count)) for name, count in sums.items()]
