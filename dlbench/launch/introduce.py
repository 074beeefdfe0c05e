"""`python -m dlbench.launch.introduce FILE...`: what a host says of itself when dlbench asks it over ssh.

Its cores, its hardware and versions, its kernel, and which files of the user's own it has.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dlbench.launch.sources import hashes
from dlbench.records.machine import describe
from dlbench.scenario.limits import read, usable_cores

# Before the answer: a shell that logs in may print anything.
MARK = "dlbench-host: "
# The same in all containers and namespaces of one machine, and of no other machine.
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def kernel() -> str:
    """Return what tells the kernel this process runs on from all others; empty where nothing does."""
    return read(_BOOT)


def main(files: Sequence[str]) -> None:
    """Print the answer on one line."""
    told = {"cores": usable_cores(), "machine": describe(), "kernel": kernel(), "files": hashes(files)}
    print(MARK + json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
