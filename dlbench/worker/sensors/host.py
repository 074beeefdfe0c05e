"""The whole host: how busy its cores are, what the hypervisor takes, its load and the memory still available."""

import contextlib
import os

from dlbench import plugins
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading
from dlbench.worker.sensors._kernel import PROC, KernelFile, is_readable

OPTIONS = plugins.Options
PER_HOST = True
QUANTITIES = {
    "cpu_time_s": "Busy CPU seconds of all cores since the host started.",
    "cpu_steal_s": "CPU seconds that the hypervisor gave to others since the host started.",
    "cpu_capacity_s": "CPU seconds of all cores since the host started: busy, idle and stolen.",
    "utilization": "Share of all cores that was busy since the previous reading.",
    "steal_fraction": "Share of all cores that the hypervisor took since the previous reading.",
    "load_1min": "Load average of the last minute: threads running or waiting for disk.",
    "memory_available_bytes": "Memory that new work could use without swapping.",
}

STAT = PROC / "stat"
MEMORY = PROC / "meminfo"


def available() -> bool:
    """Whether the kernel tells what its cores do (Linux)."""
    return is_readable(STAT) and is_readable(MEMORY)


def open(place: Place) -> "HostSensor":  # noqa: A001
    """Return the sensor of this host."""
    return HostSensor()


class HostSensor:
    """Reads `/proc/stat`, `/proc/meminfo` and the load average."""

    def __init__(self) -> None:
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        with contextlib.ExitStack() as opened:
            self._stat = opened.enter_context(contextlib.closing(KernelFile(STAT)))
            self._memory = opened.enter_context(contextlib.closing(KernelFile(MEMORY)))
            self._before = self._times()
            self._opened = opened.pop_all()

    def read(self) -> Reading:
        """Return the counters, the shares since the previous reading, the load and the memory."""
        before, now = self._before, self._times()
        self._before = now
        busy, steal, capacity = now
        reading = [("cpu_time_s", busy), ("cpu_steal_s", steal), ("cpu_capacity_s", capacity)]
        elapsed = capacity - before[2]
        if elapsed > 0:
            reading += [
                ("utilization", (busy - before[0]) / elapsed),
                ("steal_fraction", (steal - before[1]) / elapsed),
            ]
        return [*reading, ("load_1min", os.getloadavg()[0]), *available_memory(self._memory.read())]

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def _times(self) -> tuple[float, float, float]:
        busy, steal, capacity = cpu_ticks(self._stat.read())
        return busy / self._ticks_per_s, steal / self._ticks_per_s, capacity / self._ticks_per_s


def cpu_ticks(stat: bytes) -> tuple[int, int, int]:
    """Return (busy, stolen, all) clock ticks of all cores from the text of `/proc/stat`.

    The first eight numbers are user, nice, system, idle, iowait, irq, softirq and steal; what guests used is counted
    in user and nice already (proc_stat(5)).
    """
    ticks = [int(word) for word in stat.split(b"\n", 1)[0].split()[1:9]]
    idle, steal = ticks[3] + ticks[4], ticks[7]
    return sum(ticks) - idle - steal, steal, sum(ticks)


def available_memory(meminfo: bytes) -> Reading:
    """Return `MemAvailable` from the text of `/proc/meminfo`, in bytes."""
    _, found, rest = meminfo.partition(b"MemAvailable:")
    return [("memory_available_bytes", float(rest.split(None, 1)[0]) * 1024)] if found else []
