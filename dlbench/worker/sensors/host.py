"""The whole host: how busy its cores are, what the hypervisor takes, its load and the memory still available."""

import os

import psutil

from dlbench import plugins
from dlbench.records.noise import cpu_times
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading, Sensor

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


def open(place: Place) -> "HostSensor":  # noqa: A001
    """Return the sensor of this host."""
    return HostSensor()


class HostSensor(Sensor):
    """Reads the times of all cores, the load average and the memory."""

    def __init__(self) -> None:
        self._before = cpu_times()

    def read(self) -> Reading:
        """Return the counters, the shares since the previous reading, the load and the memory."""
        before, now = self._before, cpu_times()
        self._before = now
        busy, steal, capacity = now
        reading = [("cpu_time_s", busy), ("cpu_steal_s", steal), ("cpu_capacity_s", capacity)]
        elapsed = capacity - before[2]
        if elapsed > 0:
            reading += [
                ("utilization", (busy - before[0]) / elapsed),
                ("steal_fraction", (steal - before[1]) / elapsed),
            ]
        memory = float(psutil.virtual_memory().available)
        return [*reading, ("load_1min", os.getloadavg()[0]), ("memory_available_bytes", memory)]
