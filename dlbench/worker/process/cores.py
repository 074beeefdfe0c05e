"""A worker's share of its host's CPU: bound to its cores, limited below one core, thread pools to match.

All of it before NumPy is imported: thread pools look at affinity and environment once, when their library is loaded.
"""

import importlib.util
import os

from dlbench import cgroups
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
    if place.quota is None:
        return "affinity"
    return "quota" if cgroups.enter_group(f"{attempt_id}-{place.rank}", place.quota) else "affinity"


def leave_group(attempt_id: str, rank: int) -> None:
    """Move this process out of the group that `bind` made, and remove the group; without one nothing happens."""
    cgroups.leave_group(f"{attempt_id}-{rank}")


def counted_threads() -> int | None:
    """Return the threads of NumPy's linear algebra as really in force, or None where they cannot be counted."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return None
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    counts = [int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(counts, default=None)
