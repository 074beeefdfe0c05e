"""Faults on several hosts: right status and reason, nothing left or lost anywhere, and `--resume` completes."""

import csv
import json
import socket
import sys
from pathlib import Path

import click.testing
import pytest

from dlbench.cli import group
from tests.cluster.cluster import Cluster
from tests.functional.host_faults.striker import Fault, Striker, incomplete
from tests.functional.host_faults.study import HostShape, HostStudy, struck_study

# What keeps a run from starting, and what ends dlbench; `python -m tests.soak hosts` has every kind. Each strikes an
# attempt; what is ahead (a key, ports) strikes the one after it.
FAULTS = (
    Fault("wrong key", 1),
    Fault("dlbench killed", 0),
)
# Runs so long that none ends before it is struck, and limits that a slow machine does not come near. Few repeats: a run
# that a fault has ended is struck again when the study is continued. Those on which a fault is ahead must not be the
# last to be made: of three runs the first pass takes three faults, the second the key (one run completes, one fails)
# and the disk, which ends dlbench; the third has two runs, of which the second finds its ports in use.
SHAPE = HostShape(repeats=3, epochs=16, startup_timeout_s=60, stall_timeout_s=12, orphan_timeout_s=6)
# Where nothing strikes.
PATIENT = {"startup_timeout_s": 60.0, "stall_timeout_s": 40.0, "orphan_timeout_s": 20.0}
ODD_HOSTS = (
    "a b",
    "a;touch struck",
    "$(touch struck)",
    "`touch struck`",
    "a&touch struck",
    "-oProxyCommand=touch struck",
)


@pytest.mark.soak  # a wrong key is reported below, a dlbench that is killed and a host that dies in tests of their own
@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.timeout(1800)
def test_faults_on_hosts(tmp_path: Path) -> None:
    with struck_study(tmp_path, 3, SHAPE) as study:
        reports = Striker(study, FAULTS, print).run()
        assert len(reports) == len(FAULTS), study.output[-3000:]
        assert not [report.line() for report in reports if report.complaints]
        assert incomplete(study) == []


@pytest.mark.soak  # a second dlbench in one study is refused in `test_run_command`
@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.timeout(600)
def test_two_studies_at_once_in_one_folder(pair: Cluster, tmp_path: Path) -> None:
    with HostStudy(pair, tmp_path, HostShape(workers=2, epochs=4, **PATIENT)) as study:
        begun = [study.start(host=host) for host in pair.hosts]
        assert [process.wait(240) for process in begun] == [0, 0], study.output
        assert study.still_running() == []
    tables = sorted((tmp_path / "studies").glob("*/runs.csv"))
    assert len(tables) == 2
    for table in tables:
        with table.open(encoding="utf-8", newline="") as file:
            assert [row["status"] for row in csv.DictReader(file)] == ["completed"] * 2


def test_a_wrong_host_key_is_reported_before_anything_starts(pair: Cluster, tmp_path: Path) -> None:
    first, second = pair.hosts
    study = HostStudy(pair, tmp_path, HostShape(workers=2))
    known = pair.folder.known_hosts.read_text()
    (key,) = (line.split(" ", 1)[1] for line in known.splitlines() if line.startswith(first.name))
    pair.folder.known_hosts.write_text(f"{first.name},{first.address} {key}\n{second.name},{second.address} {key}\n")
    try:
        assert study.run() == 2
    finally:
        pair.folder.known_hosts.write_text(known)
        study.clean_up()
    assert f"{second.address}: cannot be reached: WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!" in study.output
    assert first.address not in study.output
    assert not (tmp_path / "studies").exists()


@pytest.mark.slow
@pytest.mark.mpi
def test_a_host_may_have_any_name(pair: Cluster, tmp_path: Path) -> None:
    """Its own name is not its address; whatever it is, no shell reads it."""
    second = pair.hosts[1]
    name = [sys.executable, "-c", "import socket, sys; socket.sethostname(sys.argv[1])"]
    second.run([*name, "a b;touch struck"])
    try:
        with HostStudy(pair, tmp_path, HostShape(workers=2, repeats=1, epochs=2, **PATIENT)) as study:
            assert study.run() == 0, study.output
    finally:
        second.run([*name, second.name])
    assert incomplete(study) == []
    assert not list(tmp_path.rglob("struck"))


def test_odd_names_of_hosts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text("base: {trainer: numpy, model: softmax}")
    for name in ODD_HOSTS:
        Path("hostfile").write_text(f"{name} slots=3\n")
        Path("cluster.yaml").write_text(json.dumps({"hosts": [{"address": name, "slots": 3}]}))
        before = sorted(Path().iterdir())
        for words in (["--hosts", f"{name}:3"], ["--hostfile", "hostfile"], ["--cluster", "cluster.yaml"]):
            done = click.testing.CliRunner().invoke(group, ["run", "s.yaml", "=".join(words)])
            assert done.exit_code == 2, (name, words, done.output)
            assert isinstance(done.exception, SystemExit), (name, words, done.exception)
            assert sorted(Path().iterdir()) == before, (name, words)


def test_without_a_free_port_the_error_says_so(pair: Cluster, tmp_path: Path) -> None:
    """Workers cannot connect where all ports that the kernel gives are taken."""
    first = pair.hosts[0]
    code = (
        "import socket\n"
        "from dlbench.errors import UserError\n"
        "from dlbench.telemetry.server import TelemetryServer\n"
        "held = [socket.create_server(('', port)) for port in range(45000, 45004)]\n"
        "try:\n"
        "    TelemetryServer(['node2'])\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    ports = first.run(["sh", "-c", "cat /proc/sys/net/ipv4/ip_local_port_range"]).stdout.strip()
    try:
        first.run(["sh", "-c", "echo 45000 45003 > /proc/sys/net/ipv4/ip_local_port_range"])
        printed = first.run([sys.executable, "-c", code]).stdout
    finally:
        first.run(["sh", "-c", f"echo {ports} > /proc/sys/net/ipv4/ip_local_port_range"])
    assert "workers cannot connect: no port of this machine is free (Address already in use)" in printed
    assert socket.gethostname() not in printed
