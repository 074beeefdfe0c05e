"""What a fault must lead to: the status of the run, and the pattern of its reason."""

import re
from dataclasses import dataclass

from tests.functional.faults.fault import STARTING, Fault
from tests.functional.faults.study import Shape

# What a worker is seen doing, by the phase of the fault; the only worker of `single` runs its whole step as one call.
SEEN = {"first": "compute", "gradient": "compute"}
SEEN_IN_ONE_CALL = SEEN | {"all_reduce": "compute", "update": "compute"}
VANISHED = "exited before sending its result"
AFTER = "sent its result, then failed"
LEFT = "which has sent its result and is still running"
# Where all workers are in the same call, it cannot be seen from outside which of them hangs.
ALIKE = ("broadcast", "all_reduce", "finish")
# Python shows an exception at the interpreter's end and goes on, as it does without dlbench; there nothing is lost.
HARMLESS_AT_EXIT = ("raise", "sysexit0", "exit0", "memory")
HANGS = ("hang", "hang_gil")
# The worker reports why it ends, so every step that it completed is received.
REPORTED = ("raise", "sysexit0", "memory")


@dataclass(frozen=True)
class Expected:
    """One status (or more, where two are right) and a pattern that the whole reason matches."""

    statuses: tuple[str, ...]
    reason: str

    def complaint(self, status: str, reason: str) -> str:
        """Return what is wrong with an outcome, or ""."""
        if status not in self.statuses:
            return f"is {status}, not {' or '.join(self.statuses)} ({reason})"
        return "" if re.fullmatch(self.reason, reason, re.DOTALL) else f"reason is {reason!r}"


def expected(fault: Fault, shape: Shape) -> Expected:
    """Return what a fault in a run of this shape must lead to."""
    who, is_exit = f"worker {fault.rank}", fault.phase == "exit"
    if fault.kind == "gigabyte" or (is_exit and fault.kind in HARMLESS_AT_EXIT):
        return Expected(("completed",), "")
    if fault.kind in HANGS:
        return _hang(fault, shape)
    how = AFTER if is_exit else VANISHED
    table = {
        "raise": ("failed", f"{who}: RuntimeError: struck in {fault.phase}"),
        "sysexit0": ("failed", f"{who}: exited early with code 0"),
        "exit0": ("failed", rf"{who} {how} \(exit code 0\).*"),
        "kill": ("failed", rf"{who} {how} \(killed by SIGKILL\).*"),
        "segfault": ("failed", rf"{who} {how} \(killed by SIGSEGV\).*Fatal Python error: Segmentation fault"),
        "stop": ("stalled", rf"{who} \([^()]*\) is stopped: process \d+ was sent a signal such as SIGSTOP"),
        "memory": ("out-of-memory", rf"{who}: (\w+\.)*_?\w*MemoryError.*"),
        "oom": ("out-of-memory", rf"the kernel killed {who} for lack of memory \(SIGKILL\)"),
    }
    status, reason = table[fault.kind]
    return Expected((status,), reason)


def _hang(fault: Fault, shape: Shape) -> Expected:
    """A hang is blamed on the worker that hangs, and on it alone where that can be seen."""
    seen = (SEEN if shape.workers > 1 else SEEN_IN_ONE_CALL).get(fault.phase, fault.phase)
    # With the interpreter's lock held the last heartbeat may be from a moment before.
    place = (
        LEFT if fault.phase == "exit" else f"in phase {seen if fault.kind == 'hang' else '[a-z_]+'}( at step [0-9]+)?"
    )
    before = r"(worker \d+ \([^()]*\), )*" if fault.phase in ALIKE and fault.kind == "hang" else ""
    alone = rf"( \(no heartbeat from worker {fault.rank}\))?(, while .*)?"
    after = ".*" if before else alone
    blamed = rf"{before}worker {fault.rank} \({place}\){after}"
    starting = rf"start-up took longer than startup_timeout_s \({shape.startup_timeout_s:g} s\): {blamed}"
    stalled = rf"no progress for stall_timeout_s \({shape.stall_timeout_s:g} s\): {blamed}"
    if fault.phase in STARTING:
        return Expected(("timeout",), starting)
    if fault.phase == "first" and fault.kind == "hang_gil":
        # It may hang before its first report that it trains.
        return Expected(("stalled", "timeout"), f"{stalled}|{starting}")
    return Expected(("stalled",), stalled)
