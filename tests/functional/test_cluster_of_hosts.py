"""The test cluster is what tests on it take it for: hosts of their own, on wires that can be cut and limited."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.host import DeadHostError, Host
from tests.cluster.make import ROOT
from tests.cluster.network import rate_bits_per_s
from tests.cluster.ready import wait_for_ssh
from tests.cluster.testing import cluster
from tests.cluster.timing import bandwidth_bits_per_s, message_times_s
from tests.functional.mpi_programs.launch import BASE, MPIRUN
from tests.functional.waiting import wait_until

SUM = """
import socket
from mpi4py import MPI
total = MPI.COMM_WORLD.allreduce(10 ** MPI.COMM_WORLD.rank)
print(socket.gethostname(), total, flush=True)
"""
BATCH = """\
#!/bin/sh
#SBATCH --nodes=2 --ntasks=2 --output=%s
srun hostname
"""


def lines(text: str) -> list[str]:
    return sorted(text.split())


def reaches(host: Host, other: Host, timeout_s: int = 20) -> bool:
    argv = ["ssh", "-o", f"ConnectTimeout={timeout_s}", other.name, "true"]
    return host.run(argv, check=False).returncode == 0


def test_hosts_reach_each_other_by_name_and_have_their_own(pair: Cluster) -> None:
    first, second = pair.hosts
    assert [host.run(["hostname"]).stdout for host in pair.hosts] == ["node1\n", "node2\n"]
    assert first.run(["ssh", second.name, "hostname"]).stdout == "node2\n"
    assert second.run(["ssh", first.address, "hostname"]).stdout == "node1\n"
    by_hand = [[str(pair.ssh), "node2"], ["ssh", "-F", str(pair.folder.ssh_config), second.address]]
    for argv in by_hand:
        assert subprocess.run([*argv, "hostname"], capture_output=True, text=True, check=True).stdout == "node2\n"


def test_a_host_sees_its_own_processes_memory_and_network(pair: Cluster) -> None:
    first, second = pair.hosts
    marker = Path("/dev/shm/dlbench-cluster-marker")
    first.run(["touch", str(marker)])
    assert second.run(["test", "-e", str(marker)], check=False).returncode == 1
    assert not marker.exists()
    assert lines(first.run(["ls", "/sys/class/net"]).stdout) == ["eth0", "lo"]
    # A shell's child has the shell's name until it has become what it runs.
    script = "sleep 600 >/dev/null 2>&1 & until grep -qx sleep /proc/$!/comm; do :; done; echo $!"
    sleeping = first.run(["sh", "-c", script]).stdout.strip()
    assert first.run(["cat", f"/proc/{sleeping}/comm"]).stdout == "sleep\n"
    assert "sleep\n" not in second.run(["sh", "-c", "cat /proc/[0-9]*/comm"], check=False).stdout
    first.run(["kill", sleeping])


def test_a_command_that_takes_too_long_is_ended(pair: Cluster) -> None:
    host = pair.hosts[0]
    before = set(host.processes())
    with pytest.raises(subprocess.TimeoutExpired):
        host.run(["sh", "-c", "sleep 600; true"], timeout_s=0.5)
    wait_until(lambda: not set(host.processes()) - before, "it still runs")


def test_a_wrong_host_key_is_refused(pair: Cluster, tmp_path: Path) -> None:
    first, second = pair.hosts
    entries = [line.split(" ", 1) for line in pair.folder.known_hosts.read_text().splitlines()]
    (names, key), (other_names, other_key), _ = entries
    (tmp_path / "known_hosts").write_text(f"{names} {other_key}\n{other_names} {key}\n")
    argv = ["ssh", "-o", f"UserKnownHostsFile={tmp_path / 'known_hosts'}", "-o", "LogLevel=INFO", second.name, "true"]
    done = first.run(argv, check=False)
    assert done.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr


@pytest.mark.mpi
def test_mpirun_starts_ranks_over_ssh(pair: Cluster) -> None:
    first = pair.hosts[0]
    placing = ["--prefix", sys.prefix, "--bind-to", "none", "-H", pair.slots(1)]
    argv = [str(MPIRUN), "--prtemca", "plm_ssh_agent", str(pair.ssh), *placing]
    # On a busy machine PRRTE 3 may wait for ever at the end of programs that end while others are being started.
    found = first.run([*argv, "sh", "-c", "sleep 1; hostname"], variables=BASE).stdout
    assert lines(found) == ["node1", "node2"]
    # By names, and with nothing but ssh's settings in the hosts.
    argv = [str(MPIRUN), "--prefix", sys.prefix, "--bind-to", "none", "-H", "node1:1,node2:2"]
    done = first.run([*argv, sys.executable, "-m", "mpi4py", "-c", SUM], variables=BASE)
    assert sorted(done.stdout.splitlines()) == ["node1 111", "node2 111", "node2 111"]


@pytest.mark.mpi
def test_mpirun_on_this_machine_starts_ranks_on_hosts(pair: Cluster) -> None:
    argv = [str(MPIRUN), "--prtemca", "plm_ssh_agent", str(pair.ssh), "--prefix", sys.prefix, "--bind-to", "none"]
    argv += ["-H", pair.slots(1), sys.executable, "-m", "mpi4py", "-c", SUM]
    done = subprocess.run(argv, env=os.environ | BASE, capture_output=True, text=True, timeout=120, check=False)
    assert sorted(done.stdout.splitlines()) == ["node1 11", "node2 11"], done.stderr


def both_ways(first: Host, second: Host) -> list[float]:
    """Return the bandwidths from each to the other, from 8 MiB after 4 MiB that do not count: 1 s at 100 Mbit/s."""
    pairs = [(first, second), (second, first)]
    return [bandwidth_bits_per_s(*hosts, num_bytes=12 << 20, skipped=4 << 20) for hosts in pairs]


def test_a_limited_link_is_slower_in_both_directions() -> None:
    with cluster(2, rate="100mbit") as made:
        first, second = made.hosts
        limited = both_ways(first, second)
        for host in made.hosts:
            host.limit(None)
        free = bandwidth_bits_per_s(first, second, num_bytes=128 << 20)
        second.limit("100mbit")
        one_end = both_ways(first, second)
    for rate in limited + one_end:
        # What a busy machine keeps waiting comes later, or at once.
        assert 0.5 * 100e6 < rate < 1.25 * 100e6
        assert free > 3 * rate


# What Ethernet, IP and TCP send for each byte of a stream.
ON_THE_WIRE = 1514 / 1448
MESSAGES = (131_072, 287_000, 427_000, 1 << 20, 4 << 20)


# What processors that sleep, or that others use, may add to a message.
WAKING_S = 1e-3


def unlike_expected(rate: str, pairs: list[tuple[Host, Host]]) -> dict[int, tuple[float, float]]:
    """Return the messages that do not take size / rate, by size: measured and expected seconds.

    They may take a tenth less or more, and the time to wake. Measured is the shortest of some rounds.
    """
    rounds = [found for _ in range(3) for found in message_times_s(pairs, MESSAGES, number=5)]
    bytes_per_s = rate_bits_per_s(rate) / 8 / ON_THE_WIRE
    times = {size: (min(found[size] for found in rounds), size / bytes_per_s) for size in MESSAGES}
    return {
        size: (took, expected)
        for size, (took, expected) in times.items()
        if not 0.9 * expected < took < 1.1 * expected + WAKING_S
    }


@pytest.mark.soak  # what dlbench measures of such links is tested in `test_links`
@pytest.mark.alone
def test_messages_of_every_size_take_their_size_over_the_rate_also_the_first_after_a_pause() -> None:
    """A token bucket that holds 250 kB lets messages of 287 kB through at three times the rate."""
    with cluster(4, rate="1gbit") as made:
        hosts = made.hosts
        alone = unlike_expected("1gbit", [(hosts[0], hosts[1])])
        for host in hosts:
            host.limit("200mbit")
        ring = list(zip(hosts, (*hosts[1:], hosts[0]), strict=True))
        together = unlike_expected("200mbit", ring)
    assert (alone, together) == ({}, {})


def test_a_cut_host_is_unreachable_until_it_is_restored(pair: Cluster) -> None:
    first, second = pair.hosts
    second.cut()
    try:
        assert not reaches(first, second, timeout_s=1)
        assert not reaches(second, first, timeout_s=1)
        assert second.run(["hostname"]).stdout == "node2\n", "it lives, it is only not reached"
    finally:
        second.restore()
    wait_for_ssh(pair.hosts)
    assert reaches(first, second)


def test_death_ends_one_host_alone_and_it_can_boot_again(pair: Cluster) -> None:
    first, second = pair.hosts
    before = second.processes()
    init = first.first_process
    sleeping = second.start(["sleep", "600"], output=second.folder / "sleep.log")
    second.die()
    sleeping.wait(timeout=60)
    assert second.processes() == []
    assert not any(who.is_alive for who in before)
    assert not reaches(first, second, timeout_s=1)
    assert init is not None
    assert first.first_process == init
    assert first.run(["hostname"]).stdout == "node1\n"
    with pytest.raises(DeadHostError, match="node2 is dead"):
        second.run(["true"])
    second.boot()
    wait_for_ssh(pair.hosts)
    assert reaches(first, second)


def test_private_folders_are_private_and_python_stays_visible(tmp_path: Path) -> None:
    shared, private = tmp_path / "shared", tmp_path / "own 한글, c'd"
    for folder in (shared, private):
        folder.mkdir()
    (private / "of-this-machine").touch()
    # A checkout may lie beside the folders of tests, which hosts are to share here.
    beside = [] if ROOT.parent in tmp_path.parents else [ROOT.parent]
    with cluster(2, private=[private, *beside]) as made:
        for host in made.hosts:
            assert host.run(["ls", "-A", str(private)]).stdout == ""
            host.run(["sh", "-c", 'hostname > "$0"/name; hostname >> "$1"/names', str(private), str(shared)])
        first, second = made.hosts
        assert second.run(["cat", str(private / "name")]).stdout == "node2\n"
        assert second.run(["ssh", first.name, f"cat {shlex.quote(str(private / 'name'))}"]).stdout == "node1\n"
        assert first.run([sys.executable, "-c", "import numpy, dlbench; print(dlbench.__file__)"]).stdout
        for folder in beside:
            assert lines(first.run(["ls", "-A", str(folder)]).stdout) == [ROOT.name]
    assert [path.name for path in private.iterdir()] == ["of-this-machine"]
    assert (shared / "names").read_text() == "node1\nnode2\n"


def test_the_folder_of_temporary_files_can_be_private() -> None:
    with cluster(2, private=["/tmp"]) as made:
        first, second = made.hosts
        seen = {made.folder.path, ROOT, Path(sys.prefix), Path(sys.base_prefix)}
        names = {path.relative_to("/tmp").parts[0] for path in seen if path.is_relative_to("/tmp")}
        assert set(first.run(["ls", "-A", "/tmp"]).stdout.split()) == names
        assert second.run(["ssh", first.name, "hostname"]).stdout == "node1\n"


def test_slurm_runs_jobs_on_all_hosts(slurm_hosts: Cluster, tmp_path: Path) -> None:
    first = slurm_hosts.hosts[0]
    argv = ["srun", "-N3", "-n3", "hostname"]
    assert lines(first.run(argv).stdout) == ["node1", "node2", "node3"]
    over_ssh = subprocess.run([str(slurm_hosts.ssh), "node2", *argv], capture_output=True, text=True, check=True)
    assert lines(over_ssh.stdout) == ["node1", "node2", "node3"]
    job, printed = tmp_path / "job.sh", tmp_path / "printed"
    job.write_text(BATCH % printed)
    assert first.run(["sbatch", str(job)]).stdout.startswith("Submitted batch job")
    wait_until(lambda: printed.exists() and lines(printed.read_text()) == ["node1", "node2"], "the job does not end")


def test_two_clusters_are_separate(pair: Cluster) -> None:
    with cluster(1) as other:
        assert other.name != pair.name
        (stranger,) = other.hosts
        assert stranger.address not in {host.address for host in pair.hosts}
        argv = [
            sys.executable,
            "-c",
            "import socket, sys; socket.create_connection((sys.argv[1], 22), 1)",
            stranger.address,
        ]
        assert pair.hosts[0].run(argv, check=False).returncode == 1
    assert reaches(*pair.hosts)
