"""One process of a run: finds its place, cores and way to the others, and trains or becomes the user's script.

`python -m dlbench.worker`, started by a launcher, with the assignment in the environment.
"""

import contextlib
import os
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

from dlbench.errors import UserError
from dlbench.records.assignment import Assignment
from dlbench.worker import command, cores, logs, memory, wires
from dlbench.worker.rank import identify, read_assignment

if TYPE_CHECKING:
    from dlbench.worker.stream import Stream

FAILED_EXIT_CODE = 1
# How long a worker that failed waits until what it says of it is home.
LAST_WORDS_S = 5.0


def main() -> int:
    """Run one process of a run; return its exit code."""
    try:
        assignment = read_assignment(os.environ)
        rank = identify(os.environ, assignment.layout).rank
        logs.redirect(assignment, rank)
    except UserError as error:
        sys.stderr.write(f"dlbench: {error}\n")
        return 2
    cores.limit_threads(assignment.layout.intra_op_threads)
    try:
        if assignment.run.settings.memory_limit_bytes is not None:
            # One process may hold several workers, each with its share.
            workers = max(1, len(assignment.layout.places[rank].workers))
            memory.limit(assignment.run.settings.memory_limit_bytes * workers)
        enforced = cores.bind(assignment.layout.places[rank], assignment.attempt_id)
        wires.choose(assignment, rank)
        if assignment.run.settings.command is not None:
            command.execute(assignment.run, enforced)
    except UserError as error:
        return report(assignment, rank, error)
    return work(assignment, rank, enforced)


def work(assignment: Assignment, rank: int, cores_enforced: str) -> int:
    """Train, send everything home, and return the exit code; an exception ends the process at once."""
    from dlbench.worker.observe import Observer
    from dlbench.worker.stream import Stream

    stream = Stream(assignment, rank)
    observer = Observer(assignment, rank, stream)
    observer.start()
    facts = {"cores_enforced": cores_enforced, "python_version": sys.version.split()[0]}
    stream.send({"kind": "facts", "facts": facts | wires.facts(os.environ, assignment.run.settings.collectives)})
    try:
        # Here, not at the top: a trainer that cannot be imported is an error of this run, and is sent home.
        from dlbench.worker.training import train

        result = train(assignment, rank, stream, observer)
    except BaseException as error:  # noqa: BLE001 - user code may raise SystemExit, and that is an early end too
        stream.error(error)
        with contextlib.suppress(OSError):  # a full disk
            traceback.print_exc()
        observer.stop()
        stream.drain(LAST_WORDS_S)
        end_now()
    observer.stop()
    stream.send({"kind": "result", "result": result.model_dump(mode="json")})
    return leave(assignment, rank, stream)


def leave(assignment: Assignment, rank: int, stream: "Stream") -> int:
    """Wait until everything is home, and return the exit code; ends the process where that takes too long."""
    from dlbench.worker.watchdog import DUMP_FRACTION, DeadMan, dump_later

    limits = assignment.run.limits
    if not stream.close(limits.orphan_timeout_s):
        sys.stderr.write("dlbench: not every row was acknowledged\n")
        end_now()
    # What is left is the interpreter's end, in which a library may hang with nobody watching any more.
    dump_later(DUMP_FRACTION * limits.stall_timeout_s, 2)
    DeadMan().arm(limits.orphan_timeout_s + limits.stall_timeout_s)
    cores.leave_group(assignment.attempt_id, rank)
    return 0


def report(assignment: Assignment, rank: int, error: UserError) -> int:
    """Send home why this process cannot begin, and return its exit code."""
    from dlbench.worker.stream import Stream

    sys.stderr.write(f"dlbench: {error}\n")
    stream = Stream(assignment, rank)
    stream.error(error)
    stream.drain(LAST_WORDS_S)
    stream.abandon()
    return FAILED_EXIT_CODE


def end_now() -> NoReturn:
    """End without the interpreter's own end, in which MPI waits for the others; mpirun ends them on seeing the code."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # a full disk
            stream.flush()
    os._exit(FAILED_EXIT_CODE)


if __name__ == "__main__":
    sys.exit(main())
