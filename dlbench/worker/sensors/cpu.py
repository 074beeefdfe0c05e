"""CPU time of the worker's process and how busy it kept its cores."""

import os
import time

from dlbench import plugins
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading, Sensor

OPTIONS = plugins.Options
QUANTITIES = {
    "time_s": "CPU seconds (user and system) of all threads of this process so far.",
    "utilization": "CPU time since the previous reading / (time x cores of this worker); 1 is all of them busy.",
}


def open(place: Place) -> "CpuSensor":  # noqa: A001
    """Return the sensor of the process at `place`."""
    return CpuSensor(num_cores(place))


def num_cores(place: Place) -> float:
    """Return the cores a process can use: its quota, else the cores it is bound to, else those it may run on."""
    if place.quota is not None:
        return place.quota
    return len(place.cores) or len(os.sched_getaffinity(0))


class CpuSensor(Sensor):
    """CPU time of this process, and its share of `cores` since the previous reading."""

    def __init__(self, cores: float) -> None:
        self._cores = cores
        self._before = (time.monotonic(), time.process_time())

    def read(self) -> Reading:
        """Return CPU seconds so far and, once time has passed, utilization."""
        now = (time.monotonic(), time.process_time())
        elapsed, used = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        reading = [("time_s", now[1])]
        return [*reading, ("utilization", used / (elapsed * self._cores))] if elapsed > 0 else reading
