"""`dlbench doctor` on hosts of which one is broken, for real, one thing at a time."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.cluster.make import ROOT
from tests.cluster.testing import cluster
from tests.functional.firewall import closed

DLBENCH = [sys.executable, "-m", "dlbench"]
PACKAGES = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
# All of these hosts share this machine's cores.
SHARED = "slots"
# What they say is about this machine, which may be any: its memory, disks, limits, and what is installed.
OF_THE_MACHINE = {SHARED, "mpi", "horovod", "limits", "threads", "disk", "shm"}
# What waits for nobody ends in a few seconds; on a busy machine in some times as many.
SOON_S = 60
# Runs on a host before everything else there.
CUSTOM = "sitecustomize.py"


@pytest.fixture(scope="module")
def trio() -> Iterator[Cluster]:
    """Three hosts; a test leaves them as it found them."""
    with cluster(3) as made:
        yield made


@pytest.fixture
def sick(trio: Cluster) -> Host:
    """Return the host that tests break."""
    return trio.hosts[1]


def doctor(made: Cluster, hosts: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PRTE_MCA_plm_ssh_agent": str(made.ssh), **variables}
    argv = [*DLBENCH, "doctor", "--hosts", hosts, *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)


def found(made: Cluster, hosts: str, **variables: str) -> dict[tuple[str, str], list[dict[str, str]]]:
    """Return what is wrong, by host and check."""
    done = doctor(made, hosts, "--json", **variables)
    assert done.returncode in (0, 1), done.stderr
    findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]
    assert done.returncode == any(finding["verdict"] == "fail" for finding in findings)
    bad: dict[tuple[str, str], list[dict[str, str]]] = {}
    for finding in findings:
        if finding["verdict"] != "pass":
            assert finding["mend"], finding
            bad.setdefault((finding["host"], finding["check"]), []).append(finding)
    return bad


def the_only(made: Cluster, host: Host, check: str, slots: int = 1, **variables: str) -> dict[str, str]:
    """Return the only thing that is wrong with a host that is examined alone, but for what this machine is."""
    bad = found(made, f"{host.address}:{slots}", **variables)
    assert {name for _, name in bad} - (OF_THE_MACHINE - {check}) == {check}, bad
    (finding,) = bad[host.address, check]
    return finding


def pair(made: Cluster, sick: Host) -> str:
    return f"{made.hosts[0].address}:1,{sick.address}:1"


@contextmanager
def mounted(host: Host, place: Path | str, *words: str) -> Iterator[None]:
    """Mount something over a place, in one host."""
    host.run(["mount", *words, str(place)])
    try:
        yield
    finally:
        host.run(["umount", str(place)])


@contextmanager
def hidden(host: Host, place: Path) -> Iterator[None]:
    """Put an empty folder over one, in one host."""
    with mounted(host, place, "-t", "tmpfs", "tmpfs"):
        yield


@contextmanager
def settings(host: Host, **variables: str) -> Iterator[None]:
    """Have a host's sshd set variables for whatever it starts."""
    path = host.folder / "sshd_config"
    before = path.read_text()
    added = " ".join(f"{name}={value}" for name, value in variables.items())
    path.write_text(before.replace("SetEnv ", f"SetEnv {added} "))
    reload(host)
    try:
        yield
    finally:
        path.write_text(before)
        reload(host)


def reload(host: Host) -> None:
    """Have a host's sshd read its settings again; it is another program with the same id then."""
    before = num_starts(host)
    os.kill(sshd(host), signal.SIGHUP)
    deadline = time.monotonic() + 60
    while num_starts(host) == before or not listeners(host):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def num_starts(host: Host) -> int:
    """Return how often a host's sshd has begun to listen."""
    return (host.folder / "sshd.log").read_text(errors="replace").count("Server listening on")


def sshd(host: Host) -> int:
    """Return the id of a host's sshd, here."""
    (daemon,) = listeners(host)
    return daemon


def listeners(host: Host) -> list[int]:
    titles = {who.pid: title_of(who.pid) for who in host.processes()}
    return [pid for pid, title in titles.items() if b"sshd" in title and b"[listener]" in title]


def title_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""  # it has just ended


@contextmanager
def custom(host: Host, folder: Path, code: str) -> Iterator[None]:
    """Have every Python that a host's sshd starts run some code first."""
    (folder / CUSTOM).write_text(code)
    with settings(host, PYTHONPATH=str(folder)):
        yield


def test_three_healthy_hosts_are_examined_quickly(trio: Cluster) -> None:
    begun = time.monotonic()
    done = doctor(trio, ",".join(f"{host.address}:1" for host in trio.hosts))
    assert time.monotonic() - begun < SOON_S
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    checks = lines[0][1:]
    assert checks == [
        *("reached", "python", "versions", "mpi", "horovod", "slots", "limits", "threads", "port", "home", "disk"),
        *("shm", "route", "clock", "links"),
    ]
    assert [line[0] for line in lines[1:4]] == [host.address for host in trio.hosts]
    for line in lines[1:4]:
        verdicts = dict(zip(checks, line[1:], strict=True))
        # Where others compute, too, links may differ.
        assert verdicts.pop("links") in ("pass", "warn")
        assert {word for check, word in verdicts.items() if check not in OF_THE_MACHINE} == {"pass"}
    links = [line for line in done.stdout.splitlines() if " - " in line]
    assert len(links) == 3
    assert all("bit/s" in line and " ms" in line and "eth0 - eth0" in line for line in links)


def test_this_machine_is_examined_without_ssh(trio: Cluster, tmp_path: Path) -> None:
    words = [shutil.which(name) for name in ("git",)]
    for program in filter(None, words):
        (tmp_path / Path(program).name).symlink_to(program)
    begun = time.monotonic()
    argv = [*DLBENCH, "doctor", "--json"]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert time.monotonic() - begun < SOON_S
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert told["hosts"] == ["localhost"]
    checks = "reached python versions mpi horovod slots limits threads port home disk shm"
    found = [(finding["check"], finding["verdict"]) for finding in told["findings"]]
    assert list(dict(found)) == checks.split()
    assert {verdict for check, verdict in found if check not in OF_THE_MACHINE} == {"pass"}


def test_wrong_usage_and_hosts_of_a_queue(trio: Cluster, tmp_path: Path) -> None:
    assert doctor(trio, "a").returncode == 2
    path = tmp_path / "cluster.yaml"
    path.write_text("hosts: {count: 2, slots: 4}\nsubmitter: sbatch\n")
    argv = [*DLBENCH, "doctor", "--cluster", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "the hosts of sbatch are given later" in done.stderr


@pytest.mark.slow
def test_a_cut_host_is_said_and_the_others_are_examined(trio: Cluster, sick: Host) -> None:
    sick.cut()
    try:
        begun = time.monotonic()
        done = doctor(trio, ",".join(f"{host.address}:1" for host in trio.hosts))
    finally:
        sick.mend()
    assert time.monotonic() - begun < SOON_S
    assert done.returncode == 1
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:4]}
    assert rows[sick.address] == ["fail"] + ["-"] * 14
    # Those that answer reach each other, but not it.
    assert rows[trio.hosts[0].address][0] == rows[trio.hosts[2].address][0] == "pass"
    assert done.stdout.count("eth0 - eth0") == 1
    assert f"fail  {sick.address}  reached: cannot be reached: ssh: connect to host {sick.address}" in done.stdout
    assert f"mend: {trio.ssh} -v {sick.address} true" in done.stdout


def test_a_host_without_the_environment(trio: Cluster, sick: Host) -> None:
    with hidden(sick, Path(sys.prefix)):
        finding = the_only(trio, sick, "reached")
    assert finding["verdict"] == "fail"
    assert finding["text"].startswith(f"has no {sys.executable}: the environment must be at the same place")
    assert finding["mend"].startswith("rsync -a --relative -e ")
    assert finding["mend"].endswith(f" {sick.address}:/")


def test_a_host_without_dlbench(trio: Cluster, sick: Host) -> None:
    with hidden(sick, ROOT / "dlbench"):
        finding = the_only(trio, sick, "reached")
    assert "dlbench does not work there (exit code 1)" in finding["text"]


def test_another_python(trio: Cluster, sick: Host, tmp_path: Path) -> None:
    with custom(sick, tmp_path, "import platform\nplatform.python_version = lambda: '3.9.1'\n"):
        finding = the_only(trio, sick, "python")
    assert finding["verdict"] == "fail"
    assert finding["text"].startswith("Python is 3.9.1, here ")


def test_other_versions(trio: Cluster, sick: Host, tmp_path: Path) -> None:
    (metadata,) = PACKAGES.glob("numpy-*.dist-info/METADATA")
    other = tmp_path / "METADATA"
    other.write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.26.0\n")
    with mounted(sick, metadata, "--bind", str(other)):
        finding = the_only(trio, sick, "versions")
    assert finding["verdict"] == "fail"
    assert finding["text"].startswith("other versions: numpy 1.26.0 (here ")


@pytest.mark.skipif(not (ROOT / ".git").is_dir(), reason="dlbench does not run from a checkout here")
def test_another_commit(trio: Cluster, sick: Host) -> None:
    with hidden(sick, ROOT / ".git"):
        finding = the_only(trio, sick, "versions")
    assert finding["text"].startswith("dlbench's commit is unknown, here ")
    assert f"git -C {ROOT} checkout" in finding["mend"]


def fake_mpirun(folder: Path, says: str) -> Path:
    program = folder / "mpirun"
    program.write_text(f"#!/bin/sh\necho {shlex.quote(says)}\n")
    program.chmod(0o755)
    return program


def test_another_mpirun_than_the_library(trio: Cluster, sick: Host, tmp_path: Path) -> None:
    ours = Path(sys.executable).parent / "mpirun"
    for says in ("mpirun (Open MPI) 4.1.4", "HYDRA build details:"):
        with mounted(sick, ours, "--bind", str(fake_mpirun(tmp_path, says))):
            finding = the_only(trio, sick, "mpi")
        assert finding["verdict"] == "fail"
        assert finding["text"].startswith(f"{ours} is {says}, but mpi4py loads Open MPI v")
        assert "pip install --force-reinstall" in finding["mend"]


def test_another_mpirun_first_on_the_path(trio: Cluster, sick: Host, tmp_path: Path) -> None:
    program = fake_mpirun(tmp_path, "mpirun (Open MPI) 4.1.4")
    with settings(sick, PATH=f"{tmp_path}:/usr/bin:/bin"):
        finding = the_only(trio, sick, "mpi")
    assert finding["verdict"] == "warn"
    assert finding["text"].startswith(f"{program} is first on PATH and says mpirun (Open MPI) 4.1.4; dlbench uses ")


def test_no_mpi_library(trio: Cluster, sick: Host) -> None:
    with hidden(sick, PACKAGES / "mpi4py"):
        finding = the_only(trio, sick, "mpi")
    assert finding["text"].startswith("mpi4py loads no MPI library: ")


def test_no_horovod(trio: Cluster, sick: Host) -> None:
    with hidden(sick, PACKAGES / "horovod"):
        finding = the_only(trio, sick, "horovod")
    assert finding["verdict"] == "warn"
    assert finding["mend"].endswith("'make -C " + str(ROOT) + " horovod'")


def test_more_slots_than_cores(trio: Cluster, sick: Host) -> None:
    cores = len(os.sched_getaffinity(0))
    bad = found(trio, f"{sick.address}:{cores + 1}")
    (finding,) = bad[sick.address, "slots"]
    assert finding["verdict"] == "warn"
    assert finding["text"].startswith(f"{cores + 1} slots on {cores} core")
    assert finding["mend"] == f"--hosts {sick.address}:{cores}"


def test_hosts_that_are_one_machine(trio: Cluster, sick: Host) -> None:
    cores = len(os.sched_getaffinity(0))
    first = trio.hosts[0]
    bad = found(trio, f"{first.address}:{cores},{sick.address}:1")
    assert {host for host, check in bad if check == "slots"} == {first.address, sick.address}
    (finding,) = bad[sick.address, "slots"]
    assert f"run on one machine and share its {cores} cores for {cores + 1} slots" in finding["text"]


@contextmanager
def half_a_core(host: Host) -> Iterator[None]:
    """Allow a host half a core, by a control group of version 1 or 2."""
    groups = Path("/sys/fs/cgroup")
    old = (groups / "cpu").is_dir()
    top = groups / "cpu" if old else groups
    group = top / f"dlbench-doctor-{os.getpid()}"
    name, quota = ("cpu.cfs_quota_us", "50000") if old else ("cpu.max", "50000 100000")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        (group / name).write_text(quota)
    except OSError as error:
        group.rmdir()
        pytest.skip(f"no control group can limit cores here: {error}")
    try:
        for who in host.processes():
            move(who.pid, group)
        yield
    finally:
        # Those that move may have started others meanwhile.
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                move(int(pid), top)
        group.rmdir()


def move(pid: int, group: Path) -> None:
    with suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid))


def test_a_control_group_that_stops_workers(trio: Cluster, sick: Host) -> None:
    with half_a_core(sick):
        bad = found(trio, f"{sick.address}:1")
    finding = bad[sick.address, "limits"][0]
    assert finding["verdict"] == "warn"
    assert finding["text"].startswith("its control group may use 0.5 cores for 1 slots")


@contextmanager
def limited(host: Host, **limits: int) -> Iterator[None]:
    """Limit what a host's sshd starts (soft limits: not everybody may raise hard ones again)."""
    daemon = ["prlimit", f"--pid={sshd(host)}"]
    before = {}
    for name, value in limits.items():
        words = [*daemon, f"--{name}", "--output=SOFT", "--noheadings"]
        before[name] = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run([*daemon, f"--{name}={value}:"], check=True)
    try:
        yield
    finally:
        subprocess.run([*daemon, *(f"--{name}={value}:" for name, value in before.items())], check=True)


def test_variables_and_limits_that_reach_workers(trio: Cluster, sick: Host) -> None:
    with settings(sick, OMP_NUM_THREADS="7", KMP_AFFINITY="compact"):
        finding = the_only(trio, sick, "threads")
    assert finding["verdict"] == "warn"
    assert finding["text"].startswith("KMP_AFFINITY=compact, OMP_NUM_THREADS=7 reach what is started there")
    assert "grep -rnsE " in finding["mend"]
    with limited(sick, nofile=300, nproc=250):
        bad = found(trio, f"{sick.address}:1")
    texts = [finding["text"] for finding in bad[sick.address, "threads"] if "control group" not in finding["text"]]
    assert texts == [
        "250 processes and threads are allowed (ulimit -u), runs may need 300",
        "300 open files are allowed (ulimit -n), runs may need 1024",
    ]


def test_no_way_to_a_host(trio: Cluster, sick: Host) -> None:
    first = trio.hosts[0]
    sick.run(["ip", "route", "add", "unreachable", first.address])
    try:
        bad = found(trio, pair(trio, sick))
    finally:
        sick.run(["ip", "route", "delete", "unreachable", first.address])
    (finding,) = bad[sick.address, "route"]
    assert finding["verdict"] == "fail"
    assert finding["text"] == f"{first.address}: no way leads to {first.address}: No route to host"
    assert (first.address, "route") not in bad
    # The other direction fails, too: nothing comes back.
    assert {host for host, check in bad if check == "links"} == {first.address, sick.address}


def test_names_that_lead_back(trio: Cluster, sick: Host, tmp_path: Path) -> None:
    first = trio.hosts[0]
    own = tmp_path / "hosts"
    own.write_text(f"127.0.0.1 localhost\n127.0.1.1 {sick.name} {first.name}\n")
    argv = [*DLBENCH, "doctor", "--json", "--hosts", f"{first.name}:1,{sick.name}:1"]
    with mounted(sick, "/etc/hosts", "--bind", str(own)):
        done = first.run(argv, variables={"PRTE_MCA_plm_ssh_agent": str(trio.ssh)}, check=False)
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 1
    texts = {
        finding["verdict"]: finding["text"]
        for finding in findings
        if (finding["host"], finding["check"]) == (sick.name, "route")
    }
    assert texts["fail"] == f"{first.name} is 127.0.1.1 there: it takes that host for itself"
    assert texts["warn"].startswith(f"its own name {sick.name} is 127.0.1.1 there: ")


def test_an_own_name_without_an_address(trio: Cluster, sick: Host, tmp_path: Path) -> None:
    own = tmp_path / "hosts"
    own.write_text("127.0.0.1 localhost\n")
    with mounted(sick, "/etc/hosts", "--bind", str(own)):
        bad = found(trio, pair(trio, sick))
    (finding,) = bad[sick.address, "route"]
    assert finding["verdict"] == "warn"
    assert finding["text"].startswith(f"its own name {sick.name} has no address there")
    assert f"{sick.address} {sick.name}" in finding["mend"]


def test_another_mtu(trio: Cluster, sick: Host) -> None:
    sick.run(["ip", "link", "set", "dev", "eth0", "mtu", "1400"])
    try:
        bad = found(trio, pair(trio, sick))
    finally:
        sick.run(["ip", "link", "set", "dev", "eth0", "mtu", "1500"])
    (finding,) = (finding for findings in bad.values() for finding in findings if finding["check"] == "route")
    assert finding["verdict"] == "warn"
    assert finding["text"] == f"eth0 has 1500 MTU, eth0 of {sick.address} 1400"
    assert finding["mend"].endswith("'sudo ip link set dev eth0 mtu 1400'")
    assert f" {trio.hosts[0].address} " in finding["mend"]


def test_no_way_home(trio: Cluster, sick: Host) -> None:
    # ssh from here works; what the host begins does not.
    with closed(sick, "OUTPUT", "-p", "tcp", "--syn"):
        finding = the_only(trio, sick, "home")
    assert finding["verdict"] == "fail"
    assert "Connection refused; no row of a worker there would come home" in finding["text"]
    assert finding["mend"] == f"sudo iptables --insert INPUT --source {sick.address} -p tcp -j ACCEPT"


def test_no_free_port(trio: Cluster, sick: Host) -> None:
    places = Path("/proc/sys/net/ipv4/ip_local_port_range")
    before = sick.run(["cat", str(places)]).stdout.strip()
    code = (
        "import socket, time\n"
        "held = [socket.create_server(('', port)) for port in (40000, 40001)]\n"
        "print('held', flush=True)\ntime.sleep(600)"
    )
    output = sick.folder / "tmp" / "held"
    with ExitStack() as opened:
        holding = opened.enter_context(sick.start([sys.executable, "-c", code], output=output))
        opened.callback(lambda: os.killpg(holding.pid, signal.SIGKILL))
        while "held" not in output.read_text():
            time.sleep(0.02)
        sick.run(["sh", "-c", f"echo 40000 40001 > {places}"])
        opened.callback(lambda: sick.run(["sh", "-c", f"echo {before} > {places}"]))
        bad = found(trio, f"{sick.address}:1")
    (finding,) = bad[sick.address, "port"]
    assert (finding["verdict"], finding["text"]) == ("fail", "no port can be had: Address already in use")


def test_a_clock_that_is_ahead(trio: Cluster, sick: Host, tmp_path: Path) -> None:
    # All hosts here have one clock, which cannot be set for one of them: its Python reads it wrongly.
    code = "import time\nreal = time.time\ntime.time = lambda: real() + 2.5\n"
    with custom(sick, tmp_path, code):
        bad = found(trio, pair(trio, sick))
    clocks = {host: findings for (host, check), findings in bad.items() if check == "clock"}
    assert list(clocks) == [sick.address]
    (finding,) = clocks[sick.address]
    assert finding["verdict"] == "warn"
    assert finding["text"].startswith("2.5 s ahead, known to ")


def test_a_slow_link_is_measured_and_doubted(trio: Cluster, sick: Host) -> None:
    sick.limit("100mbit")
    try:
        done = doctor(trio, ",".join(f"{host.address}:1" for host in trio.hosts), "--json")
    finally:
        sick.limit(None)
    told = json.loads(done.stdout)
    slow = [link for link in told["links"] if sick.address in (link["a"], link["b"])]
    assert [link["bandwidth_bytes_per_s"] for link in slow] == [pytest.approx(100e6 / 8, rel=0.5)] * 2
    findings = [found for found in told["findings"] if (found["host"], found["check"]) == (sick.address, "links")]
    assert [finding["verdict"] for finding in findings] == ["warn", "warn"]
    assert all("were to be expected" in finding["text"] for finding in findings)


def test_a_firewall_between_two_hosts(trio: Cluster, sick: Host) -> None:
    first = trio.hosts[0]
    with closed(sick, "INPUT", "-p", "tcp", "--syn", "-s", first.address):
        bad = found(trio, pair(trio, sick))
    assert {check for _, check in bad} - OF_THE_MACHINE == {"links"}
    (finding,) = bad[sick.address, "links"]
    assert finding["verdict"] == "fail"
    assert f"{first.address} calls {sick.address} port " in finding["text"]
    assert finding["mend"].endswith(f"'sudo iptables --insert INPUT --source {first.address} -p tcp -j ACCEPT'")


def test_little_room_on_a_disk(trio: Cluster, sick: Host, tmp_path: Path) -> None:
    for size, verdict in (("8m", "fail"), ("100m", "warn")):
        with mounted(sick, tmp_path, "-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
            finding = the_only(trio, sick, "disk", DLBENCH_CACHE=str(tmp_path))
        assert finding["verdict"] == verdict
        assert f"free for cache in {tmp_path}" in finding["text"]


def test_little_shared_memory(trio: Cluster, sick: Host) -> None:
    with mounted(sick, "/dev/shm", "-t", "tmpfs", "-o", "size=64m", "tmpfs"):
        finding = the_only(trio, sick, "shm")
    assert finding["verdict"] == "warn"
    assert finding["text"].startswith("/dev/shm has 64 MiB; MPI and NCCL may need 96 MiB")
