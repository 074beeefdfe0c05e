"""What says that memory has run out: engines and libraries in exceptions and logs, the kernel by a counter."""

import contextlib
from pathlib import Path

_PROC = Path("/proc")

SIGNS = (
    "CUDA out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "RESOURCE_EXHAUSTED",
    "OOM when allocating",
    "Out of memory while trying to allocate",
    "std::bad_alloc",
    "Cannot allocate memory",
    "failed to allocate memory",
    "Memory allocation still failed",  # OpenBLAS, which then ends the process with exit code 1
)


def says_out_of_memory(text: str) -> bool:
    """Whether a text says that memory ran out, of the host or of a device."""
    return any(sign in text for sign in SIGNS)


def oom_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory, in our control group or on this machine."""
    counters = [_counter(path, "oom_kill") for path in _oom_files()]
    return max(counters, default=0)


def _oom_files() -> list[Path]:
    found = [_PROC / "vmstat"]
    with contextlib.suppress(OSError):
        for line in (_PROC / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                found.append(Path("/sys/fs/cgroup") / path.lstrip("/") / "memory.events")
            elif "memory" in controllers.split(","):
                found.append(Path("/sys/fs/cgroup/memory") / path.lstrip("/") / "memory.oom_control")
    return found


def _counter(path: Path, name: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0
