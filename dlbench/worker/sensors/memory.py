"""Resident memory of the worker's process, now and at its peak."""

from dlbench import plugins
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading
from dlbench.worker.sensors._kernel import PROC, KernelFile, is_readable

OPTIONS = plugins.Options
QUANTITIES = {
    "rss_bytes": "Resident memory of this process, pages it shares with others included.",
    "peak_rss_bytes": "The most it has been since the process started (VmHWM).",
}

# Not getrusage's ru_maxrss: a process inherits that from whatever was running before its exec.
STATUS = PROC / "self" / "status"
_FIELDS = {b"VmRSS": "rss_bytes", b"VmHWM": "peak_rss_bytes"}


def available() -> bool:
    """Whether the kernel tells a process's memory (Linux)."""
    return is_readable(STATUS)


def open(place: Place) -> "MemorySensor":  # noqa: A001
    """Return the sensor of this process."""
    return MemorySensor()


class MemorySensor:
    """Reads `/proc/self/status`."""

    def __init__(self) -> None:
        self._file = KernelFile(STATUS)

    def read(self) -> Reading:
        """Return resident memory and its peak."""
        return memory_of(self._file.read())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def memory_of(status: bytes) -> Reading:
    """Return the memory that the text of `/proc/<pid>/status` tells, in bytes."""
    lines = (line.partition(b":") for line in status.splitlines())
    return [(_FIELDS[name], float(value.split()[0]) * 1024) for name, _, value in lines if name in _FIELDS]
