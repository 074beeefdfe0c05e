"""A worker that hangs writes its stacks, and one that has lost dlbench ends itself.

Three means, from the kindest to the surest:

- No progress for most of `stall_timeout_s`: `faulthandler` writes all stacks into the worker's log, from a C thread
  that does not need the interpreter's lock.
- No connection for `orphan_timeout_s`: the sender's thread writes all stacks and ends the process.
- That thread cannot run (a library keeps the interpreter's lock, the process is stopped): a POSIX timer, armed anew
  at each contact, sends SIGKILL. The kernel keeps it, so it works in a stopped process too, needs no second process,
  and collides with no signal a user's code may use (`setitimer` would take SIGALRM).
"""

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
from time import monotonic

from dlbench.scenario.run_spec import Limits

ORPHAN_EXIT_CODE = 81
# Stacks are written a little before the launching side would end the run for the same reason.
DUMP_FRACTION = 0.8
# The kernel's timer leaves the sender's thread this much time to end the process first.
MARGIN_S = 2.0

_CLOCK_MONOTONIC = 1
_SIGEV_SIGNAL = 0


class _Sigevent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_char * 48),
    )


class _Itimerspec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class KillTimer:
    """A timer of the kernel that kills this process unless it is armed anew in time, or with 0."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("librt.so.1", use_errno=True)  # since glibc 2.34 it leads to the C library
        self._timer = ctypes.c_void_p()
        event = _Sigevent(None, signal.SIGKILL, _SIGEV_SIGNAL, b"")
        self._call("timer_create", _CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer))

    def arm(self, delay_s: float) -> None:
        """Kill this process in this many seconds; 0 disarms."""
        seconds, fraction = divmod(delay_s, 1)
        value = _Itimerspec(0, 0, int(seconds), int(fraction * 1e9))
        self._call("timer_settime", self._timer, 0, ctypes.byref(value), None)

    def close(self) -> None:
        """Give the timer back."""
        self._call("timer_delete", self._timer)

    def _call(self, name: str, *arguments: object) -> None:
        if getattr(self._library, name)(*arguments) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"{name}: {os.strerror(error)}")


def dump_later(delay_s: float, descriptor: int) -> None:
    """Write all stacks to a file in this many seconds, unless called again; without memory for its thread, do nothing.

    It is no reason to end a worker, which is about to say itself that it has no memory left.
    """
    with contextlib.suppress(RuntimeError):  # "unable to start watchdog thread"
        faulthandler.dump_traceback_later(delay_s, file=descriptor)


class Watchdog:
    """Watches the progress and the connection of this process; called by the sender's thread at each turn."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stuck_s = limits.orphan_timeout_s + max(limits.stall_timeout_s, limits.startup_timeout_s)
        self._log = os.dup(2)  # stays the worker's log whatever the user's code does to sys.stderr
        self._kill_timer = KillTimer()
        self._mark: tuple[str, int] | None = None
        self._contact_at = monotonic()
        self._was_open: bool | None = None

    def progress(self, mark: tuple[str, int]) -> None:
        """Take note of phase and step; while they do not change, the time to the dump of all stacks runs."""
        if mark != self._mark:
            self._mark = mark
            dump_later(DUMP_FRACTION * self._limits.stall_timeout_s, self._log)

    def contact(self, is_open: bool, reason: str) -> None:
        """Take note of whether the connection is open; ends the process where it has been gone for too long."""
        if is_open:
            self._contact_at = monotonic()
            # While this thread cannot run, dlbench may still be alive: leave its stall check enough time.
            self._kill_timer.arm(self._stuck_s)
        elif monotonic() - self._contact_at > self._limits.orphan_timeout_s:
            self._end(reason)
        elif self._was_open is not False:
            self._kill_timer.arm(self._limits.orphan_timeout_s + MARGIN_S)
        self._was_open = is_open

    def stop(self) -> None:
        """Watch no more."""
        faulthandler.cancel_dump_traceback_later()
        self._kill_timer.arm(0)
        self._kill_timer.close()
        os.close(self._log)

    def _end(self, reason: str) -> None:
        seconds = self._limits.orphan_timeout_s
        os.write(self._log, f"dlbench: no connection to dlbench for {seconds:g} s ({reason}); ending\n".encode())
        faulthandler.dump_traceback(self._log, all_threads=True)
        sys.stdout.flush()
        os._exit(ORPHAN_EXIT_CODE)


class GroupWatchdog(Watchdog):
    """Watches a process that only waits for a group of others: these end with it, and it has no progress to show.

    Args:
        limits: The run's.
        group: The group of the others.
    """

    def __init__(self, limits: Limits, group: int) -> None:
        super().__init__(limits)
        self._group = group

    def progress(self, mark: tuple[str, int]) -> None:
        """Nothing is known of it."""

    def _end(self, reason: str) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)
        super()._end(reason)
