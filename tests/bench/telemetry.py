"""Thousands of made-up workers that report to one telemetry server: rows lost, CPU, memory, delay of acknowledgements.

The workers live in few processes of their own, on this machine: what they cost is not the server's, but they share
its cores. Each reports as a real one does: twice a second a heartbeat and its rows, ten of them a second.
"""

import multiprocessing
import os
import resource
import selectors
import socket
import tempfile
import threading
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from dlbench.records.assignment import Assignment, Endpoint
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.telemetry.journal import read_journal
from dlbench.telemetry.messages import CODE_LENGTH, STEP_FIELDS, WORKER, Seal, decode, encode, new_nonce, pack_steps
from dlbench.telemetry.server import TelemetryServer

PROCESSES = 2
ROWS_PER_S = 10
FLUSH_INTERVAL_S = 0.5
ROWS_PER_MESSAGE = round(ROWS_PER_S * FLUSH_INTERVAL_S)
# Time to connect all workers, and to wait for the last acknowledgements.
PATIENCE_S = 120.0
OTHER_DESCRIPTORS = 256


@dataclass(frozen=True)
class Load:
    """What one server did with the reports of `num_workers` workers in `seconds`.

    Attributes:
        rows_lost: Rows that a worker sent and the journal has not, or has twice.
        server_cpu: CPU seconds of the server's process per second.
        server_memory_bytes: What its resident memory grew by at most.
        delays_s: From sending a message to reading its acknowledgement, of every message [n].
        lag_s: How much later than planned the made-up workers sent, at the 99th percentile.
        journal_bytes_per_row: Size of the journal, by rows of steps.
    """

    num_workers: int
    seconds: float
    rows: int
    rows_lost: int
    server_cpu: float
    server_memory_bytes: int
    delays_s: np.ndarray
    lag_s: float
    journal_bytes_per_row: float

    def line(self) -> str:
        """Return the numbers as a line of text."""
        p50, p99 = np.percentile(self.delays_s, [50, 99])
        return (
            f"{self.num_workers} workers, {self.rows / self.seconds:.0f} rows/s for {self.seconds:g} s: "
            f"{self.rows_lost} of {self.rows} rows lost, server {self.server_cpu:.0%} of a core and "
            f"{self.server_memory_bytes / 2**20:.0f} MiB, acknowledged after {1e3 * p50:.0f} ms (median), "
            f"{1e3 * p99:.0f} ms (99th percentile), workers late by {1e3 * self.lag_s:.0f} ms, "
            f"{self.journal_bytes_per_row:.0f} bytes of journal per row"
        )


@dataclass
class Worker:
    """One made-up worker; `unacknowledged` holds (number, when it was sent)."""

    rank: int
    connection: socket.socket
    seal: Seal
    number: int = 0
    incoming: bytes = b""
    unacknowledged: deque[tuple[int, float]] = field(default_factory=deque)

    def send(self, step: int, rows: bytes) -> float:
        """Send a heartbeat and a block of rows; return the moment."""
        self.number += 1
        beat = b'{"kind":"beat","phase":"compute","step":%d,"epoch":1,"loss":0.5,"accuracy":null}\n' % step
        moment = time.monotonic()
        self.connection.sendall(self.seal.sealed(beat) + self.seal.sealed(b'{"seq":%d,' % self.number + rows))
        self.unacknowledged.append((self.number, moment))
        return moment

    def acknowledge(self, delays_s: list[float]) -> None:
        """Read acknowledgements and add the delay of each message."""
        data = self.connection.recv(2**16)
        if not data:
            raise ConnectionError("the server closed the connection")
        *lines, self.incoming = (self.incoming + data).split(b"\n")
        number, now = acknowledged(lines[-1]) if lines else 0, time.monotonic()
        while self.unacknowledged and self.unacknowledged[0][0] <= number:
            delays_s.append(now - self.unacknowledged.popleft()[1])


def measure(num_workers: int, seconds: float) -> Load:
    """Let `num_workers` workers report for so many seconds, and count what arrived."""
    allow_connections(num_workers)
    run = RunSpec(scenario="bench", label="", repeat=0, settings=Settings(workers=num_workers))
    places = tuple(Place(rank=rank, workers=(rank,), local_index=rank) for rank in range(num_workers))
    layout = Layout(places=places, intra_op_threads=1, inter_op_threads=1)
    turns = round(seconds / FLUSH_INTERVAL_S)
    shares = [range(start, num_workers, PROCESSES) for start in range(PROCESSES)]
    with (
        tempfile.TemporaryDirectory(prefix="dlbench-bench-") as folder,
        ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool,
        TelemetryServer() as server,
    ):
        # Interpreters start before anything is measured.
        list(pool.map(abs, range(PROCESSES)))
        journal, endpoint = Path(folder) / "journal.jsonl", server.endpoint()
        assignment = Assignment(run=run, attempt=1, attempt_id="bench", layout=layout, endpoint=endpoint)
        with server.expect(assignment, journal), Memory() as memory:
            cpu_s, started = time.process_time(), time.monotonic()
            found = list(pool.map(report, [endpoint] * PROCESSES, shares, [turns] * PROCESSES))
            cpu_s, took_s = time.process_time() - cpu_s, time.monotonic() - started
        steps, size = read_journal(journal).steps, journal.stat().st_size
    rows = turns * ROWS_PER_MESSAGE
    expected = np.arange(1.0, rows + 1)
    lost = sum(rows if rank not in steps else lost_of(steps[rank][:, 0], expected) for rank in range(num_workers))
    return Load(
        num_workers=num_workers,
        seconds=seconds,
        rows=rows * num_workers,
        rows_lost=lost,
        server_cpu=cpu_s / took_s,
        server_memory_bytes=memory.most_bytes,
        delays_s=np.concatenate([delays for delays, _ in found]),
        lag_s=float(np.percentile(np.concatenate([lags for _, lags in found]), 99)),
        journal_bytes_per_row=size / (rows * num_workers),
    )


def lost_of(found: np.ndarray, expected: np.ndarray) -> int:
    """Return how many step numbers are missing, or there more than once."""
    return len(np.setdiff1d(expected, found)) + len(found) - len(np.unique(found))


def report(endpoint: Endpoint, ranks: range, turns: int) -> tuple[np.ndarray, np.ndarray]:
    """Be these workers for so many turns; return the delay of every acknowledgement and the lag of every message."""
    allow_connections(len(ranks))
    generator = np.random.default_rng(ranks.start)
    delays_s: list[float] = []
    lags_s: list[float] = []
    with selectors.DefaultSelector() as selector:
        workers = [connected(endpoint, rank, selector) for rank in ranks]
        delay_s = FLUSH_INTERVAL_S / len(workers)
        started = time.monotonic()
        for turn in range(turns):
            rows = block(turn, generator)
            for place, worker in enumerate(workers):
                due = started + turn * FLUSH_INTERVAL_S + place * delay_s
                serve(selector, due, delays_s)
                lags_s.append(worker.send((turn + 1) * ROWS_PER_MESSAGE, rows) - due)
        deadline = time.monotonic() + PATIENCE_S
        while any(worker.unacknowledged for worker in workers) and time.monotonic() < deadline:
            serve(selector, time.monotonic() + 0.05, delays_s)
        for worker in workers:
            worker.connection.close()
    return np.array(delays_s), np.array(lags_s)


def serve(selector: selectors.BaseSelector, until: float, delays_s: list[float]) -> None:
    """Read acknowledgements until a moment, and at least once."""
    while True:
        for key, _ in selector.select(max(0.0, until - time.monotonic())):
            key.data.acknowledge(delays_s)
        if time.monotonic() >= until:
            return


def connected(endpoint: Endpoint, rank: int, selector: selectors.BaseSelector) -> Worker:
    """Return a worker that the server has let in."""
    connection = socket.create_connection((endpoint.address, endpoint.port), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    nonce, own = decode(connection.recv(100))["nonce"], new_nonce()
    seal = Seal(endpoint.token, nonce, own, WORKER)
    hello = {"kind": "hello", "nonce": own, "attempt_id": "bench", "worker": rank, "pid": os.getpid()}
    connection.sendall(seal.sealed(encode({**hello, "host": socket.gethostname(), "version": 3, "oom_kills": None})))
    if acknowledged(connection.recv(100)) != 0:
        raise ConnectionError("the server does not let the worker in")
    worker = Worker(rank, connection, seal)
    selector.register(connection, selectors.EVENT_READ, worker)
    return worker


def acknowledged(line: bytes) -> int:
    """Return the number that a line acknowledges, whoever sealed it."""
    return int(decode(line[CODE_LENGTH:])["ack"])


def block(turn: int, generator: np.random.Generator) -> bytes:
    """Return the rows of one message as the end of its line: what changes from step to step, and what does not."""
    rows = np.full((ROWS_PER_MESSAGE, len(STEP_FIELDS)), np.nan)
    place = {name: index for index, name in enumerate(STEP_FIELDS)}
    rows[:, place["step"]] = np.arange(1, ROWS_PER_MESSAGE + 1) + turn * ROWS_PER_MESSAGE
    for name, value in {"num_steps": 1, "epoch": 1, "phase": 2, "num_samples": 32}.items():
        rows[:, place[name]] = value
    measured = ("started_at_s", "step_time_s", "data_wait_s", "compute_time_s", "communication_time_s")
    for name in (*measured, "update_time_s", "loss"):
        rows[:, place[name]] = generator.random(ROWS_PER_MESSAGE)
    return b'"kind":"steps","rows":"%b"}\n' % pack_steps(rows)


def allow_connections(number: int) -> None:
    """Raise this process's limit of open files so that it may have so many connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number + OTHER_DESCRIPTORS, hard))


class Memory:
    """Follows the resident memory of this process; `most_bytes` is what it grew by at most."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._end.wait(0.5):
            self.most_bytes = max(self.most_bytes, self._process.memory_info().rss - self._before)
