"""Resident memory of the worker's process, now and at its peak."""

from pathlib import Path

from dlbench import plugins
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading, Sensor

OPTIONS = plugins.Options
QUANTITIES = {
    "rss_bytes": "Resident memory of this process, pages it shares with others included.",
    "peak_rss_bytes": "The most it has been since the process started (VmHWM).",
}

# psutil has no peak on Linux, and a process inherits getrusage's ru_maxrss from what was running before its exec.
STATUS = Path("/proc/self/status")
_FIELDS = {"VmRSS": "rss_bytes", "VmHWM": "peak_rss_bytes"}


def open(place: Place) -> "MemorySensor":  # noqa: A001
    """Return the sensor of this process."""
    return MemorySensor()


class MemorySensor(Sensor):
    """Reads `/proc/self/status`."""

    def read(self) -> Reading:
        """Return resident memory and its peak."""
        return memory_of(STATUS.read_text())


def memory_of(status: str) -> Reading:
    """Return the memory in the text of `/proc/<pid>/status`, in bytes."""
    lines = (line.partition(":") for line in status.splitlines())
    return [(_FIELDS[name], float(value.split()[0]) * 1024) for name, _, value in lines if name in _FIELDS]
