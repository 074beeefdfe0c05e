"""Who is connected to whom: processes that are no workers, and a process here."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlbench.worker.script import connections
from dlbench.worker.script.connections import FEWEST, INTERVAL_S, Connections, is_connected
from tests.functional.waiting import wait_until

# Connects to a port and waits; with none, a child of its own connects to it.
PROGRAM = """
import os, socket, subprocess, sys
if len(sys.argv) > 1:
    held = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
else:
    server = socket.create_server(("127.0.0.1", 0))
    child = subprocess.Popen([sys.executable, __file__, str(server.getsockname()[1])], stdin=subprocess.PIPE)
    held = server.accept()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as it:
        yield it


def start(words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_connection_counts_that_leaves_the_process_and_its_children(tmp_path: Path, server: socket.socket) -> None:
    (program := tmp_path / "program.py").write_text(PROGRAM)
    port = str(server.getsockname()[1])
    for words, expected in (
        ([sys.executable, str(program)], False),
        ([sys.executable, str(program), port], True),
        # A shell between.
        (["bash", "-c", f"{sys.executable} {program} {port}; exit"], True),
    ):
        with start(words) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            assert is_connected(process.pid) == expected, words
            assert process.stdin is not None
            process.stdin.close()


@pytest.mark.parametrize(("is_seen", "variables"), [(False, {}), (True, {}), (False, {"PMI_FD": "5"})])
def test_enough_looks_without_a_connection_tell(
    monkeypatch: pytest.MonkeyPatch, is_seen: bool, variables: dict[str, str]
) -> None:
    looks: list[int] = []

    def look(pid: int) -> bool:
        looks.append(pid)
        return is_seen and len(looks) == FEWEST

    monkeypatch.setattr(connections, "INTERVAL_S", 0.001)
    monkeypatch.setattr(connections, "is_connected", look)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (watched := Connections(1)).start()
    assert not watched.stop()
    looks.clear()
    (watched := Connections(1)).start()
    if not variables:
        wait_until(lambda: len(looks) >= FEWEST + (not is_seen))
    assert watched.stop() == (not is_seen and not variables)


def test_what_takes_long_to_look_at_is_looked_at_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(wait_s: float) -> bool:
        waits.append(wait_s)
        return len(waits) == 3

    watched = Connections(1)
    monkeypatch.setattr(watched._stopping, "wait", wait)
    monkeypatch.setattr(connections, "is_connected", lambda _: False)
    # The processor's time, which no other program makes longer.
    monkeypatch.setattr(time, "thread_time", iter([1.0, 1.5, 2.0, 2.001]).__next__)
    watched._run()
    assert waits == [INTERVAL_S, 25.0, INTERVAL_S]
