"""Processes by id and start time, so that an id which the kernel has given away again is never ended."""

import os
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_POLL_S = 0.01


class StillRunningError(RuntimeError):
    """Processes that could not be ended."""


@dataclass(frozen=True)
class Identity:
    """One process: its id, and the boot and the clock tick it was started in."""

    pid: int
    started: int
    boot: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return identity_of(self.pid) == self


def identity_of(pid: int) -> Identity | None:
    """Return who a process is, or None where there is none or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]), _BOOT.read_text().strip())


def end_all(find: Callable[[], Collection[Identity]], timeout_s: float = 60.0) -> None:
    """Kill what `find` finds, and what it finds then, until it finds nothing and all that it found has ended.

    Raises:
        StillRunningError: Something was still there after the time-out.
    """
    deadline = time.monotonic() + timeout_s
    # A process that is ending leaves its namespaces, and so may be found no more, before it has ended.
    alive: set[Identity] = set()
    while alive := {who for who in {*alive, *find()} if who.is_alive}:
        if time.monotonic() > deadline:
            raise StillRunningError(f"could not end the processes {sorted(who.pid for who in alive)}")
        for who in alive:
            _kill(who)
        time.sleep(_POLL_S)


def _kill(who: Identity) -> None:
    """Kill a process: by a handle that was taken before it was looked at, so that nothing can come between."""
    try:
        handle = os.pidfd_open(who.pid)
    except ProcessLookupError:
        return
    try:
        if who.is_alive:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has just ended by itself
    finally:
        os.close(handle)
