"""A stranger at the telemetry port for a whole study: another user's process, which does one thing without end."""

import contextlib
import json
import os
import random
import resource
import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_double
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import click
import psutil

from dlbench.telemetry.messages import WORKER, Seal
from tests.functional.faults.study import Shape, Study
from tests.functional.waiting import wait_until
from tests.soak.page import in_memory, machine, table, write_table

COLUMNS = (
    "stranger", "connections", "sent_mb", "runs", "completed", "step_rows", "wall_s", "dlbench_cpu", "wrong",
)  # fmt: skip
SHAPE = Shape(workers=2, algorithm="ring", epochs=6, repeats=5, startup_timeout_s=60.0, stall_timeout_s=40.0)
# As on many a login node; a stranger of a machine has more.
MOST_FILES = 1024
IDLE_CONNECTIONS = 1500
CONNECTIONS_PER_S = 1000
NOBODY = 65534
LONGEST_STUDY_S = 300.0


@dataclass
class Caller:
    """Calls a port and sends; counts what it did where another process can read it."""

    port: int
    connections: c_double
    sent_bytes: c_double

    def call(self) -> socket.socket:
        """Return a connection; waits where none is to be had."""
        while True:
            made = socket.socket()
            made.settimeout(5)
            try:
                made.connect(("127.0.0.1", self.port))
            except OSError:
                made.close()
                time.sleep(0.01)
            else:
                self.connections.value += 1
                return made

    def send(self, connection: socket.socket, data: bytes) -> bool:
        """Return whether it could be sent."""
        try:
            connection.sendall(data)
        except OSError:
            return False
        self.sent_bytes.value += len(data)
        return True


def idle(caller: Caller) -> None:
    """Hold as many connections as can be had, and call again for each that is closed."""
    held: list[socket.socket] = []
    poll = select.poll()
    while True:
        while len(held) < IDLE_CONNECTIONS:
            held.append(caller.call())
            held[-1].setblocking(False)
            poll.register(held[-1], select.POLLIN)
        closed = {number for number, _ in poll.poll(100)}
        for connection in [connection for connection in held if connection.fileno() in closed]:
            if _is_closed(connection):
                poll.unregister(connection)
                held.remove(connection)
                connection.close()


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def sends(data: Callable[[random.Random], bytes], number: int = 4) -> Callable[[Caller], None]:
    """Return a stranger that sends on so many connections, each until it is closed."""

    def send(caller: Caller) -> None:
        rng, held = random.Random(1), [caller.call() for _ in range(number)]
        while True:
            for place, connection in enumerate(held):
                if not caller.send(connection, data(rng)):
                    connection.close()
                    held[place] = caller.call()

    return send


def slow(caller: Caller) -> None:
    """Send a hello on a hundred connections, a byte a second."""
    held = [caller.call() for _ in range(100)]
    while True:
        for place, connection in enumerate(held):
            if not caller.send(connection, b"{"):
                connection.close()
                held[place] = caller.call()
        time.sleep(1)


def guess(caller: Caller) -> None:
    """Say hello as a worker would, with a code made of a token that was guessed, and rows at once after it."""
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError), contextlib.closing(caller.call()) as connection:
            nonce = json.loads(connection.makefile("rb").readline())["nonce"]
            seal = Seal(random.randbytes(16).hex(), nonce, "a1b2", WORKER)
            hello = {"kind": "hello", "attempt_id": "a1", "worker": 0, "pid": 4, "host": "h", "version": 1}
            for message in (hello | {"nonce": "a1b2"}, {"kind": "leave", "seq": 1}):
                caller.send(connection, seal.sealed(json.dumps(message).encode() + b"\n"))
            connection.recv(4096)


def knock(caller: Caller) -> None:
    """Connect and go, a thousand times a second."""
    begun = time.monotonic()
    while True:
        with contextlib.suppress(OSError):
            caller.call().close()
        time.sleep(max(0.0, begun + caller.connections.value / CONNECTIONS_PER_S - time.monotonic()))


STRANGERS: dict[str, Callable[[Caller], None] | None] = {
    "none": None,
    f"{IDLE_CONNECTIONS:,} idle connections": idle,
    "newlines without end": sends(lambda _: b"\n" * 1000),
    "a line without end": sends(lambda _: b"x" * 4096),
    "random bytes": sends(lambda rng: rng.randbytes(512)),
    "a byte a second": slow,
    "a hundred that call at once again": sends(lambda rng: rng.randbytes(8192), 100),
    "guessed tokens": guess,
    f"{CONNECTIONS_PER_S:,} connections a second": knock,
}


@click.command()
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder for strangers.csv and README.md; default: none."
)
def strangers(output: Path | None) -> None:
    """Strangers at the telemetry port, each for a whole study (root, for them to be another user).

    Exit code 0 if every run of every study is completed and no row is lost.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        for place, name in enumerate(STRANGERS):
            row, complaints = _visited(Path(folder) / str(place), name)
            click.echo("\n    WRONG: ".join(["  ".join(row), *complaints]))
            rows.append(row)
    if output is not None:
        write_table(output / "strangers.csv", COLUMNS, rows)
        (output / "README.md").write_text(page(rows), encoding="utf-8")
    sys.exit(any(row[-1] != "0" for row in rows))


def page(rows: Sequence[Sequence[str]]) -> str:
    """Return the page: what was done, and a row for each study."""
    how = (
        f"`python -m tests.soak strangers` on {machine()}. Each study is {SHAPE.repeats} short runs with two workers; "
        f"dlbench may have {MOST_FILES:,} files open. From its first moment to its end a process of another user does "
        "to its telemetry port what the table says. `dlbench_cpu`: what dlbench itself takes of a core; the first row "
        "is a study without a stranger. `wrong`: how much is not as it must be (every run completed at the first "
        "attempt, every step row of every worker kept, nothing left running or in memory)."
    )
    return "\n\n".join([f"# {len(rows) - 1} strangers at the telemetry port", how, table(COLUMNS, rows)]) + "\n"


def _visited(folder: Path, name: str) -> tuple[list[str], list[str]]:
    """Make a study while a stranger is there; return its row and what is wrong."""
    study, before, begun = Study(folder, SHAPE), in_memory(), time.monotonic()
    with study, contextlib.ExitStack() as stack:
        process = study.start()
        stack.callback(process.kill)
        seen = psutil.Process(process.pid)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES))
        wait_until(lambda: _ports(seen) or process.poll() is not None, lambda: study.output, 30.0)
        caller = stack.enter_context(_at(_ports(seen)[0], STRANGERS[name]))
        cpu_s = 0.0
        while process.poll() is None and time.monotonic() < begun + LONGEST_STUDY_S:
            with contextlib.suppress(psutil.NoSuchProcess):
                times = seen.cpu_times()
                cpu_s = times.user + times.system
            time.sleep(0.1)
        wall_s, code = time.monotonic() - begun, process.poll()
        counts = [f"{caller.connections.value:,.0f}", f"{caller.sent_bytes.value / 1e6:,.1f}"]
        completed, step_rows = [row["status"] for row in study.rows()].count("completed"), study.num_rows()
        wrong = [*_complaints(study, code), *(f"left in shared memory: {path}" for path in in_memory() - before)]
        if STRANGERS[name] is not None and not caller.connections.value:
            wrong.append("the stranger was not there")
    rates = [f"{wall_s:.1f}", f"{cpu_s / wall_s:.0%}"]
    return [name, *counts, str(SHAPE.repeats), str(completed), f"{step_rows:,}", *rates, str(len(wrong))], wrong


def _complaints(study: Study, code: int | None) -> Iterator[str]:
    if code != 0:
        yield f"dlbench ended with exit code {code}: {study.output[-1000:]}"
    statuses = [(row["attempt"], row["status"]) for row in study.rows()]
    if statuses != [("1", "completed")] * SHAPE.repeats:
        yield f"its runs are {statuses}"
    if (found := study.num_rows()) != (wanted := SHAPE.repeats * SHAPE.workers * SHAPE.steps):
        yield f"{found} step rows of {wanted}"
    yield from study.lost_rows()
    if left := study.left_running():
        yield f"processes {left} are still running"


def _ports(process: psutil.Process) -> list[int]:
    """Return the ports that a process listens on; none once it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return [one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    return []


@contextlib.contextmanager
def _at(port: int, act: Callable[[Caller], None] | None) -> Iterator[Caller]:
    """Have a process of another user act at a port for as long as this lasts."""
    shared = get_context("fork")
    caller = Caller(port, shared.Value(c_double, lock=False), shared.Value(c_double, lock=False))

    def come() -> None:
        assert act is not None
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if os.getuid() == 0:
            os.setuid(NOBODY)
        act(caller)

    process = shared.Process(target=come, name="stranger", daemon=True)
    if act is not None:
        process.start()
    try:
        yield caller
    finally:
        if act is not None:
            process.kill()
            process.join()
