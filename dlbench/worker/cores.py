"""A worker's share of its host's CPU: bound to its cores, limited below one core, thread pools to match.

All of it before NumPy is imported: thread pools look at affinity and environment once, when their library is loaded.
"""

import contextlib
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from dlbench.errors import UserError
from dlbench.scenario.layout import Place

# Libraries with thread pools of their own, and what each reads.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

# Short periods let a throttled worker stutter evenly; the kernel takes no quota below a millisecond of a period.
PERIOD_US = 10_000
SMALLEST_QUOTA_US = 1_000
LONGEST_PERIOD_US = 1_000_000

GROUP_PREFIX = "dlbench-"


@dataclass(frozen=True)
class Controller:
    """The `cpu` controller of control groups: its version (1 or 2) and where this process stands in its tree."""

    version: int
    root: Path
    own: Path

    def parents(self) -> tuple[Path, ...]:
        """Return where a new group may be made, the nearest first.

        Version 1 allows it below the own group. Version 2 allows no limits below a group that holds processes,
        the root excepted, so there the new group stands beside the own one.
        """
        return (self.own,) if self.version == 1 or self.own == self.root else (self.own.parent,)


def limit_threads(intra_op_threads: int) -> None:
    """Set the size of every library's thread pool, for libraries that are loaded from now on."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(intra_op_threads)))


def bind(place: Place, attempt_id: str) -> str:
    """Bind this process and its future threads to the place's cores and share.

    Returns:
        How it is enforced, the column `cores_enforced`: `affinity`, `quota`, or `none`.

    Raises:
        UserError: This process may not run on the cores that the layout gives it.
    """
    if not place.cores:
        return "none"
    _set_affinity(place)
    if place.quota is None:
        return "affinity"
    controller = find_controller(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    if controller is not None and enter_group(controller, f"{GROUP_PREFIX}{attempt_id}-{place.rank}", place.quota):
        return "quota"
    return "affinity"


def _set_affinity(place: Place) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, place.cores)
        missing = set(place.cores) - os.sched_getaffinity(0)
    except OSError:
        missing = set(place.cores) - allowed
    if missing:
        raise UserError(
            f"{place.host}: the layout gives rank {place.rank} the cores {sorted(place.cores)}, of which "
            f"{sorted(missing) or 'some'} cannot be used; usable: {sorted(allowed)}",
            hint="name the cores of the host in the cluster file, or let the launcher bind nothing",
        )


def find_controller(mountinfo: str, own_groups: str) -> Controller | None:
    """Return the `cpu` controller from the texts of /proc/self/mountinfo and /proc/self/cgroup, or None."""
    versions = _own_paths(own_groups)
    for line in mountinfo.splitlines():
        fields, _, kind = line.partition(" - ")
        version, options = _version(kind)
        if version == 0 or version not in versions or (version == 1 and "cpu" not in options):
            continue
        mount_root, mount = (_unescape(field) for field in fields.split()[3:5])
        own = _below(Path(mount), mount_root, versions[version])
        if version == 1 or "cpu" in _words(own / "cgroup.controllers"):
            return Controller(version, Path(mount), own)
    return None


def enter_group(controller: Controller, name: str, quota: float) -> bool:
    """Move this process into a new control group with `quota` CPU seconds per second; return whether it worked."""
    for parent in controller.parents():
        with contextlib.suppress(OSError):
            sweep(parent)
            group = parent / name
            group.mkdir(exist_ok=True)
            try:
                _write_quota(controller.version, group, quota)
                (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
            except OSError:
                group.rmdir()
                raise
            return True
    return False


def sweep(parent: Path) -> None:
    """Remove groups of workers that have ended; a group with a process in it cannot be removed."""
    for group in parent.glob(GROUP_PREFIX + "*"):
        with contextlib.suppress(OSError):
            if not _words(group / "cgroup.procs"):
                group.rmdir()


def leave_group(attempt_id: str, rank: int) -> None:
    """Move this process out of the group that `bind` made, and remove the group; without one nothing happens."""
    controller = find_controller(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    if controller is not None and controller.own.name == f"{GROUP_PREFIX}{attempt_id}-{rank}":
        with contextlib.suppress(OSError):
            (controller.own.parent / "cgroup.procs").write_text(f"{os.getpid()}\n")
            controller.own.rmdir()


def counted_threads() -> int | None:
    """Return the threads of NumPy's linear algebra as really in force, or None where they cannot be counted."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return None
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    counts = [int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(counts, default=None)


def period_and_quota(quota: float) -> tuple[int, int]:
    """Return period and quota in microseconds for a share of CPU seconds per second."""
    period = min(LONGEST_PERIOD_US, max(PERIOD_US, round(SMALLEST_QUOTA_US / quota)))
    return period, max(SMALLEST_QUOTA_US, round(quota * period))


def _write_quota(version: int, group: Path, quota: float) -> None:
    period, share = period_and_quota(quota)
    if version == 2:
        (group / "cpu.max").write_text(f"{share} {period}\n")
    else:
        (group / "cpu.cfs_period_us").write_text(f"{period}\n")
        (group / "cpu.cfs_quota_us").write_text(f"{share}\n")


def _own_paths(own_groups: str) -> dict[int, str]:
    """Return this process's group by version: of the `cpu` controller (1), of the unified tree (2)."""
    paths: dict[int, str] = {}
    for line in own_groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            paths[2] = path
        elif "cpu" in controllers.split(","):
            paths[1] = path
    return paths


def _version(kind: str) -> tuple[int, list[str]]:
    words = kind.split()
    version = {"cgroup": 1, "cgroup2": 2}.get(words[0] if words else "", 0)
    return version, words[2].split(",") if len(words) > 2 else []


def _below(mount: Path, mount_root: str, path: str) -> Path:
    """Return a group's folder: a container sees its own group as the mount's root."""
    inside = path.removeprefix(mount_root.rstrip("/")) if path.startswith(mount_root) else ""
    return mount / inside.lstrip("/")


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
