"""How quiet the machine is: what others take of its processors, its load, and how steadily it computes."""

import contextlib
import os
import time
from statistics import median
from typing import Any

import psutil

from dlbench.cgroups import ROOT, number
from dlbench.records.hardware import CPUS

# Long enough to time well (about half a millisecond), short enough that most pieces run undisturbed.
_LOOPS = 10_000
# For each core, for all, and for how many: a virtual core may be half as slow again for tens of milliseconds.
_CORE_S, _ALL_CORES_S, _MAX_CORES = 0.2, 2.5, 128


def noise(duration_s: float = 0.2) -> dict[str, Any]:
    """Return counters of the processors and the speed of a fixed piece of work repeated for `duration_s`.

    `spin_best_per_s_by_core` has the best of 0.2 s on each core that this process may use, by its number; of less
    where there are more than a dozen.

    `spin_best_per_s` shows the clock: a lower one after a study than before means that the processor slowed down.
    `spin_slowdown` is the median piece over the best, 1 on a quiet machine; `spin_longest_s` the longest interruption.
    """
    times = _spin(duration_s)
    best = min(times)
    _, steal_s, capacity_s = cpu_times()
    clock_khz = number(ROOT / CPUS / "cpu0/cpufreq/scaling_cur_freq")
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "load_1min": os.getloadavg()[0],
        "cpu_steal_s": steal_s,
        "cpu_capacity_s": capacity_s,
        "cpu_mhz": None if clock_khz is None else clock_khz / 1000,
        "spin_best_per_s": round(_LOOPS / best),
        "spin_best_per_s_by_core": _spin_by_core(),
        "spin_slowdown": round(median(times) / best, 4),
        "spin_longest_s": round(max(times), 6),
    }


def steal_fraction(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Return the share of all cores' time that the hypervisor took between two results of `noise`."""
    with contextlib.suppress(TypeError, ZeroDivisionError):
        stolen = after["cpu_steal_s"] - before["cpu_steal_s"]
        return float(stolen / (after["cpu_capacity_s"] - before["cpu_capacity_s"]))
    return None


def _spin_by_core() -> dict[str, int]:
    """Return the speed on each core; this thread ends where it began, and other threads stay where they are."""
    allowed, found = os.sched_getaffinity(0), dict[str, int]()
    cores = sorted(allowed)[:_MAX_CORES]
    try:
        for core in cores:
            os.sched_setaffinity(0, {core})
            found[str(core)] = round(_LOOPS / min(_spin(min(_CORE_S, _ALL_CORES_S / len(cores)))))
    except OSError:  # a core that has just been taken away
        pass
    finally:
        os.sched_setaffinity(0, allowed)
    return found


def _spin(duration_s: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + duration_s
    while not times or time.perf_counter() < end:
        started = time.perf_counter()
        value = 1
        for _ in range(_LOOPS):
            value = value * 5 % 8191
        times.append(time.perf_counter() - started)
    return times


def cpu_times() -> tuple[float, float, float]:
    """Return the busy, stolen and all seconds of all cores; guests' time is in user and nice already (proc_stat(5))."""
    times = psutil.cpu_times()
    capacity = sum(times) - times.guest - times.guest_nice
    return capacity - times.idle - times.iowait - times.steal, times.steal, capacity
