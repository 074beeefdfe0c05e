"""What the processor of this machine calls itself."""

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def name(cpuinfo: Path = CPUINFO) -> str:
    """Return the processor's model name, or its architecture where the kernel gives no name."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return platform.machine()
