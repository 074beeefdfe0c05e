"""What the sensors read between the start and the end of training, as columns of `runs.csv`."""

from typing import Any

from dlbench.records.gpus import REJECTED, THROTTLES
from dlbench.worker.sensors import Reading

_Key = tuple[str, str]


class Summary:
    """First, last, largest and mean reading of every quantity since `begin`; counters count up to the last `mark`."""

    def __init__(self) -> None:
        self._first: dict[_Key, float] = {}
        self._last: dict[_Key, float] = {}
        self._marked: dict[_Key, float] | None = None
        self._largest: dict[_Key, float] = {}
        self._sums: dict[_Key, tuple[float, int]] = {}

    def begin(self, readings: dict[str, Reading]) -> None:
        """Take these readings, by sensor, as the start of training."""
        self._first = {(sensor, name): value for sensor, reading in readings.items() for name, value in reading}
        self._last, self._largest, self._sums, self._marked = dict(self._first), dict(self._first), {}, None

    def add(self, readings: dict[str, Reading]) -> None:
        """Take in readings made while training."""
        for sensor, reading in readings.items():
            for name, value in reading:
                key = sensor, name
                total, count = self._sums.get(key, (0.0, 0))
                self._last[key] = value
                self._largest[key] = max(value, self._largest.get(key, value))
                self._sums[key] = total + value, count + 1

    def mark(self, readings: dict[str, Reading]) -> None:
        """Take in readings made where training may end; without any, what counters grew by is unknown."""
        self.add(readings)
        self._marked = dict(self._last) if readings else {}

    def columns(self) -> dict[str, Any]:
        """Return this worker's value of each column; None where it was not observed.

        Sums over workers hold for `energy_j`, `network_bytes` and `wire_bytes`: only one worker
        reports what belongs to a host.
        Energy is that of the worker's GPUs if it computes on some, else that of its host's processors.
        """
        steal, capacity = self._growth("host", "cpu_steal_s"), self._growth("host", "cpu_capacity_s")
        return {
            "host_memory_peak_bytes": _whole(self._largest.get(("memory", "peak_rss_bytes"))),
            "device_memory_peak_bytes": _whole(self._largest.get(("nvml", "memory_used_bytes"))),
            "device_utilization": self._mean("nvml", "utilization"),
            **{f"device_{name}": self._mean("nvml", name) for name in THROTTLES},
            "energy_j": self._energy_j(),
            "steal_fraction": steal / capacity if steal is not None and capacity else None,
            "network_bytes": _whole(self._growth("network", "sent_bytes")),
            "wire_bytes": _whole(self._growth("network", "wire_sent_bytes")),
        }

    def _growth(self, sensor: str, name: str) -> float | None:
        ends = self._last if self._marked is None else self._marked
        first, last = self._first.get((sensor, name)), ends.get((sensor, name))
        return None if first is None or last is None else last - first

    def _mean(self, sensor: str, name: str) -> float | None:
        total, count = self._sums.get((sensor, name), (0.0, 0))
        return total / count if count else None

    def _energy_j(self) -> float | None:
        computes = any(sensor == "nvml" for sensor, _ in self._last)
        if ("nvml", f"{REJECTED}energy_j") in self._last:
            return None
        # A counter that did not move has counted nothing.
        return self._growth("nvml" if computes else "rapl", "energy_j") or None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
