"""Connections of a process and its children."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlbench.worker.script.connections import is_connected

# Connects to a port and waits; with a family in place of it, a child connects to a server of that family.
PROGRAM = """
import os, socket, subprocess, sys
if sys.argv[1].isdecimal():
    held = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
else:
    is_dual = sys.argv[1] == "AF_INET6" and socket.has_dualstack_ipv6()
    family = getattr(socket, sys.argv[1] if is_dual else "AF_INET")
    server = socket.create_server(("", 0), family=family, dualstack_ipv6=is_dual)
    words = [sys.executable, __file__, str(server.getsockname()[1])]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
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
        ([sys.executable, str(program), "AF_INET"], False),
        # Shown as `::ffff:127.0.0.1` at one end.
        ([sys.executable, str(program), "AF_INET6"], False),
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
