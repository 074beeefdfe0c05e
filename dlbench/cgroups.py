"""Control groups, versions 1 and 2: their limits on this process, the cores it may use, and its own group."""

import contextlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path("/")
GROUPS = "sys/fs/cgroup"
# Version 1 says "no limit" with the largest multiple of a page below 2^63.
_NO_LIMIT = 1 << 60
# Short periods let a throttled worker stutter evenly; the kernel takes no quota below a millisecond of a period.
PERIOD_US, MAX_PERIOD_US, MIN_QUOTA_US = 10_000, 1_000_000, 1_000
# What the groups that dlbench makes begin with.
_PREFIX = "dlbench-"


def read(path: Path, size: int = -1) -> str:
    """Return a small file's text without white space around it, or an empty string where it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(size).strip()
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """Return the whole number in a file, or None."""
    text = read(path)
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def describe_limits(root: Path = ROOT) -> dict[str, Any]:
    """Return the tightest limit on CPU cores and memory from this process's group up; None where there is none."""
    folders = [folder for hierarchy in _hierarchies(root) for folder in hierarchy]
    return {
        "cpu_cores": min((limit for folder in folders if (limit := _cores(folder)) is not None), default=None),
        "memory_bytes": min((limit for folder in folders if (limit := _memory(folder)) is not None), default=None),
    }


def process_limit(root: Path = ROOT) -> int | None:
    """Return how many processes and threads this process's group may have; None for no limit."""
    limits = (number(folder / "pids.max") for hierarchy in _hierarchies(root) for folder in hierarchy)
    return min((limit for limit in limits if limit is not None), default=None)


def oom_kills(root: Path = ROOT) -> int:
    """Return how many processes the kernel has killed for lack of memory, in our control group or on this machine."""
    groups = [folders[0] for folders in _hierarchies(root)]
    counters = [group / name for group in groups for name in ("memory.events", "memory.oom_control")]
    return max(_counter(path, "oom_kill") for path in [root / "proc/vmstat", *counters])


def usable_cores(root: Path = ROOT) -> tuple[int, ...]:
    """Return the numbers of the cores that this process may use.

    A container with a CPU limit (`--cpus=2`) sees all cores of its host and is stopped when it has used up its share:
    as many of the first cores as the limit, rounded down, stand for it.
    """
    cores = tuple(sorted(os.sched_getaffinity(0)))
    limit = describe_limits(root)["cpu_cores"]
    return cores if limit is None else cores[: max(1, math.floor(limit))]


def enter_group(name: str, quota: float, root: Path = ROOT) -> bool:
    """Move this process into a new control group with `quota` CPU seconds per second; return whether it worked."""
    cpu_group = _cpu_group(root)
    if cpu_group is None:
        return False
    version, top, own_group = cpu_group
    # Version 1 allows a limit below the own group. Version 2 allows none below a group that holds processes, the top
    # excepted, so there the new group stands beside the own one.
    parent = own_group if version == 1 or own_group == top else own_group.parent
    group = parent / f"{_PREFIX}{name}"
    try:
        sweep(parent)
        group.mkdir(exist_ok=True)
    except OSError:
        return False
    try:
        _write_quota(version, group, quota)
        (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return False
    return True


def leave_group(name: str, root: Path = ROOT) -> None:
    """Move this process out of the group that `enter_group` made, and remove it; without one nothing happens."""
    group = _cpu_group(root)
    if group is not None and group[2].name == f"{_PREFIX}{name}":
        with contextlib.suppress(OSError):
            (group[2].parent / "cgroup.procs").write_text(f"{os.getpid()}\n")
            group[2].rmdir()


def sweep(parent: Path) -> None:
    """Remove groups of workers that have ended; a group with a process in it cannot be removed."""
    for group in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if not read(group / "cgroup.procs"):
                group.rmdir()


def _write_quota(version: int, group: Path, quota: float) -> None:
    period_us = min(MAX_PERIOD_US, max(PERIOD_US, round(MIN_QUOTA_US / quota)))
    quota_us = max(MIN_QUOTA_US, round(quota * period_us))
    if version == 2:
        (group / "cpu.max").write_text(f"{quota_us} {period_us}\n")
    else:
        (group / "cpu.cfs_period_us").write_text(f"{period_us}\n")
        (group / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")


def _cpu_group(root: Path) -> tuple[int, Path, Path] | None:
    """Return the version of the `cpu` controller, the top of its hierarchy and this process's group; None for none."""
    for folders in _hierarchies(root):
        # A container may see its group under the host's name for it, and as the top.
        top, own_group = folders[-1], next((it for it in folders if (it / "cgroup.procs").exists()), None)
        if own_group is None:
            continue
        if top.name != "cgroup" and "cpu" in top.name.split(","):
            return 1, top, own_group
        if "cpu" in read(own_group / "cgroup.controllers").split():
            return 2, top, own_group
    return None


def _hierarchies(root: Path) -> Iterator[list[Path]]:
    """Yield, for each hierarchy, the folders from the group that this process is in up to the top."""
    for line in read(root / "proc/self/cgroup").splitlines():
        _, _, remainder = line.partition(":")
        controllers, colon, path = remainder.partition(":")
        if colon:
            names = [part for part in path.split("/") if part and part != ".."]
            top = root / GROUPS / controllers
            yield [top.joinpath(*names[:length]) for length in range(len(names), -1, -1)]


def _cores(folder: Path) -> float | None:
    quota, _, period = read(folder / "cpu.max").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        return int(quota) / int(period)
    quota_us, period_us = number(folder / "cpu.cfs_quota_us"), number(folder / "cpu.cfs_period_us")
    return quota_us / period_us if quota_us is not None and quota_us > 0 and period_us else None


def _memory(folder: Path) -> int | None:
    limit = number(folder / "memory.max")
    if limit is None:
        limit = number(folder / "memory.limit_in_bytes")
    return limit if limit is not None and limit < _NO_LIMIT else None


def _counter(path: Path, name: str) -> int:
    for line in read(path).splitlines():
        key, _, value = line.partition(" ")
        with contextlib.suppress(ValueError):
            if key == name:
                return int(value)
    return 0
