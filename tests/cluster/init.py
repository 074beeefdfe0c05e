"""The first process of a host: makes what is the host's own, starts its daemons, and waits for the ended.

It runs by its path in namespaces of its own, and needs nothing but Python. When it ends, the kernel ends every other
process of the host. `/proc` is still the machine's when it starts, so that it sees its id outside.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# What a machine has for itself, whatever folders it shares.
OWN = ("/run", "/dev/shm")
_READY_S = 60.0
_POLL_S = 0.02


def mount(*words: str) -> None:
    """Call `mount`."""
    subprocess.run(["mount", *words], check=True)


def introduce(folder: Path) -> None:
    """Write who this process is on the machine."""
    text = Path("/proc/self/stat").read_text()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    pid, started = text.split()[0], text.rpartition(")")[2].split()[19]
    unfinished = folder / "init.json.unfinished"
    unfinished.write_text(json.dumps({"pid": int(pid), "started": int(started), "boot": boot}))
    unfinished.replace(folder / "init.json")


def own_system(folder: Path) -> None:
    """Show this network in `/sys`; control groups, which are mounted below it, stay where they are."""
    groups = folder / "cgroup"
    groups.mkdir(exist_ok=True)
    mount("--rbind", "/sys/fs/cgroup", str(groups))
    mount("-t", "sysfs", "sysfs", "/sys")
    mount("--rbind", str(groups), "/sys/fs/cgroup")
    subprocess.run(["umount", "--lazy", str(groups)], check=True)


def hide(private: Iterable[str], kept: Iterable[str]) -> None:
    """Put an empty folder over each private one, and back into them what every host must see."""
    private = sorted(private)
    hidden = [path for path in sorted(kept) if any(Path(folder) in Path(path).parents for folder in private)]
    handles = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in hidden}
    for path in private:
        # A private folder within another one has vanished with it.
        Path(path).mkdir(parents=True, exist_ok=True)
        mount("-t", "tmpfs", "-o", f"mode={Path(path).stat().st_mode & 0o7777:o}", "tmpfs", path)
    for path, handle in handles.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        # Resolved by `mount`, the handle would become the path, which is empty now.
        argv = ["mount", "--no-canonicalize", "--rbind", f"/proc/self/fd/{handle}", path]
        subprocess.run(argv, check=True, pass_fds=[handle])
        os.close(handle)


def start(daemon: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a daemon, and wait until its sign of readiness is there, if it has one."""
    with Path(daemon["log"]).open("ab") as log:
        process = subprocess.Popen(daemon["argv"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    deadline = time.monotonic() + _READY_S
    while daemon["sign"] and not Path(daemon["sign"]).exists():
        if time.monotonic() > deadline or process.poll() is not None:
            raise RuntimeError(f"{daemon['argv'][0]} made no {daemon['sign']}")
        time.sleep(_POLL_S)
    return process


def main() -> None:
    """Be the host that the file describes, until this process is killed."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    folder = Path(plan["folder"])
    introduce(folder)
    socket.sethostname(plan["name"])
    own_system(folder)
    hide({*OWN, *plan["private"]}, plan["kept"])
    for place, source in plan["files"].items():
        mount("--bind", source, place)
    for path in plan["folders"]:
        Path(path).mkdir(mode=0o755)
    mount("-t", "proc", "proc", "/proc")
    daemons = [start(daemon) for daemon in plan["daemons"]]
    (folder / "ready").write_text(f"{len(daemons)} daemons\n")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(_POLL_S)


if __name__ == "__main__":
    main()
