"""How quiet the machine is: what others take of its processors, its load, and how steadily it computes."""

import contextlib
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

from dlbench.records.hardware import CPUS
from dlbench.scenario.limits import ROOT, number, read

# Long enough to time well (about half a millisecond), short enough that most pieces run undisturbed.
_LOOPS = 10_000


def noise(duration_s: float = 0.2, root: Path = ROOT) -> dict[str, Any]:
    """Return counters of the processors and the speed of a fixed piece of work repeated for `duration_s`.

    `spin_best_per_s` tells the clock: a lower one after a study than before means that the processor slowed down.
    `spin_slowdown` is the median piece over the best, 1 on a quiet machine; `spin_longest_s` the longest interruption.
    """
    times = _spin(duration_s)
    best = min(times)
    stolen_s, counted_s = _processor_time(root)
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "load_1min": os.getloadavg()[0],
        "cpu_steal_s": stolen_s,
        "cpu_capacity_s": counted_s,
        "cpu_mhz": _clock_mhz(root),
        "spin_best_per_s": round(_LOOPS / best),
        "spin_slowdown": round(median(times) / best, 4),
        "spin_longest_s": round(max(times), 6),
    }


def steal_fraction(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Return the share of all cores' time that the hypervisor took between two results of `noise`."""
    with contextlib.suppress(TypeError, ZeroDivisionError):
        stolen = after["cpu_steal_s"] - before["cpu_steal_s"]
        return float(stolen / (after["cpu_capacity_s"] - before["cpu_capacity_s"]))
    return None


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


def _processor_time(root: Path) -> tuple[float | None, float | None]:
    """Return seconds stolen and seconds counted in all, over all cores since the host started."""
    words = read(root / "proc/stat", 4096).split("\n", 1)[0].split()[1:9]
    if len(words) < 8:
        return None, None
    ticks = [int(word) for word in words]
    per_s = os.sysconf("SC_CLK_TCK")
    return ticks[7] / per_s, sum(ticks) / per_s


def _clock_mhz(root: Path) -> float | None:
    current = number(root / CPUS / "cpu0/cpufreq/scaling_cur_freq")
    return None if current is None else current / 1000
