"""A worker's share of its host's memory, enforced by the kernel: an allocation above it fails, no process is killed.

RLIMIT_DATA counts private writable memory, used or not; so what is resident stays below it. Memory that processes
share, and files that are mapped, are not counted.
"""

import resource

from dlbench.worker.sensors.memory import STATUS, memory_of


def limit(memory_bytes: int) -> None:
    """Let every allocation fail by which this process would take more memory; programs it becomes inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def resident_peak_bytes() -> int | None:
    """Return the largest resident memory of this process since its start; None where the kernel does not say."""
    peak = dict(memory_of(STATUS.read_text())).get("peak_rss_bytes")
    return None if peak is None else int(peak)
