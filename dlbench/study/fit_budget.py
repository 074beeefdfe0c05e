"""How much of this host's memory one worker may take: the limit that is asked for, or a share of what is free."""

from pathlib import Path

from dlbench.scenario.limits import ROOT, describe_limits, read
from dlbench.scenario.settings import Settings

# Left to the system, the launcher and dlbench itself: so much, and this share of what is free.
RESERVE_BYTES = 256 * 2**20
RESERVE_SHARE = 1 / 16
# Free memory is never twice the same; rounded down to this share of all, the answer can be known from the last time.
GRAIN = 1 / 16
# A worker's own threads and messages, which a trial does not have.
WORKER_BYTES = 64 * 2**20
# The search keeps this share of a worker's memory free: a long run's memory is in more pieces than that of few steps,
# and messages to other workers need some.
MARGIN = 0.1


def memory_of_one_worker(settings: Settings, most_workers: int, root: Path = ROOT) -> int:
    """Return the bytes that each worker may take where `most_workers` share this host.

    It is what is free (or the limit of the control group, if that is less), less a reserve, rounded down and divided by
    the workers; the run's `memory_limit_bytes` where that is less.
    """
    total, free = _meminfo(root, "MemTotal"), _meminfo(root, "MemAvailable")
    limit = describe_limits(root)["memory_bytes"]
    if limit is not None:
        total, free = min(total, limit), min(free, limit)
    grain = max(1, int(total * GRAIN))
    usable = int(free * (1 - RESERVE_SHARE)) - RESERVE_BYTES
    share = max(usable // grain * grain, grain) // most_workers
    return share if settings.memory_limit_bytes is None else min(share, settings.memory_limit_bytes)


def memory_of_a_trial(memory_bytes: int) -> int:
    """Return what a trial may take so that a worker with `memory_bytes` survives a full run."""
    return max(int(memory_bytes * (1 - MARGIN)) - WORKER_BYTES, 1)


def _meminfo(root: Path, name: str) -> int:
    for line in read(root / "proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise OSError(f"/proc/meminfo has no {name}")
