"""What the worker's own GPUs did: utilization, memory, power, energy, temperature and clocks, from NVML."""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from dlbench import plugins
from dlbench.records.gpus import ask, nvml, text
from dlbench.scenario.layout import Place
from dlbench.worker.sensors import Reading

OPTIONS = plugins.Options
QUANTITIES = {
    "utilization": "Share of NVML's last sampling period in which a kernel ran; mean of the worker's GPUs.",
    "memory_used_bytes": "Memory in use on the GPU, by whomever; the largest of the worker's GPUs.",
    "energy_j": "Energy since the driver was loaded, in joules; sum of the worker's GPUs.",
    "power_w": "Power now, in watts; sum of the worker's GPUs.",
    "temperature_c": "Temperature in degrees Celsius; the hottest of the worker's GPUs.",
    "sm_clock_mhz": "Clock of the multiprocessors; the slowest of the worker's GPUs.",
    "memory_clock_mhz": "Clock of the memory; the slowest of the worker's GPUs.",
}

# A process that computes on a GPU holds one of these open (the second on WSL); one that only asks NVML does not.
COMPUTE_DEVICES = ("/dev/nvidia-uvm", "/dev/dxg")
OPEN_FILES = Path("/proc/self/fd")

# How each quantity is asked for, and how the answers of a worker's several GPUs become one.
_Query = tuple[Callable[[Any, Any], float], Callable[[Iterable[float]], float]]
_QUERIES: dict[str, _Query] = {
    "utilization": (lambda library, gpu: library.nvmlDeviceGetUtilizationRates(gpu).gpu / 100, fmean),
    "memory_used_bytes": (lambda library, gpu: library.nvmlDeviceGetMemoryInfo(gpu).used, max),
    "energy_j": (lambda library, gpu: library.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000, sum),
    "power_w": (lambda library, gpu: library.nvmlDeviceGetPowerUsage(gpu) / 1000, sum),
    "temperature_c": (lambda library, gpu: library.nvmlDeviceGetTemperature(gpu, library.NVML_TEMPERATURE_GPU), max),
    "sm_clock_mhz": (lambda library, gpu: library.nvmlDeviceGetClockInfo(gpu, library.NVML_CLOCK_SM), min),
    "memory_clock_mhz": (lambda library, gpu: library.nvmlDeviceGetClockInfo(gpu, library.NVML_CLOCK_MEM), min),
}
_SUMS = ("energy_j", "power_w")


def available() -> bool:
    """Whether there is a driver and a GPU that this process may see."""
    with nvml() as library:
        return library is not None and bool(_visible(library))


def open(place: Place) -> "NvmlSensor":  # noqa: A001
    """Return the sensor of the GPUs of the workers at `place`."""
    return NvmlSensor(place)


class NvmlSensor:
    """Reads the GPUs of one process, once the process computes on them.

    Where processes share a GPU, only the first of them reports its power and energy, so that sums over workers hold.
    """

    def __init__(self, place: Place) -> None:
        with contextlib.ExitStack() as opened:
            self._nvml = opened.enter_context(nvml())
            self._gpus, self._shares = _own(self._nvml, place)
            if not self._gpus:
                raise OSError("NVML has no device for this process any more")
            self._opened = opened.pop_all()
        self._in_use = False

    def read(self) -> Reading:
        """Return what NVML knows of the GPUs; nothing until this process computes on one."""
        self._in_use = self._in_use or computes()
        if not self._in_use:
            return []
        return [(name, value) for name in _QUERIES if (value := self._ask(name)) is not None]

    def close(self) -> None:
        """Give NVML back."""
        self._opened.close()

    def _ask(self, name: str) -> float | None:
        if self._shares and name in _SUMS:
            return None
        query, join = _QUERIES[name]
        answers = [ask(self._nvml, query, self._nvml, gpu) for gpu in self._gpus]
        return None if None in answers else float(join(answers))


def device_name(place: Place) -> str:
    """Return the names of the GPUs of the workers at `place`; empty where this process computes on none."""
    if not computes():
        return ""
    with nvml() as library:
        gpus, _ = _own(library, place)
        names = (text(ask(library, library.nvmlDeviceGetName, gpu)) for gpu in gpus)
        return " and ".join(dict.fromkeys(filter(None, names)))


def device_indices(place: Place, num_visible: int, *, assigned: bool) -> list[int]:
    """Return the indices of the devices at `place` among the visible ones; past their end where they are shared.

    A process that was assigned devices, exactly as many as it has workers, was given its own: it takes them all.
    """
    num_own = len(place.workers)
    first = 0 if assigned and num_visible == num_own else place.local_index * num_own
    return list(range(first, first + num_own))


def computes() -> bool:
    """Whether this process has opened a GPU for computing."""
    for entry in OPEN_FILES.glob("*"):
        with contextlib.suppress(OSError):
            if str(entry.readlink()) in COMPUTE_DEVICES:
                return True
    return False


def _own(library: Any, place: Place) -> tuple[list[Any], bool]:
    """Return the handles of the GPUs of the workers at `place`, and whether others have them, too."""
    gpus = [] if library is None else _visible(library)
    if not gpus:
        return [], False
    indices = device_indices(place, len(gpus), assigned="CUDA_VISIBLE_DEVICES" in os.environ)
    return [gpus[index % len(gpus)] for index in indices], any(index >= len(gpus) for index in indices)


def _visible(library: Any) -> list[Any]:
    """Return the handles that `CUDA_VISIBLE_DEVICES` lets this process see, in its order; all where it is not set.

    CUDA numbers equal GPUs by bus, as NVML does; as in CUDA, what follows an unknown entry is not seen.
    """
    count = ask(library, library.nvmlDeviceGetCount) or 0
    everything = [ask(library, library.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return [gpu for gpu in everything if gpu is not None]
    visible = []
    for word in filter(None, (word.strip() for word in wanted.split(","))):
        gpu = _find(library, everything, word)
        if gpu is None:
            break
        visible.append(gpu)
    return visible


def _find(library: Any, everything: list[Any], word: str) -> Any:
    if word.isdecimal():
        return everything[int(word)] if int(word) < len(everything) else None
    if word.startswith("MIG-"):
        return ask(library, library.nvmlDeviceGetHandleByUUID, word)
    uuids = [text(ask(library, library.nvmlDeviceGetUUID, gpu)) or "" for gpu in everything]
    return next((gpu for gpu, uuid in zip(everything, uuids, strict=True) if uuid.startswith(word)), None)
