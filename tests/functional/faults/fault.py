"""One fault: what happens to which worker of which run, and where; and how a process does it to itself.

The environment variable FAULT holds the faults of a study as a JSON list. It is no part of a run: `--resume` without
the variable continues the same study and completes it.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dlbench.records.assignment import VARIABLE, Assignment
from dlbench.worker.process.rank import identify
from tests.functional.paced import fill_memory

FAULT = "FAULT"
GIGABYTE = 10**9
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")
# In the order in which a worker passes them.
STARTING = ("rendezvous", "build", "broadcast")
STEPPING = ("first", "gradient", "all_reduce", "update")
PHASES = (*STARTING, *STEPPING, "evaluate", "finish", "exit")


@dataclass(frozen=True)
class Fault:
    """A kind, in a phase (of a step), in the worker of a rank, in the run of a repeat."""

    kind: str
    phase: str
    rank: int
    step: int
    repeat: int

    def text(self) -> str:
        return as_text([self])


def as_text(faults: Iterable[Fault]) -> str:
    """Return the value of FAULT for faults of different runs of one study."""
    return json.dumps([asdict(fault) for fault in faults])


def of_this_process(environment: Mapping[str, str] = os.environ) -> Fault | None:
    """Return the fault of this process, if it has one; dlbench itself has none."""
    if FAULT not in environment or VARIABLE not in environment:
        return None
    assignment = Assignment.model_validate_json(environment[VARIABLE])
    here = (assignment.run.repeat, identify(environment, assignment.layout))
    faults = (Fault(**fault) for fault in json.loads(environment[FAULT]))
    return next((fault for fault in faults if (fault.repeat, fault.rank) == here), None)


def strike(fault: Fault | None, phase: str, step: int = 0) -> None:
    """Let the fault happen if this is its place; a gigabyte is printed once."""
    is_due = fault is not None and fault.phase == phase and step >= (fault.step if phase in _COUNTED else 0)
    if fault is None or not is_due or fault in _struck:
        return
    _struck.append(fault)
    sys.stdout.write(f"struck by {fault.kind} in {phase} at {time.time():.3f}\n")
    sys.stdout.flush()
    KINDS[fault.kind](fault)


_COUNTED = ("gradient", "all_reduce", "update", "evaluate")
_struck: list[Fault] = []


def _raise(fault: Fault) -> None:
    raise RuntimeError(f"struck in {fault.phase}")


def _stop(_: Fault) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(3600)


def _segfault(_: Fault) -> None:
    ctypes.string_at(0)


def _oom(_: Fault) -> None:
    """Fill a control group of this process's own until the kernel kills it."""
    group = MEMORY_GROUPS / f"faults-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(32 << 20))
    (group / "cgroup.procs").write_text(str(os.getpid()))
    held = []
    while True:
        held.append(bytearray(os.urandom(1 << 10)) * (1 << 10))


def _gigabyte(_: Fault) -> None:
    line = b"x" * 99 + b"\n"
    block = line * 10_000
    for _turn in range(GIGABYTE // len(block)):
        os.write(1, block)


def _hang(_: Fault) -> None:
    time.sleep(3600)


def _hang_gil(_: Fault) -> None:
    """Sleep in C with the interpreter's lock held: no Python thread of this process runs any more."""
    ctypes.PyDLL(None).sleep(3600)


KINDS: dict[str, Callable[[Fault], object]] = {
    "raise": _raise,
    "sysexit0": lambda _: sys.exit(0),
    "exit0": lambda _: os._exit(0),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": _segfault,
    "stop": _stop,
    "memory": lambda _: fill_memory(),
    "oom": _oom,
    "gigabyte": _gigabyte,
    "hang": _hang,
    "hang_gil": _hang_gil,
}
