"""How quiet the machine is: what others take of its processors, its load, and how steadily it computes."""

import itertools
import os
import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import psutil

from dlbench.cgroups import ROOT, number
from dlbench.records.hardware import CPUS

# On a core with less of its time for dlbench alone another program computed: of two that compute, each gets a half.
LEAST_SHARE = 0.75
# Long enough to time well (about a tenth of a millisecond), short enough that most pieces run undisturbed.
_LOOPS = 2_000
# Of more cores the first are measured. Cores are visited in turn: a virtual core may be half as slow again for tens of
# milliseconds, and what disturbs one visit to a core is over at the next.
_MAX_CORES, _VISIT_S = 128, 0.004


def noise(duration_s: float = 0.05) -> dict[str, Any]:
    """Return counters of the processors, and how fast each core that this process may use does a fixed piece of work.

    `spin_best_per_s_by_core` has the best piece on each core by its number, and `spin_best_per_s` the best of all: a
    lower one after a study than before means that the processor slowed down. `spin_share_by_core` is the share of its
    time there that this process computed: 1 on a free core, a half or less where another program computes.
    `spin_slowdown` is the median piece over the best, 1 on a quiet machine; `spin_longest_s` the longest interruption.

    Args:
        duration_s: Time that it may take; each core is visited once in any case.
    """
    allowed = os.sched_getaffinity(0)
    cores = {core: _Core() for core in sorted(allowed)[:_MAX_CORES]}
    end, visit_s = time.perf_counter() + duration_s, min(_VISIT_S, duration_s / len(cores))
    try:
        for turn, (core, visits) in enumerate(itertools.cycle(cores.items())):
            if turn >= len(cores) and time.perf_counter() >= end:
                break
            visits.visit(core, visit_s)
    except OSError:  # a core that has just been taken away
        pass
    finally:
        os.sched_setaffinity(0, allowed)
    visited = {str(core): visits for core, visits in cores.items() if visits.pieces}
    pieces = [piece for visits in visited.values() for piece in visits.pieces] or _pieces(visit_s)
    _, steal_s, capacity_s = cpu_times()
    clock_khz = number(ROOT / CPUS / "cpu0/cpufreq/scaling_cur_freq")
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "load_1min": os.getloadavg()[0],
        "cpu_steal_s": steal_s,
        "cpu_capacity_s": capacity_s,
        "cpu_mhz": None if clock_khz is None else clock_khz / 1000,
        "spin_best_per_s": round(_LOOPS / min(pieces)),
        "spin_best_per_s_by_core": {core: round(_LOOPS / min(visits.pieces)) for core, visits in visited.items()},
        "spin_share_by_core": {core: round(visits.cpu_s / visits.wall_s, 4) for core, visits in visited.items()},
        "spin_slowdown": round(median(pieces) / min(pieces), 4),
        "spin_longest_s": round(max(pieces), 6),
    }


@dataclass
class _Core:
    """What was seen on one core: times of pieces, time there, and CPU time of this thread in it."""

    pieces: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def visit(self, core: int, duration_s: float) -> None:
        """Compute on a core for a while; waiting to get there is part of the time."""
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        os.sched_setaffinity(0, {core})  # this thread alone
        self.pieces += _pieces(duration_s)
        self.wall_s += time.perf_counter() - wall_s
        self.cpu_s += time.thread_time() - cpu_s


def _pieces(duration_s: float) -> list[float]:
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
