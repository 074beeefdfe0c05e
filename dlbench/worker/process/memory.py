"""A worker's share of its host's memory, enforced by the kernel: an allocation above it fails, no process is killed.

RLIMIT_DATA counts private writable memory, used or not; so what is resident stays below it. Memory that processes
share, and files that are mapped, are not counted.
"""

import resource
from pathlib import Path


def limit(memory_bytes: int) -> None:
    """Let every allocation fail by which this process would take more memory; programs it becomes inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def resident_peak_bytes() -> int:
    """Return the largest resident memory of this process since its start."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        # Inherited over exec, so that it may be what another program was.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
