"""The limits that control groups put on this process: CPU time and memory, versions 1 and 2."""

import math
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path("/")
GROUPS = "sys/fs/cgroup"
# Version 1 says "no limit" with the largest multiple of a page below 2^63.
_NO_LIMIT = 1 << 60


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
    memberships = [line.split(":", 2) for line in read(root / "proc/self/cgroup").splitlines()]
    cpus, memory = [], []
    for _, controllers, path in (membership for membership in memberships if len(membership) == 3):
        for folder in _folders(root / GROUPS, controllers, path):
            cpus.append(_cores(folder))
            memory.append(_memory(folder))
    return {
        "cpu_cores": min((limit for limit in cpus if limit is not None), default=None),
        "memory_bytes": min((limit for limit in memory if limit is not None), default=None),
    }


def usable_cores(root: Path = ROOT) -> tuple[int, ...]:
    """Return the numbers of the cores that this process may use.

    A container with a CPU limit (`--cpus=2`) sees all cores of its host and is stopped when it has used up its share:
    the first so many cores stand for the limit, rounded down.
    """
    cores = tuple(sorted(os.sched_getaffinity(0)))
    limit = describe_limits(root)["cpu_cores"]
    return cores if limit is None else cores[: max(1, math.floor(limit))]


def _folders(groups: Path, controllers: str, path: str) -> list[Path]:
    """Return the folders of one membership, from the group itself up to the root of its hierarchy."""
    top = groups / controllers if controllers else groups
    inside = [part for part in path.split("/") if part and part != ".."]
    return [top.joinpath(*inside[:length]) for length in range(len(inside), -1, -1)]


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
