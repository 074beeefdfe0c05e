"""Nothing of a test cluster is left, however its maker ended; and what a machine lacks is named."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster import needs, network, testing
from tests.cluster.folder import Folder
from tests.cluster.identity import Identity, end_all, identity_of
from tests.cluster.make import make
from tests.cluster.needs import lacking
from tests.cluster.take_down import running, take_down
from tests.cluster.testing import cluster

# A cluster whose maker was killed is taken down by the next test that makes one, be it in another process.
pytestmark = pytest.mark.alone

# Prints its cluster's name, and waits to be killed.
MAKER = """
import time
from tests.cluster.testing import cluster
with cluster(2) as made:
    print(made.name, flush=True)
    time.sleep(600)
"""


def remains(name: str) -> list[str]:
    """Return what is left of a cluster."""
    folder = [str(Folder(name).path)] if Folder(name).path.exists() else []
    return network.namespaces(name) + network.links(name) + folder


def assert_gone(name: str, processes: list[Identity]) -> None:
    assert len(processes) >= 6, "a first process, an sshd and what started them, on each of two hosts"
    assert [who for who in processes if who.is_alive] == []
    assert remains(name) == []


def command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.cluster", *words]
    return subprocess.run(argv, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False)


@contextmanager
def killed_maker() -> Iterator[tuple[str, list[Identity]]]:
    """A cluster whose maker was killed with -9."""
    argv = [sys.executable, "-c", MAKER]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        try:
            name = maker.stdout.readline().strip()
        finally:
            maker.send_signal(signal.SIGKILL)
    assert name
    try:
        yield name, running(name)
    finally:
        take_down(name)


def test_nothing_is_left_after_a_test_that_passed() -> None:
    with cluster(2, slurm=True) as made:
        first, second = made.hosts
        first.run(["srun", "-N2", "hostname"])
        sleeping = second.start(["sleep", "600"], output=second.folder / "sleep.log")
        processes = running(made.name)
    sleeping.wait(timeout=60)
    assert_gone(made.name, processes)


def test_nothing_is_left_after_a_test_that_raised() -> None:
    seen: list[tuple[str, list[Identity]]] = []
    with pytest.raises(ZeroDivisionError):
        _use_and_raise(seen)
    assert_gone(*seen[0])


def _use_and_raise(seen: list[tuple[str, list[Identity]]]) -> None:
    with cluster(2) as made:
        seen.append((made.name, running(made.name)))
        made.hosts[0].die()
        made.hosts[1].cut()
        _ = 1 / 0


@pytest.mark.usefixtures("shared_hosts")
def test_nothing_is_left_after_a_kill_and_the_command() -> None:
    with killed_maker() as (name, processes):
        assert f"{name}  2 hosts" in command("list").stdout
        assert "its maker is gone" in command("list").stdout
        assert command("down", name).stdout == f"{name} is gone\n"
        assert_gone(name, processes)
        again = command("down", name)
        assert (again.returncode, again.stderr[:36]) == (2, "Error: name one of the clusters ther")


@pytest.mark.usefixtures("shared_hosts")
def test_nothing_is_left_after_a_kill_and_the_next_test() -> None:
    with killed_maker() as (name, processes):
        with cluster(1):
            pass
        assert_gone(name, processes)


def test_nothing_is_left_after_a_test_run_that_was_terminated(tmp_path: Path) -> None:
    """`kill` and `timeout` send SIGTERM."""
    test = tmp_path / "test_that_waits.py"
    test.write_text("def test_waits(trio):\n    print(trio.name, flush=True)\n    __import__('time').sleep(600)\n")
    plugins = ["-p", "no:cacheprovider", "-p", "tests.functional.conftest"]
    argv = [sys.executable, "-m", "pytest", "-q", "-s", *plugins, str(test)]
    with subprocess.Popen(argv, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        name = run.stdout.readline().strip()
        processes = running(name)
        run.terminate()
        run.communicate(timeout=60)
    assert_gone(name, processes)


@pytest.mark.usefixtures("shared_hosts")
def test_nothing_is_left_when_a_host_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def fails(name: str, address: str) -> None:
        names.append(name)
        raise RuntimeError("no bridge")

    monkeypatch.setattr(network, "make_bridge", fails)
    with pytest.raises(RuntimeError, match="no bridge"):
        make(2, with_slurm=False)
    assert remains(names[0]) == []


@pytest.mark.usefixtures("shared_hosts")
def test_up_leaves_a_cluster_up(tmp_path: Path) -> None:
    made = command("up", "2", "--rate", "1gbit", "--private", str(tmp_path))
    assert made.returncode == 0, made.stderr
    name = made.stdout.split()[1].rstrip(":")
    try:
        processes = running(name)
        assert f"links at 1gbit, {tmp_path} is each host's own" in made.stdout
        (ssh,) = (line.split(maxsplit=1)[1] for line in made.stdout.splitlines() if line.startswith("ssh:"))
        assert subprocess.run([*shlex.split(ssh), "hostname"], capture_output=True, text=True).stdout == "node1\n"
        with cluster(1):
            assert "left up" in command("list").stdout, "a test takes down what was abandoned, not what was left up"
        assert command("down", name).returncode == 0
        assert_gone(name, processes)
    finally:
        take_down(name)


def test_a_mistake_is_one_line() -> None:
    complaints = {
        ("0",): "hosts: 0 is not between",
        ("2", "--rate", "fast"): "rate: 'fast' is not a number with kbit, mbit or gbit",
        ("2", "--private", "studies"): "private: studies is not the full path of a folder",
    }
    for words, complaint in complaints.items():
        done = command("up", *words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), words
        assert done.stderr.startswith(f"Error: {complaint}"), words


def test_a_reused_id_is_not_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        who = identity_of(sleeping.pid)
        assert who is not None
        earlier = replace(who, started=who.started - 1)
        end_all(lambda: [earlier])
        assert who.is_alive
        assert not earlier.is_alive
        end_all(lambda: [who] if who.is_alive else [])
        assert sleeping.wait() == -signal.SIGKILL


def test_root_is_asked_for_with_the_command_that_fixes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "tests.cluster", "up", "3"])
    assert lacking() == f"network namespaces need root; fix it with: sudo {sys.executable} -m tests.cluster up 3"


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs, "tool", lambda name: None if name in ("sshd", "tc", "slurmd") else f"/usr/bin/{name}")
    assert lacking(slurm=True) == (
        "missing tc, sshd, slurmd; fix it with: sudo apt-get install iproute2 openssh-server slurmd"
    )


@pytest.mark.parametrize(("is_required", "end"), [(False, pytest.skip.Exception), (True, pytest.fail.Exception)])
def test_missing_requirements_skip_unless_clusters_are_required(
    monkeypatch: pytest.MonkeyPatch, is_required: bool, end: type[BaseException]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(testing, "IS_REQUIRED", is_required)
    with pytest.raises(end, match="need root; fix it with: sudo"), cluster(2):
        pass


def test_what_a_container_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs, "tool", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(needs, "_TRIED", {"namespaces": ("false",)})
    assert "this kernel or container has no namespaces (" in lacking()
    assert "docker run --privileged" in lacking()
