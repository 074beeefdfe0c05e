"""One process of a run: finds its rank, cores and network interface, and trains or becomes the user's script.

`python -m dlbench.worker`, started by a launcher, with the assignment in the environment.
"""

import contextlib
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dlbench import scratch
from dlbench.errors import UserError, on_one_line
from dlbench.records.assignment import Assignment
from dlbench.records.files import own_log, worker_log
from dlbench.worker.process import cores, memory, network_interface
from dlbench.worker.process.rank import identify, read_assignment
from dlbench.worker.script import command

if TYPE_CHECKING:
    from dlbench.telemetry.reporter import Reporter

FAILED_EXIT_CODE = 1


def main() -> int:
    """Run one process of a run; return its exit code."""
    try:
        assignment = read_assignment(os.environ)
        rank = identify(os.environ, assignment.layout)
        redirect_output(assignment, rank)
    except UserError as error:
        sys.stderr.write(f"dlbench: {on_one_line(error)}\n")  # the last line of a log is quoted
        return 2
    if not assignment.layout.is_here:  # else the launcher's folders are this process's too
        scratch.sweep()
        # A script's temporary files are its own affair.
        scratch.use(os.environ, temporary=assignment.run.settings.command is None)
        tempfile.tempdir = None
    cores.limit_threads(assignment.layout.intra_op_threads)
    try:
        if assignment.run.settings.memory_limit_bytes is not None:
            # One process may hold several workers, each with its share.
            workers = max(1, len(assignment.layout.places[rank].workers))
            memory.limit(assignment.run.settings.memory_limit_bytes * workers)
        enforced = cores.bind(assignment.layout.places[rank], assignment.attempt_id)
        network_interface.choose(assignment, rank)
        if assignment.run.settings.command is not None:
            words = command.prepare(assignment, rank, enforced)
            if not command.mentions_hook(words):
                from dlbench.worker.script import unhooked

                return unhooked.run(assignment, rank, words, leave, enforced)
            command.become(words)
    except UserError as error:
        return report(assignment, rank, error)
    return work(assignment, rank, enforced)


def redirect_output(assignment: Assignment, rank: int) -> None:
    """Send this process's standard output and error to its own log, whether C or Python prints.

    Where no log can be written, which a full disk may do, output goes where the launcher sends it.
    """
    descriptor = _open_log(assignment, rank)
    if descriptor is None:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        # Python buffers what is no terminal; a process that is killed would lose the lines that say why.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _open_log(assignment: Assignment, rank: int) -> int | None:
    """Open the log in the attempt's folder, or among this host's temporary files where that folder is not shared."""
    name = worker_log(rank)
    for path in (Path(assignment.log_folder) / name, own_log(assignment.attempt_id, name)):
        if path is not None and path.is_absolute() and path.parent.is_dir():
            with contextlib.suppress(OSError):
                return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    return None


def work(assignment: Assignment, rank: int, cores_enforced: str) -> int:
    """Train, report everything, and return the exit code; an exception ends the process at once."""
    from dlbench.telemetry.reporter import ERROR_DRAIN_S, Reporter
    from dlbench.worker.observer import Observer

    reporter = Reporter(assignment, rank)
    observer = Observer(assignment, rank, reporter)
    observer.start()
    facts = {"cores_enforced": cores_enforced, "python_version": sys.version.split()[0]}
    reporter.send_facts(facts | network_interface.facts(os.environ, assignment.run.settings.collectives))
    try:
        # Here, not at the top: a trainer that cannot be imported is an error of this run, and is reported.
        from dlbench.worker.train.setup import train

        result = train(assignment, rank, reporter, observer)
    except BaseException as error:  # noqa: BLE001 - user code may raise SystemExit, and that is an early end too
        reporter.error(error)
        with contextlib.suppress(OSError):  # a full disk
            traceback.print_exc()
        observer.stop()
        reporter.drain(ERROR_DRAIN_S)
        end_now()
    observer.stop()
    reporter.send_result(result)
    code = leave(assignment, rank, reporter)
    if assignment.run.settings.communicator == "torch":
        end_now(code)  # threads of Gloo's now and then abort a process that exits, after all is done
    return code


def leave(assignment: Assignment, rank: int, reporter: "Reporter") -> int:
    """Wait until everything is acknowledged, and return the exit code; ends the process where that takes too long."""
    from dlbench.telemetry.watchdog import DUMP_FRACTION, KillTimer, dump_later

    limits = assignment.run.limits
    if not reporter.close(limits.orphan_timeout_s):
        sys.stderr.write("dlbench: not every row was acknowledged\n")
        end_now()
    # The interpreter's end is left, in which a library may hang; the sender's thread no longer watches.
    dump_later(DUMP_FRACTION * limits.stall_timeout_s, 2)
    KillTimer().arm(limits.orphan_timeout_s + limits.stall_timeout_s)
    cores.leave_group(assignment.attempt_id, rank)
    return 0


def report(assignment: Assignment, rank: int, error: UserError) -> int:
    """Report why this process cannot begin, and return its exit code."""
    from dlbench.telemetry.reporter import ERROR_DRAIN_S, Reporter

    sys.stderr.write(f"dlbench: {error}\n")
    reporter = Reporter(assignment, rank)
    reporter.error(error)
    reporter.drain(ERROR_DRAIN_S)
    reporter.abandon()
    return FAILED_EXIT_CODE


def end_now(code: int = FAILED_EXIT_CODE) -> NoReturn:
    """End without the interpreter's own end, in which MPI waits for the others; mpirun ends them on seeing the code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # a full disk
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
