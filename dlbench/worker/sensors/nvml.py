"""What the worker's own GPUs did: utilization, memory, power, energy, temperature and clocks, from NVML."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from dlbench import plugins
from dlbench.records.gpus import REJECTED, THROTTLE_REASONS, THROTTLES, ask, nvml
from dlbench.scenario.layout import Place
from dlbench.worker.process.children import with_children
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
    **{
        name: f"1 where {reason or 'power, heat or the hardware'} holds back the clocks of a GPU of the worker, else 0."
        for name, reason in THROTTLES.items()
    },
}
# What cannot be true is read under this name instead: more than all of the time or the memory, no power or more than
# twice the limit, and energy once its counter fell, or stood still while power was drawn.
_CHECKED = ("utilization", "memory_used_bytes", "power_w", "energy_j")
QUANTITIES |= {f"{REJECTED}{name}": f"A reading of {name} that cannot be true, of one GPU." for name in _CHECKED}

# A process that computes on a GPU holds one of these open (the second on WSL); one that only asks NVML does not.
COMPUTE_DEVICES = ("/dev/nvidia-uvm", "/dev/dxg")
OPEN_FILES = Path("/proc/self/fd")

# How quantities are asked for, and how the answers of several GPUs become one where that is not the largest.
_QUERIES: dict[str, Callable[[Any, Any], float]] = {
    "utilization": lambda library, gpu: library.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
    "memory_used_bytes": lambda library, gpu: library.nvmlDeviceGetMemoryInfo(gpu).used,
    "power_w": lambda library, gpu: library.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "energy_j": lambda library, gpu: library.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000,
    "temperature_c": lambda library, gpu: library.nvmlDeviceGetTemperature(gpu, library.NVML_TEMPERATURE_GPU),
    "sm_clock_mhz": lambda library, gpu: library.nvmlDeviceGetClockInfo(gpu, library.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda library, gpu: library.nvmlDeviceGetClockInfo(gpu, library.NVML_CLOCK_MEM),
}
_JOINS: dict[str, Callable[[Iterable[float]], float]] = {
    "utilization": fmean, "energy_j": sum, "power_w": sum, "sm_clock_mhz": min, "memory_clock_mhz": min,
}  # fmt: skip
_SUMS = ("energy_j", "power_w")
# The second is its name before driver 535.
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
# Counters of energy rise several times a second, and a GPU that draws this share of its power limit is not idle.
_STANDSTILL_S, _BUSY = 2.0, 0.2


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
            handles, self._shares = _own(self._nvml, place)
            if not handles:
                raise OSError("NVML has no device for this process any more")
            self._gpus = [_Gpu(self._nvml, handle) for handle in handles]
            self._opened = opened.pop_all()
        self._in_use = False

    def read(self) -> Reading:
        """Return what NVML knows of the GPUs; nothing until this process computes on one."""
        self._in_use = self._in_use or computes()
        if not self._in_use:
            return []
        answers, reading = [gpu.read() for gpu in self._gpus], Reading()
        for name in QUANTITIES:
            values = [of_gpu[name] for of_gpu in answers if name in of_gpu]
            if self._shares and name.removeprefix(REJECTED) in _SUMS:
                continue
            if len(values) == len(answers) or (values and name.startswith(REJECTED)):
                reading.append((name, float(_JOINS.get(name, max)(values))))
        return reading

    def close(self) -> None:
        """Give NVML back."""
        self._opened.close()


class _Gpu:
    """One GPU, and what is needed to know which of its answers cannot be true."""

    def __init__(self, library: Any, handle: Any) -> None:
        self.handle, self._nvml = handle, library
        memory = ask(library, library.nvmlDeviceGetMemoryInfo, handle)
        limit_mw = ask(library, library.nvmlDeviceGetEnforcedPowerLimit, handle)
        self._limit_w = None if limit_mw is None else limit_mw / 1000
        self._limits = {
            "utilization": (0.0, 1.0),
            "memory_used_bytes": (0.0, math.inf if memory is None else memory.total),
            "power_w": (0.001, 2 * self._limit_w if self._limit_w else math.inf),
        }
        self._energy_j, self._rose_at, self._counts_energy = -math.inf, -math.inf, True

    def read(self) -> dict[str, float]:
        """Return its answers by quantity; those that cannot be true under the name for that."""
        answers = {name: ask(self._nvml, query, self._nvml, self.handle) for name, query in _QUERIES.items()}
        known: dict[str, float] = {name: answer for name, answer in answers.items() if answer is not None}
        odd = {name for name, (least, most) in self._limits.items() if not least <= known.get(name, least) <= most}
        if "energy_j" in known and not self._is_rising(known["energy_j"], known.get("power_w", 0.0)):
            odd.add("energy_j")
        known = {f"{REJECTED}{name}" if name in odd else name: value for name, value in known.items()}
        asked = (ask(self._nvml, query, self.handle) for name in _REASONS if (query := getattr(self._nvml, name, None)))
        if (reasons := next((bits for bits in asked if bits is not None), None)) is not None:
            held = {f"throttled_{name}": float(bool(reasons & bits)) for name, bits in THROTTLE_REASONS.items()}
            known |= {"throttled": max(held.values()), **held}
        return known

    def _is_rising(self, energy_j: float, power_w: float) -> bool:
        """Whether energy grows as power is drawn; once it has not, what it grew by is unknown for good."""
        now = time.monotonic()
        if energy_j > self._energy_j or power_w <= _BUSY * (self._limit_w or 0.0):
            self._rose_at = now
        self._counts_energy &= energy_j >= self._energy_j and now - self._rose_at <= _STANDSTILL_S
        self._energy_j = energy_j
        return self._counts_energy


def device_name(place: Place) -> str:
    """Return the names of the GPUs of the workers at `place`; empty where this process computes on none."""
    return names(place) if computes() else ""


def names(place: Place) -> str:
    """Return the names of the GPUs of the workers at `place`."""
    with nvml() as library:
        gpus, _ = _own(library, place)
        answers = (ask(library, library.nvmlDeviceGetName, gpu) for gpu in gpus)
        return " and ".join(dict.fromkeys(filter(None, answers)))


def computes() -> bool:
    """Whether this process or one below it, such as a script that it waits for, has opened a GPU for computing."""
    folders = [OPEN_FILES]
    with contextlib.suppress(OSError):  # one that has just ended: the next look sees the others
        folders += [Path(f"/proc/{pid}/fd") for pid in with_children(os.getpid())]
    for entry in chain.from_iterable(folder.glob("*") for folder in folders):
        with contextlib.suppress(OSError):
            if str(entry.readlink()) in COMPUTE_DEVICES:
                return True
    return False


def _own(library: Any, place: Place) -> tuple[list[Any], bool]:
    """Return the handles of the GPUs of the workers at `place`, and whether others have them, too."""
    gpus = [] if library is None else _visible(library)
    if not gpus:
        return [], False
    num_own = len(place.workers)
    # A process that was assigned devices, exactly as many as it has workers, was given its own: it takes them all.
    is_assigned = "CUDA_VISIBLE_DEVICES" in os.environ and len(gpus) == num_own
    first = 0 if is_assigned else place.local_index * num_own
    # Past the end of the visible ones they are shared.
    return [gpus[index % len(gpus)] for index in range(first, first + num_own)], first + num_own > len(gpus)


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
    uuids = [ask(library, library.nvmlDeviceGetUUID, gpu) or "" for gpu in everything]
    return next((gpu for gpu, uuid in zip(everything, uuids, strict=True) if uuid.startswith(word)), None)
