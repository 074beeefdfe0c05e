"""The telemetry server over real sockets: what is acknowledged is on disk, and unknown clients do no harm."""

import base64
import contextlib
import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from dlbench.errors import UserError
from dlbench.records.assignment import Assignment
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.telemetry import server as server_module
from dlbench.telemetry.attempt_session import AttemptSession
from dlbench.telemetry.messages import (
    COMPACT,
    MOST_ROWS,
    PROTOCOL_VERSION,
    SERVER,
    STEP_FIELDS,
    WORKER,
    Seal,
    pack_steps,
)
from dlbench.telemetry.sender import Connection
from dlbench.telemetry.server import TelemetryServer
from dlbench.telemetry.spool import Spool
from tests.functional.attempt import assignment
from tests.functional.waiting import wait_until

LONGEST_WAIT_S = 60.0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TelemetryServer]:
    # No connection is closed for its silence, where a test closes one for another reason.
    monkeypatch.setattr(server_module, "_HELLO_TIMEOUT_S", 10 * LONGEST_WAIT_S)
    with TelemetryServer() as opened:
        yield opened


def expected(server: TelemetryServer, attempt_id: str = "a1", workers: int = 2) -> Assignment:
    run = RunSpec(scenario="s", label="l", repeat=0, settings=Settings(workers=workers))
    return assignment(run, endpoint=server.endpoint()).model_copy(update={"attempt_id": attempt_id})


def hello_of(assignment: Assignment, worker: int) -> dict[str, Any]:
    place = {"kind": "hello", "attempt_id": assignment.attempt_id, "worker": worker}
    return {**place, "pid": 4, "host": "h", "version": PROTOCOL_VERSION}


class Client:
    """A worker's end of the connection; `token` is what it takes for the attempt's."""

    def __init__(self, assignment: Assignment, worker: int = 0, token: str = "", **changes: Any) -> None:
        assert assignment.endpoint is not None
        self.socket = called((assignment.endpoint.address, assignment.endpoint.port))
        self.answers = self.socket.makefile("rb")
        nonces = json.loads(self.answers.readline())["nonce"], "a1b2"
        known = token or assignment.endpoint.token
        self.sent, self.received = (Seal(known, *nonces, side) for side in (WORKER, SERVER))
        text = json.dumps({**hello_of(assignment, worker), "nonce": nonces[1], **changes})
        self.hello = self.sent.sealed(text.encode() + b"\n")
        self.raw(self.hello)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.answers.close()
        self.socket.close()

    def send(self, *messages: dict[str, Any]) -> None:
        self.lines(*(json.dumps(message).encode() for message in messages))

    def lines(self, *lines: bytes) -> None:
        self.raw(b"".join(self.sent.sealed(line + b"\n") for line in lines))

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ack(self) -> int:
        return int(json.loads(self.received.opened(self.answers.readline().rstrip(b"\n")))["ack"])

    def is_refused(self) -> bool:
        return is_closed(self.socket)


def called(place: tuple[str, int]) -> socket.socket:
    return socket.create_connection(place, timeout=LONGEST_WAIT_S)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side closes; a reset is what follows where it had not read everything."""
    try:
        return connection.recv(1) == b""
    except (ConnectionResetError, BrokenPipeError):
        return True


def note(seq: int, kind: str = "remark", **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "seq": seq, **fields}


def kept(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text().splitlines()]


def wait_for(session: AttemptSession, rank: int, **wanted: Any) -> None:
    wait_until(
        lambda: all(getattr(session.workers()[rank], name) == value for name, value in wanted.items()),
        lambda: f"worker {rank} is {session.workers()[rank]}, wanted {wanted}",
        LONGEST_WAIT_S,
    )


def test_other_hosts_are_told_no_name_of_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "route_out", lambda hosts, family: None)
    monkeypatch.setattr(socket, "getfqdn", lambda: "localhost.localdomain")
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-a")
    assert server_module.own_address(["b"]) == "gpu-a"
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    with pytest.raises(UserError, match="workers on b cannot connect"):
        server_module.own_address(["b"])


def test_what_is_acknowledged_is_on_disk_with_its_worker(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    with server.expect(given, tmp_path / "j"), Client(given, 1) as client:
        assert client.ack() == 0
        client.send(note(1, "sensors", rows=[[1, "cpu", "load", 0.5]]), note(2, text="노트\n"))
        assert client.ack() in (1, 2)
        if kept(tmp_path / "j")[-1]["seq"] != 2:
            assert client.ack() == 2
    first, second = kept(tmp_path / "j")
    assert first == {"worker": 1, "kind": "sensors", "seq": 1, "rows": [[1, "cpu", "load", 0.5]]}
    assert (second["worker"], second["text"]) == (1, "노트\n")


def test_a_second_hello_is_answered_with_what_is_held_and_repeats_are_dropped(
    server: TelemetryServer, tmp_path: Path
) -> None:
    given = expected(server)
    with server.expect(given, tmp_path / "j"):
        with Client(given) as client:
            client.ack()
            client.send(note(1))
            assert client.ack() == 1
        with Client(given) as client:
            assert client.ack() == 1
            client.send(note(1), note(2))
            assert client.ack() == 2
    assert [line["seq"] for line in kept(tmp_path / "j")] == [1, 2]


def test_a_connection_of_the_same_worker_replaces_the_older_connection(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    with server.expect(given, tmp_path / "j") as session, Client(given) as older:
        older.ack()
        with Client(given) as newer:
            newer.ack()
            assert older.is_refused()
            assert session.workers()[0].is_connected
        wait_for(session, 0, is_connected=False)


STRANGERS: tuple[dict[str, Any], ...] = (
    *({"token": token} for token in ("wrong", "é")),
    *({"nonce": nonce} for nonce in (None, "", "a b", "other")),
    *({"attempt_id": attempt_id} for attempt_id in ("other", None)),
    *({"worker": worker} for worker in (2, -1, True, "0")),
    {"kind": "beat"},
)
GARBAGE = (b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff" * 100 + b"\n", b"[1]\n", b"[" * 15_000 + b"\n", b"x" * 40_000)


def test_unknown_clients_are_refused_and_harm_no_worker(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    assert given.endpoint is not None
    with server.expect(given, tmp_path / "j") as session, Client(given) as client:
        client.ack()
        for changes in STRANGERS:
            with Client(given, **{"worker": 1, **changes}) as stranger:
                assert stranger.is_refused(), changes
        for data in GARBAGE:
            with called((given.endpoint.address, given.endpoint.port)) as other:
                assert other.makefile("rb").readline().startswith(b'{"nonce":')
                other.sendall(data)
                assert is_closed(other), data[:20]
        assert not session.workers()[1].has_connected
        client.send(note(1))
        assert client.ack() == 1


def test_a_silent_connection_is_closed(
    server: TelemetryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_HELLO_TIMEOUT_S", 0.2)
    endpoint = server.endpoint()
    with called((endpoint.address, endpoint.port)) as stranger:
        assert stranger.makefile("rb").read().count(b"\n") == 1, "the nonce, and no more"


def claimed(num_rows: int) -> str:
    """Return steps that claim so many rows, of which only the number of the step varies: it counts up."""
    head = num_rows.to_bytes(4, "little") + b"\x02" + b"\x01" * (len(STEP_FIELDS) - 1)
    first = np.zeros(len(STEP_FIELDS), "<f8")
    first[:2] = 1
    return COMPACT + base64.b64encode(head + first.tobytes()).decode()


def random_steps(block: int) -> str:
    """Return the rows of a block of 4,096 steps whose times and losses are random."""
    rows = np.random.default_rng(block).random((4096, len(STEP_FIELDS)))
    rows[:, :5] = 0, 1, 1, 0, 8
    rows[:, 0] = np.arange(1, 4097) + 4096 * block
    rows[:, 5] = np.sort(rows[:, 5]) + block
    return pack_steps(rows).decode()


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[" * 15_000,
        json.dumps({"seq": 1, "kind": "steps", "rows": claimed(2**32 - 1)}).encode(),
    ],
)
def test_a_line_that_is_none_ends_its_attempt_alone(server: TelemetryServer, tmp_path: Path, line: bytes) -> None:
    bad, good = expected(server, "a1"), expected(server, "a2")
    with server.expect(bad, tmp_path / "1") as session, server.expect(good, tmp_path / "2") as other:
        with Client(bad) as client, Client(good) as second:
            client.ack()
            second.ack()
            client.lines(line)
            wait_until(lambda: session.failure, "nothing is said of it", LONGEST_WAIT_S)
            assert session.failure.startswith("worker 0 has sent a line that is none")
            second.send(note(1))
            assert second.ack() == 1
        assert not other.failure
    assert kept(tmp_path / "1") == []


@pytest.mark.parametrize("version", [PROTOCOL_VERSION - 1, None, "3"])
def test_a_worker_of_another_version_ends_its_attempt(
    server: TelemetryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: object
) -> None:
    given = expected(server)
    hello = {**hello_of(given, 1), "version": version}
    monkeypatch.setitem(globals(), "hello_of", lambda *_: hello)
    with server.expect(given, tmp_path / "j") as session, Client(given, 1):
        wait_until(lambda: bool(session.failure), "it is let in", LONGEST_WAIT_S)
        assert session.failure.startswith("worker 1 runs another version of dlbench")
        assert not session.workers()[1].is_connected


def test_as_many_rows_as_a_message_may_have_are_taken(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    with server.expect(given, tmp_path / "j"), Client(given) as client:
        client.ack()
        client.send(note(1, "steps", rows=claimed(MOST_ROWS)))
        assert client.ack() == 1


@pytest.mark.parametrize("data", [b"not sealed\n", b"\n", b"x" * 2**21])
def test_who_does_not_seal_is_closed_out_and_the_worker_comes_again(
    server: TelemetryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(server_module, "_LONGEST_LINE", 2**20)
    given = expected(server)
    with server.expect(given, tmp_path / "j") as session:
        with Client(given) as client:
            client.ack()
            with contextlib.suppress(ConnectionError):
                client.raw(data)
            assert client.is_refused()
        with Client(given) as client:
            client.ack()
            client.send(note(1))
            assert client.ack() == 1
        assert not session.failure
    assert [line["seq"] for line in kept(tmp_path / "j")] == [1]


def test_a_line_that_was_heard_cannot_be_said_again(server: TelemetryServer, tmp_path: Path) -> None:
    """Neither in the connection it was heard in, nor with the hello of that connection in another."""
    given = expected(server)
    with server.expect(given, tmp_path / "j") as session:
        with Client(given) as client:
            client.ack()
            line = client.sent.sealed(json.dumps(note(1)).encode() + b"\n")
            client.raw(line)
            assert client.ack() == 1
            client.raw(line)
            assert client.is_refused()
        assert given.endpoint is not None
        with called((given.endpoint.address, given.endpoint.port)) as stranger:
            assert stranger.makefile("rb").readline().startswith(b'{"nonce":')
            stranger.sendall(client.hello + line)
            assert is_closed(stranger)
        assert not session.failure


def test_strangers_are_capped_and_hinder_no_worker(
    server: TelemetryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More idle connections than this process may have files, and more that send newlines without end."""
    most = server_module._MOST_STRANGERS
    monkeypatch.setattr(server_module, "_MOST_ACCEPTED", 8 * most)
    wait_until(lambda: server._may_accept > most, "no tick", LONGEST_WAIT_S)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    given = expected(server)
    assert given.endpoint is not None
    place = (given.endpoint.address, given.endpoint.port)
    flood = threading.Event()
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        session = stack.enter_context(server.expect(given, tmp_path / "j"))
        client = stack.enter_context(Client(given, 0))
        client.ack()
        for _ in range(4 * most):
            stack.enter_context(called(place))
        for number in range(4):
            thread = threading.Thread(target=send_newlines, args=(place, flood), name=f"stranger {number}")
            thread.start()
            stack.callback(thread.join)
        stack.callback(flood.set)
        wait_until(lambda: len(server._strangers) >= most, "they are not there", LONGEST_WAIT_S)
        for seq in range(1, 20):
            client.send(note(seq))
            assert client.ack() == seq
        with Client(given, 1) as late:
            assert late.ack() == 0
        assert len(server._strangers) <= most + 2
        assert not session.failure


def test_a_worker_does_not_wait_behind_a_flood(
    server: TelemetryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let in three by three within a quarter of a second, two thousand connections would take minutes."""
    monkeypatch.setattr(server_module, "_MOST_ACCEPTED", 1)
    given = expected(server)
    assert given.endpoint is not None
    place = (given.endpoint.address, given.endpoint.port)
    with server.expect(given, tmp_path / "j"):
        for _ in range(2000):
            called(place).close()
        let_in(given, LONGEST_WAIT_S)


@pytest.mark.parametrize("callers", [2, 12])
def test_a_worker_is_let_in_beside_strangers_that_call_at_once_again(
    server: TelemetryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callers: int
) -> None:
    """It always comes when all of this tick are let in: of fewer strangers than that, and of more."""
    monkeypatch.setattr(server_module, "_MOST_ACCEPTED", 4)
    given, flood = expected(server, workers=1), threading.Event()
    assert given.endpoint is not None
    place = (given.endpoint.address, given.endpoint.port)
    with server.expect(given, tmp_path / "j"), contextlib.ExitStack() as stack:
        for number in range(callers):
            thread = threading.Thread(target=send_newlines, args=(place, flood), name=f"stranger {number}")
            thread.start()
            stack.callback(thread.join)
        stack.callback(flood.set)
        let_in(given, 5.0, 0, may_call=lambda: not server._is_listening)


def let_in(given: Assignment, timeout_s: float, worker: int = 1, may_call: Callable[[], bool] = lambda: True) -> None:
    """Wait until a worker is connected; it calls when it may, and again by itself."""
    assert given.endpoint is not None
    late = Connection(given.endpoint, hello_of(given, worker), Spool(), LONGEST_WAIT_S)

    def is_open() -> bool:
        if late._socket is not None or may_call():
            late.pump()
        return late.is_open

    with contextlib.closing(late):
        wait_until(is_open, "it is not let in", timeout_s)


def send_newlines(place: tuple[str, int], until: threading.Event) -> None:
    while not until.is_set():
        with contextlib.suppress(OSError), called(place) as connection:
            while not until.is_set():
                connection.sendall(b"\n" * 1000)


def test_without_a_descriptor_left_those_who_are_connected_go_on(server: TelemetryServer, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    given = expected(server)
    assert given.endpoint is not None
    with server.expect(given, tmp_path / "j"), Client(given, 0) as client, contextlib.ExitStack() as stack:
        client.ack()
        late = stack.enter_context(socket.socket())
        late.settimeout(LONGEST_WAIT_S)
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (late.fileno() + 1, hard))
        late.connect((given.endpoint.address, given.endpoint.port))
        for seq in range(1, 10):
            client.send(note(seq))
            assert client.ack() == seq
        started = time.process_time()
        time.sleep(1)
        assert time.process_time() - started < 0.5, "it asks again and again"
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert late.makefile("rb").readline().startswith(b'{"nonce":')


def test_a_worker_cannot_send_as_another(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    with server.expect(given, tmp_path / "j"), Client(given, 0) as client:
        client.ack()
        client.send(note(1, worker=1))
        client.ack()
    assert [line["worker"] for line in kept(tmp_path / "j")] == [0]


def test_beats_results_errors_and_leave_are_seen(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    with server.expect(given, tmp_path / "j") as session, Client(given, 1) as client:
        client.ack()
        wait_for(session, 1, is_connected=True, has_trained=False, pid=4)
        client.send({"kind": "beat", "phase": "compute", "step": 7, "epoch": 1, "loss": None, "samples_per_s": 9.5})
        wait_for(session, 1, phase="compute", step=7, epoch=1, loss=None, samples_per_s=9.5, has_trained=True)
        client.send(note(1, "error", error="ValueError: x", traceback="T", out_of_memory=False))
        client.send(note(2, "result", result={"steps": 3}), note(3, "bye"))
        wait_for(session, 1, has_left=True, result={"steps": 3})
        assert [error.error for error in session.workers()[1].errors] == ["ValueError: x"]
        assert not session.workers()[0].has_connected
    assert [line["kind"] for line in kept(tmp_path / "j")] == ["error", "result", "bye"]


def test_beats_that_repeat_are_no_progress(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    with server.expect(given, tmp_path / "j") as session, Client(given) as client:
        client.ack()
        client.send({"kind": "beat", "phase": "compute", "step": 7})
        wait_for(session, 0, step=7)
        before = session.workers()[0]
        client.send({"kind": "beat", "phase": "compute", "step": 7, "loss": 0.25})
        wait_for(session, 0, loss=0.25)
        after = session.workers()[0]
        assert after.progressed_at == before.progressed_at
        assert (after.beat_at or 0) > (before.beat_at or 0)


def test_two_attempts_do_not_mix(server: TelemetryServer, tmp_path: Path) -> None:
    one, two = expected(server, "a1"), expected(server, "a2")
    with server.expect(one, tmp_path / "1"), server.expect(two, tmp_path / "2"):
        with Client(one) as first, Client(two) as second:
            for client, mark in ((first, "one"), (second, "two")):
                client.ack()
                client.send(note(1, mark=mark))
                assert client.ack() == 1
        assert one.endpoint is not None
        with Client(two, token=one.endpoint.token) as thief:
            assert thief.is_refused()
    assert [line["mark"] for line in kept(tmp_path / "1") + kept(tmp_path / "2")] == ["one", "two"]


def test_after_its_end_an_attempt_takes_nothing(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    with server.expect(given, tmp_path / "j"):
        client = Client(given)
        client.ack()
    with client:
        assert client.is_refused()
    with Client(given) as late:
        assert late.is_refused()


def test_a_hundred_megabytes_arrive_whole(server: TelemetryServer, tmp_path: Path) -> None:
    given = expected(server)
    lines = 130
    blocks = [random_steps(block) for block in range(lines)]
    begun = time.process_time()
    for rows in (*blocks, *blocks):
        json.loads(json.dumps(note(1, "steps", rows=rows)))
    least_s = time.process_time() - begun
    with server.expect(given, tmp_path / "j"), Client(given, 0) as one, Client(given, 1) as two:
        started, begun = time.monotonic(), time.process_time()
        for client in (one, two):
            assert client.ack() == 0
        for seq, rows in enumerate(blocks, start=1):
            one.send(note(seq, "steps", rows=rows))
            two.send(note(seq, "steps", rows=rows))
        for client in (one, two):
            while client.ack() < lines:
                pass
        took_s, work_s = time.monotonic() - started, time.process_time() - begun
    assert sorted((line["worker"], line["seq"]) for line in kept(tmp_path / "j")) == [
        (worker, seq) for worker in (0, 1) for seq in range(1, lines + 1)
    ]
    assert work_s < 12 * least_s, f"{work_s / least_s:.1f} times what it takes to write and read the lines as JSON"
    assert took_s < LONGEST_WAIT_S


def test_hundreds_of_workers_at_once_lose_nothing(server: TelemetryServer, tmp_path: Path) -> None:
    """More connections than the soft limit of open files would allow; each message is one of every worker's."""
    num_workers = 300
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    given = expected(server, workers=num_workers)
    with contextlib.ExitStack() as stack:
        # Restored last: descriptors above a limit stay open.
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
        stack.enter_context(server.expect(given, tmp_path / "j"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1000), hard))
        clients = [stack.enter_context(Client(given, rank)) for rank in range(num_workers)]
        for client in clients:
            assert client.ack() == 0
        for seq in range(1, 6):
            for client in clients:
                client.send({"kind": "beat", "phase": "compute", "step": seq}, note(seq))
        for client in clients:
            while client.ack() < 5:
                pass
    assert sorted((line["worker"], line["seq"]) for line in kept(tmp_path / "j")) == [
        (worker, seq) for worker in range(num_workers) for seq in range(1, 6)
    ]


def test_more_workers_than_connections_are_refused(
    server: TelemetryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module.resource, "getrlimit", lambda _: (64, 64))
    monkeypatch.setattr(server_module.resource, "setrlimit", Mock(side_effect=ValueError("not allowed")))
    with pytest.raises(UserError, match="64"):
        server.expect(expected(server), tmp_path / "j")
