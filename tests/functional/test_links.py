"""The links between hosts, measured on wires that are limited, cut and closed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlbench.errors import UserError
from dlbench.launch.links import Broken, Link, measure, measure_each
from dlbench.scenario.cluster import Cluster, Host
from tests.cluster import cluster as clusters
from tests.cluster.commands import output
from tests.cluster.identity import Identity
from tests.cluster.testing import cluster
from tests.functional.firewall import closed

# What of a wire's rate is left to a program after the headers of Ethernet, IP and TCP.
HEADERS = 0.957
TRIES = 10


@pytest.fixture(scope="module")
def trio() -> Iterator[clusters.Cluster]:
    """Three hosts at full speed; a test leaves them as it found them."""
    with cluster(3) as made:
        yield made


def of(made: clusters.Cluster, *numbers: int, **settings: str) -> Cluster:
    """Return hosts of the test cluster as dlbench sees them."""
    hosts = tuple(Host(address=made.hosts[number].address, slots=1) for number in numbers)
    return Cluster(hosts=hosts, ssh=str(made.ssh), **settings)


def measured(hosts: Cluster, bits_per_s: float, *numbers: int) -> tuple[Link, ...]:
    """Return the links once those of some numbers carry what such a wire does; others may compute beside one try."""
    expected = pytest.approx(HEADERS * bits_per_s / 8, rel=0.15)
    for _ in range(TRIES):
        found = measure(hosts, os.environ)
        rates = [found[number].bandwidth_bytes_per_s for number in numbers]
        if all(rate == expected for rate in rates):
            return found
    pytest.fail(f"{rates} bytes per second, not {expected}")


def problem_of(hosts: Cluster) -> str:
    with pytest.raises(UserError) as caught:
        measure(hosts, os.environ)
    return caught.value.message


def test_each_pair_has_its_own_link(trio: clusters.Cluster) -> None:
    slow = trio.hosts[2]
    before = [set(host.processes()) for host in trio.hosts]
    slow.limit("100mbit")
    try:
        found = measured(of(trio, 0, 1, 2), 100e6, 1, 2)
    finally:
        slow.limit(None)
    assert [(link.a, link.b) for link in found] == [(0, 1), (0, 2), (1, 2)]
    assert {(link.interface_a, link.interface_b) for link in found} == {("eth0", "eth0")}
    assert all(0 < link.round_trip_s < 0.5 for link in found)
    assert found[0].bandwidth_bytes_per_s > 3 * found[1].bandwidth_bytes_per_s
    wait_until(lambda: nothing_is_added(trio, before))


def test_the_slower_direction_counts(trio: clusters.Cluster) -> None:
    first, second, _ = trio.hosts
    bucket = ("root", "tbf", "rate", "50mbit", "burst", "65536", "latency", "100ms")
    for host in (first, second):
        # What leaves the host only; what comes into it has full speed.
        output("tc", "-netns", host.namespace, "qdisc", "replace", "dev", "eth0", *bucket)
        try:
            measured(of(trio, 0, 1), 50e6, 0)
        finally:
            host.limit(None)


def test_this_machine_may_be_a_host_in_any_place(trio: clusters.Cluster) -> None:
    here, first = Host(address="localhost", slots=1), of(trio, 0).hosts[0]
    for hosts, interfaces in (((here, first), (trio.name, "eth0")), ((first, here), ("eth0", trio.name))):
        (link,) = measure(Cluster(hosts=hosts, ssh=str(trio.ssh)), os.environ)
        assert (link.interface_a, link.interface_b) == interfaces


def test_the_interface_that_is_named_is_measured(trio: clusters.Cluster) -> None:
    for host, own in zip(trio.hosts, ("10.250.9.1/24", "10.250.9.2/24"), strict=False):
        host.run(["ip", "link", "add", "name", "fast0", "link", "eth0", "type", "macvlan", "mode", "bridge"])
        host.run(["ip", "address", "add", own, "dev", "fast0"])
        host.run(["ip", "link", "set", "dev", "fast0", "up"])
    try:
        for interface in ("fast0", "10.250.9.0/24"):
            (link,) = measure(of(trio, 0, 1, interface=interface), os.environ)
            assert (link.interface_a, link.interface_b) == ("fast0", "fast0")
    finally:
        for host in trio.hosts[:2]:
            host.run(["ip", "link", "delete", "dev", "fast0"])
    address = trio.hosts[1].address
    assert problem_of(of(trio, 0, 1, interface="fast0")).endswith(
        f"cannot talk: {address}: it has no address on fast0; its interfaces are eth0, lo"
    )


@pytest.mark.slow
def test_hosts_that_cannot_talk_are_named(trio: clusters.Cluster) -> None:
    first, second, third = trio.hosts
    pair = f"{first.address} and {second.address} cannot talk: "
    first.run(["ip", "route", "add", "unreachable", second.address])
    try:
        assert problem_of(of(trio, 0, 1)) == (
            f"{pair}{first.address}: no way leads to {second.address}: No route to host"
        )
        found = list(measure_each(of(trio, 0, 1, 2), os.environ))
    finally:
        first.run(["ip", "route", "delete", "unreachable", second.address])
    assert [(type(link), link.a, link.b) for link in found] == [(Broken, 0, 1), (Link, 0, 2), (Link, 1, 2)]
    third.cut()
    try:
        said = problem_of(of(trio, 0, 2))
    finally:
        third.mend()
    assert said.startswith(
        f"{first.address} and {third.address} cannot talk: {third.address}: cannot be reached: ssh: "
    )


@pytest.mark.parametrize(("answer", "said"), [("REJECT", "Connection refused"), ("DROP", "timed out")])
def test_a_firewall_in_one_direction_is_found(trio: clusters.Cluster, answer: str, said: str) -> None:
    first, second, _ = trio.hosts
    begun = time.monotonic()
    with closed(first, "INPUT", "-p", "tcp", "--syn", "-s", second.address, "!", "--dport", "22", answer=answer):
        text = problem_of(of(trio, 0, 1))
    assert f"{second.address} calls {first.address} port " in text
    assert text.endswith(said)
    assert time.monotonic() - begun < 60  # TCP alone gives up after two minutes


@contextmanager
def names(host: clusters.Host, path: Path, line: str) -> Iterator[None]:
    """Give a host its own `/etc/hosts`."""
    path.write_text(f"127.0.0.1 localhost\n{line}\n")
    host.run(["mount", "--bind", str(path), "/etc/hosts"])
    try:
        yield
    finally:
        host.run(["umount", "/etc/hosts"])


def test_a_name_that_leads_back_is_no_link(trio: clusters.Cluster, tmp_path: Path) -> None:
    first, second, _ = trio.hosts
    hosts = Cluster(hosts=tuple(Host(address=host.name, slots=1) for host in (first, second)), ssh=str(trio.ssh))
    with names(first, tmp_path / "hosts", f"127.0.1.1 {second.name}"):
        text = problem_of(hosts)
    assert text.startswith("node1 and node2 cannot talk: ")
    assert text.endswith("one of them takes the other for itself: it resolves the other's name to 127.0.1.1")


def test_hosts_whose_names_only_ssh_knows(trio: clusters.Cluster, tmp_path: Path) -> None:
    first, second, _ = trio.hosts
    hosts = Cluster(hosts=tuple(Host(address=host.name, slots=1) for host in (first, second)), ssh=str(trio.ssh))
    with names(first, tmp_path / "hosts", ""):
        (link,) = measure(hosts, os.environ)
    assert (link.interface_a, link.interface_b) == ("eth0", "eth0")


PROGRAM = """
import os, sys
from dlbench.launch.links import measure
from dlbench.scenario.cluster import Cluster
while True:
    measure(Cluster.model_validate_json(sys.argv[1]), os.environ)
"""


def test_whoever_measures_may_be_killed_and_nothing_goes_on(trio: clusters.Cluster) -> None:
    before = [set(host.processes()) for host in trio.hosts]
    argv = [sys.executable, "-c", PROGRAM, of(trio, 0, 1).model_dump_json()]
    with subprocess.Popen(argv) as begun:
        try:
            wait_until(lambda: all(is_at_work(host) for host in trio.hosts[:2]))
        finally:
            begun.send_signal(signal.SIGKILL)
    wait_until(lambda: nothing_is_added(trio, before))


def nothing_is_added(made: clusters.Cluster, before: list[set[Identity]]) -> bool:
    """Whether each host has no process but those before; what another test had left there may end meanwhile."""
    return all(set(host.processes()) <= known for host, known in zip(made.hosts, before, strict=True))


def is_at_work(host: clusters.Host) -> bool:
    return "link_end" in host.run(["sh", "-c", "cat /proc/[0-9]*/cmdline"], check=False).stdout


def wait_until(is_so: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
