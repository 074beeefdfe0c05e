"""A user's script that does not call the hook: its time, its end, and what it prints or writes are its row.

The worker's process starts it as a child, reports for it, and ends as it ends. A script that calls the hook all the
same, in a module that it imports, reports for itself: `dlbench.worker.begin` sends `TAKES_OVER` to this process, which
then only waits.
"""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from dlbench.records.assignment import Assignment
from dlbench.telemetry.messages import SCRIPT_PHASE
from dlbench.worker.process.cores import leave_group
from dlbench.worker.script.command import cannot_start
from dlbench.worker.script.connections import Connections
from dlbench.worker.script.printed import metrics_of, note_of_other, note_of_workers, stamps, taken_here

# Names the process that reports for a script, in the script's environment, and the signal that ends its reports.
VARIABLE, TAKES_OVER = "DLBENCH_REPORTED_BY", signal.SIGRTMIN + 1
# What the process of a script itself shows, which is another one.
OF_THIS_PROCESS = ("cpu", "memory")
_PR_SET_PDEATHSIG = 1


def run(assignment: Assignment, rank: int, words: Sequence[str], leave: Callable[..., int], enforced: str) -> int:
    """Run the script to its end, and report; return its exit code, or end on its signal.

    Args:
        assignment: What dlbench started this process for.
        rank: Its rank.
        words: The script's command.
        leave: Waits until everything is acknowledged, and returns the exit code.
        enforced: How its cores are enforced.

    Raises:
        UserError: The script cannot be started.
    """
    metrics = metrics_of(assignment) if rank == 0 else {}
    before = stamps(metrics)
    handed_over: list[int] = []
    signal.signal(TAKES_OVER, lambda number, _: handed_over.append(number))
    child, started_s = _start(words), time.monotonic()
    # It has its time to end, and this process ends with it.
    signal.signal(signal.SIGTERM, lambda number, _: _pass_on(child.pid, number))
    # Here, not at the top: the script starts at the same time.
    from dlbench.records import hardware
    from dlbench.records.result import Result
    from dlbench.telemetry.reporter import HeldReporter
    from dlbench.telemetry.watchdog import GroupWatchdog
    from dlbench.worker.observer import Observer
    from dlbench.worker.process import network_interface
    from dlbench.worker.sensors import nvml

    reporter = HeldReporter(assignment, rank, lambda limits: GroupWatchdog(limits, child.pid))
    connections = Connections(child.pid)

    def hand_over(number: int, _: object) -> None:
        handed_over.append(number)
        reporter.abandon()
        connections.stop()

    signal.signal(TAKES_OVER, hand_over)
    if handed_over:
        reporter.abandon()
    # A command that starts its workers itself has one process here.
    elif rank == 0 and len(assignment.layout.places) > 1:
        connections.start()
    reporter.phase = SCRIPT_PHASE
    observer = Observer(assignment, rank, reporter, without=OF_THIS_PROCESS)
    observer.start()
    observer.baseline()
    code, ran_s = child.wait(), time.monotonic() - started_s
    observer.stop()
    is_unconnected = connections.stop()
    if code or handed_over:
        reporter.abandon()
        leave_group(assignment.attempt_id, rank)
        return _end_as(code)
    reporter.release()
    place = assignment.layout.places[rank]
    columns = network_interface.facts(os.environ, assignment.run.settings.collectives) | observer.totals()
    # What NVML said while the script ran; it has closed its GPUs.
    has_computed = {columns["device_utilization"], columns["device_memory_peak_bytes"]} != {None}
    device_name = (has_computed and nvml.names(place)) or hardware.processor()
    columns |= {"cores_enforced": enforced, "device_name": device_name}
    values, stated = taken_here(assignment, metrics, before, ran_s)
    if rank:
        stated = note_of_other(assignment, rank)
    elif note := note_of_workers(assignment.run, is_unconnected=is_unconnected):
        stated["script_note"] = note
    reporter.send_facts({name: value for name, value in (columns | stated).items() if value is not None})
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    scores: dict[str, float | None] = dict(values)
    reporter.send_result(Result(steps=0, has_hook=False, scores=scores, host_memory_peak_bytes=peak))
    return leave(assignment, rank, reporter)


def take_over() -> None:
    """Report for this script from now on, where another process has done so."""
    if (pid := os.environ.pop(VARIABLE, "")).isdecimal() and int(pid) != os.getpid():
        os.kill(int(pid), TAKES_OVER)


def _start(words: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start the script as the first of a new group; the kernel kills it should this process be gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        return subprocess.Popen(
            words,
            env=os.environ | {VARIABLE: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            close_fds=False,  # a launcher may have left it one to talk through
            process_group=0,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )
    except OSError as error:
        raise cannot_start(words, error) from error


def _pass_on(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _end_as(code: int) -> int:
    """End on the signal that ended the script, or return its exit code."""
    if code >= 0:
        return code
    sys.stdout.flush()
    sys.stderr.flush()
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code
