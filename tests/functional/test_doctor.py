"""`dlbench doctor` on hosts on which every check is broken for real; faults that do not touch each other at once."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dlbench.hosts.doctor.checks import FIRST, NAMES, OF_A_HOST
from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.cluster.make import ROOT
from tests.functional.executables import write_executable
from tests.functional.firewall import closed
from tests.functional.studies import DLBENCH
from tests.functional.waiting import wait_until

PACKAGES = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
# What they find is about this machine, which may be any: its cores, memory, disks, limits, and what is installed.
OF_THE_MACHINE = {"slots", "mpi", "horovod", "limits", "threads", "noise", "disk", "shm"}
CORES = len(os.sched_getaffinity(0))
# Runs on a host before everything else there. All hosts have one clock, which cannot be set for one of them.
ODD_PYTHON = """\
import platform, time
real = time.time
time.time = lambda: real() + 2.5
platform.python_version = lambda: '3.9.1'
"""
# By host and check: the verdict, the text and the fix of each finding that is no pass.
Found = dict[tuple[str, str], list[tuple[str, str, str]]]


def doctor(made: Cluster, hosts: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PRTE_MCA_plm_ssh_agent": str(made.ssh), **variables}
    argv = [*DLBENCH, "doctor", "--hosts", hosts, *words]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)


def bad(done: "subprocess.CompletedProcess[str]") -> Found:
    """Return the findings of a doctor that are no pass."""
    assert done.returncode in (0, 1), done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == any(finding["verdict"] == "fail" for finding in findings)
    found: Found = {}
    for finding in findings:
        if finding["verdict"] != "pass":
            assert finding["fix"], finding
            key = (finding["host"], finding["check"])
            found.setdefault(key, []).append((finding["verdict"], finding["text"], finding["fix"]))
    return found


def all_of(made: Cluster, slots: int = 1) -> str:
    """Return all hosts; the second has other slots."""
    return ",".join(f"{host.address}:{slots if number == 1 else 1}" for number, host in enumerate(made.hosts))


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
    """Put an empty folder, or an empty file, over one, in one host."""
    words = ("-t", "tmpfs", "tmpfs") if place.is_dir() else ("--bind", "/dev/null")
    with mounted(host, place, *words):
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
    wait_until(lambda: num_starts(host) > before and listeners(host), "sshd does not come back")


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
def half_a_core(host: Host) -> Iterator[None]:
    """Allow a host half a core, by a control group of version 1 or 2."""
    groups = Path("/sys/fs/cgroup")
    old = (groups / "cpu").is_dir()
    top = groups / "cpu" if old else groups
    group = top / f"dlbench-doctor-{os.getpid()}"
    name, quota = ("cpu.cfs_quota_us", "50000") if old else ("cpu.max", "50000 100000")
    try:
        group.mkdir()
        (group / name).write_text(quota)
    except OSError as error:
        with suppress(OSError):
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


@contextmanager
def no_port(host: Host) -> Iterator[None]:
    """Leave a host two ports to give, and take both."""
    places = Path("/proc/sys/net/ipv4/ip_local_port_range")
    before = host.run(["cat", str(places)]).stdout.strip()
    code = (
        "import socket, time\n"
        "held = [socket.create_server(('', port)) for port in (40000, 40001)]\n"
        "print('held', flush=True)\ntime.sleep(600)"
    )
    output = host.folder / "tmp" / "held"
    with ExitStack() as opened:
        holding = opened.enter_context(host.start([sys.executable, "-c", code], output=output))
        opened.callback(lambda: os.killpg(holding.pid, signal.SIGKILL))
        wait_until(lambda: "held" in output.read_text(), "the ports are not held")
        host.run(["sh", "-c", f"echo 40000 40001 > {places}"])
        opened.callback(lambda: host.run(["sh", "-c", f"echo {before} > {places}"]))
        yield


@contextmanager
def commanded(host: Host, *done: str, undone: tuple[str, ...]) -> Iterator[None]:
    """Run a command in a host, and afterwards the one that takes it back."""
    host.run(done)
    try:
        yield
    finally:
        host.run(undone)


def fake_mpirun(folder: Path, says: str) -> Path:
    folder.mkdir()
    return write_executable(folder / "mpirun", f"echo {shlex.quote(says)}")


def hosts_file(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
    return str(path)


# Ray is looked at where somebody has it.
LOOKED_AT = [name for name in NAMES if name != "ray"]


def test_three_healthy_hosts(trio: Cluster) -> None:
    done = doctor(trio, all_of(trio))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["host", *LOOKED_AT]
    assert [line[0] for line in lines[1:4]] == [host.address for host in trio.hosts]
    for line in lines[1:4]:
        verdicts = dict(zip(LOOKED_AT, line[1:], strict=True))
        # Where others compute, too, links may differ.
        assert verdicts.pop("links") in ("pass", "warn")
        assert {word for check, word in verdicts.items() if check not in OF_THE_MACHINE} == {"pass"}
    links = [line for line in done.stdout.splitlines() if " - " in line]
    assert len(links) == 3
    assert all("bit/s" in line and " ms" in line and "eth0 - eth0" in line for line in links)


def test_this_machine_is_examined_without_ssh(tmp_path: Path) -> None:
    for program in filter(None, [shutil.which("git")]):
        (tmp_path / Path(program).name).symlink_to(program)
    argv = [*DLBENCH, "doctor", "--json"]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert answer["hosts"] == ["localhost"]
    found = [(finding["check"], finding["verdict"]) for finding in answer["findings"]]
    assert list(dict(found)) == [name for name in (*FIRST, *OF_A_HOST) if name in LOOKED_AT]
    assert {verdict for check, verdict in found if check not in OF_THE_MACHINE} == {"pass"}


def test_wrong_usage_and_hosts_of_a_queue(tmp_path: Path) -> None:
    argv = [*DLBENCH, "doctor"]
    assert subprocess.run([*argv, "--hosts", "a"], capture_output=True, timeout=120, check=False).returncode == 2
    path = tmp_path / "cluster.yaml"
    path.write_text("hosts: {count: 2, slots: 4}\nsubmitter: sbatch\n")
    done = subprocess.run([*argv, "--cluster", str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "the hosts of sbatch are given later" in done.stderr


def test_hosts_that_cannot_be_asked_are_reported_and_the_others_are_examined(trio: Cluster) -> None:
    first, second, third = trio.hosts
    with hidden(second, Path(sys.prefix)), hidden(third, ROOT / "dlbench"):
        found = bad(doctor(trio, all_of(trio), "--json"))
    assert {key for key in found if key[1] not in OF_THE_MACHINE} == {(h.address, "reached") for h in (second, third)}
    ((verdict, text, fix),) = found[second.address, "reached"]
    assert (verdict, text.startswith(f"has no {sys.executable}: ")) == ("fail", True)
    assert fix.startswith("rsync -a --relative -e ")
    assert fix.endswith(f" {second.address}:/")
    ((verdict, text, fix),) = found[third.address, "reached"]
    assert (verdict, "exit code 1" in text) == ("fail", True)
    second.cut()
    try:
        done = doctor(trio, all_of(trio))
    finally:
        second.restore()
    assert done.returncode == 1
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:4]}
    assert rows[second.address] == ["fail"] + ["-"] * (len(LOOKED_AT) - 1)
    # Those that answer reach each other, but not it.
    assert rows[first.address][0] == rows[third.address][0] == "pass"
    assert done.stdout.count("eth0 - eth0") == 1
    assert f"fail  {second.address}  reached: cannot be reached: ssh: connect to host {second.address}" in done.stdout
    assert f"fix: {trio.ssh} -v {second.address} true" in done.stdout


def test_every_fault_of_a_host_is_found_at_once(trio: Cluster, tmp_path: Path) -> None:
    """Each fault is on one host, and no other check sees it; the first host stays healthy."""
    first, second, third = (host.address for host in trio.hosts)
    faulty, other = trio.hosts[1:]
    (metadata,) = PACKAGES.glob("numpy-*.dist-info/METADATA")
    (tmp_path / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.26.0\n")
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "sitecustomize.py").write_text(ODD_PYTHON)
    cache = tmp_path / "cache"
    cache.mkdir()
    ours = Path(sys.executable).parent / "mpirun"
    hydra = fake_mpirun(tmp_path / "hydra", "HYDRA build details:")
    on_path = fake_mpirun(tmp_path / "path", "mpirun (Open MPI) 4.1.4")
    no_own_name = hosts_file(tmp_path / "hosts")
    variables = {"OMP_NUM_THREADS": "7", "KMP_AFFINITY": "compact", "PYTHONPATH": str(tmp_path / "python")}
    with ExitStack() as broken:
        for fault in (
            settings(faulty, **variables),
            limited(faulty, nofile=300, nproc=250),
            mounted(faulty, metadata, "--bind", str(tmp_path / "METADATA")),
            hidden(faulty, ROOT / ".git"),
            mounted(faulty, ours, "--bind", str(hydra)),
            hidden(faulty, PACKAGES / "horovod"),
            half_a_core(faulty),
            mounted(faulty, cache, "-t", "tmpfs", "-o", "size=8m", "tmpfs"),
            mounted(faulty, "/dev/shm", "-t", "tmpfs", "-o", "size=64m", "tmpfs"),
            mounted(faulty, "/etc/hosts", "--bind", no_own_name),
            commanded(
                faulty,
                *["ip", "link", "set", "dev", "eth0", "mtu", "1400"],
                undone=("ip", "link", "set", "dev", "eth0", "mtu", "1500"),
            ),
            settings(other, PATH=f"{on_path.parent}:/usr/bin:/bin"),
            mounted(other, cache, "-t", "tmpfs", "-o", "size=100m", "tmpfs"),
        ):
            broken.enter_context(fault)
        other.limit("100mbit")
        broken.callback(other.limit, None)
        done = doctor(trio, all_of(trio, slots=CORES + 1), "--json", DLBENCH_CACHE=str(cache))
    found = bad(done)
    expected = {
        (second, "python"): ["fail Python is 3.9.1, here "],
        (second, "versions"): ["fail other versions: numpy 1.26.0 (here ", "fail dlbench's commit is unknown, here "],
        (second, "mpi"): [f"fail {ours} is HYDRA build details:, but mpi4py loads Open MPI v"],
        (second, "horovod"): ["warn Horovod is not installed"],
        (second, "slots"): [f"warn {CORES + 1} slots on 1 core"],
        (second, "limits"): [f"warn its control group may use 0.5 cores for {CORES + 1} slots"],
        (second, "threads"): [
            "warn KMP_AFFINITY=compact, OMP_NUM_THREADS=7 reach ",
            f"warn 250 processes and threads are allowed (ulimit -u), runs may need {100 * (CORES + 1) + 200}",
            "warn 300 open files are allowed (ulimit -n), runs may need 1024",
        ],
        (second, "disk"): ["fail "],
        (second, "shm"): ["warn /dev/shm has 64 MiB; "],
        (second, "route"): [
            f"warn its own name {faulty.name} has no address there",
            f"warn eth0 has 1400 MTU, eth0 of {third} 1500",
        ],
        (second, "clock"): ["warn 2."],
        (first, "route"): [f"warn eth0 has 1500 MTU, eth0 of {second} 1400"],
        (third, "mpi"): [f"warn {on_path} is first on PATH and says mpirun (Open MPI) 4.1.4; dlbench uses "],
        (third, "disk"): ["warn "],
        (third, "links"): ["warn ", "warn "],
    }
    texts = {key: [f"{verdict} {text}" for verdict, text, _ in findings] for key, findings in found.items()}
    for key, beginnings in expected.items():
        there = [text for text in texts.get(key, []) if "allowed by the control group" not in text]
        assert len(there) == len(beginnings), (key, there)
        for text, beginning in zip(there, beginnings, strict=True):
            assert text.startswith(beginning), (key, text)
    # Nothing else is wrong but what this machine is, and what a slow link does to the other pairs.
    rest = {key for key in texts if key not in expected and key[1] not in OF_THE_MACHINE | {"links"}}
    assert rest == set(), rest
    links = {(link["a"], link["b"]): 8 * link["bandwidth_bytes_per_s"] for link in json.loads(done.stdout)["links"]}
    assert [links[pair] for pair in ((first, third), (second, third))] == [pytest.approx(100e6, rel=0.5)] * 2
    fixes = {key: " ".join(fix for _, _, fix in findings) for key, findings in found.items()}
    assert f"git -C {ROOT} checkout" in fixes[second, "versions"]
    assert "pip install --force-reinstall" in fixes[second, "mpi"]
    assert fixes[second, "horovod"].endswith(f"'make -C {ROOT} horovod'")
    assert "grep -rnsE " in fixes[second, "threads"]
    assert f"{second} {faulty.name}" in fixes[second, "route"]
    assert fixes[first, "route"].endswith("mtu 1400'") or fixes[first, "route"].endswith("mtu 1400")


def test_hosts_without_routes_ports_and_libraries(trio: Cluster) -> None:
    """What is blocked on one host is seen by the checks of that host, and by the links to it."""
    first, second, third = (host.address for host in trio.hosts)
    route = ("unreachable", third)
    with ExitStack() as broken:
        for fault in (
            commanded(trio.hosts[1], "ip", "route", "add", *route, undone=("ip", "route", "delete", *route)),
            hidden(trio.hosts[1], PACKAGES / "mpi4py"),
            no_port(trio.hosts[1]),
            closed(trio.hosts[2], "INPUT", "-p", "tcp", "--syn", "-s", first),
            # ssh from here works; what the host begins does not.
            closed(trio.hosts[2], "OUTPUT", "-p", "tcp", "--syn"),
        ):
            broken.enter_context(fault)
        found = bad(doctor(trio, f"{first}:{CORES},{second}:1,{third}:1", "--json"))
    (unrouted,) = found[second, "route"]
    assert unrouted[:2] == ("fail", f"{third}: no route to {third}: No route to host")
    assert [text.partition(": ")[0] for _, text, _ in found[second, "mpi"]] == ["mpi4py loads no MPI library"]
    assert [finding[:2] for finding in found[second, "port"]] == [("fail", "no port is free: Address already in use")]
    ((verdict, text, fix),) = found[third, "home"]
    assert (verdict, "Connection refused" in text) == ("fail", True)
    assert fix == f"sudo iptables --insert INPUT --source {third} -p tcp -j ACCEPT"
    # The firewall of the third host refuses what the first one sends.
    ((verdict, text, fix),) = [finding for finding in found[first, "links"] if third in finding[1]]
    assert (verdict, f"{first} calls {third} port " in text) == ("fail", True)
    assert fix.endswith(f"'sudo iptables --insert INPUT --source {first} -p tcp -j ACCEPT'")
    assert len(found[second, "links"]) == 2
    # The first host has no fault but in the links to the others, and in the cores that all of them share.
    assert {check for host, check in found if host == first} - OF_THE_MACHINE == {"links"}
    ((_, text, fix),) = found[second, "slots"]
    assert f"run on one machine and share its {CORES} cores for {CORES + 2} slots" in text


def test_names_that_resolve_to_the_host_itself_are_reported(pair: Cluster, tmp_path: Path) -> None:
    first, faulty = pair.hosts
    own = hosts_file(tmp_path / "hosts", f"127.0.1.1 {faulty.name} {first.name}")
    argv = [*DLBENCH, "doctor", "--json", "--hosts", f"{first.name}:1,{faulty.name}:1"]
    with mounted(faulty, "/etc/hosts", "--bind", own):
        found = bad(first.run(argv, variables={"PRTE_MCA_plm_ssh_agent": str(pair.ssh)}, check=False))
    texts = {verdict: text for verdict, text, _ in found[faulty.name, "route"]}
    assert texts["fail"].startswith(f"{first.name} is 127.0.1.1 there: ")
    assert texts["warn"].startswith(f"its own name {faulty.name} is 127.0.1.1 there: ")
