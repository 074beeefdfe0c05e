"""The links between hosts, measured where they are limited, closed and broken."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.hosts.links import MESSAGE_SIZES, BrokenLink, LinkMeasurement, measure, measure_each
from dlbench.hosts.remote import Agents, started
from dlbench.scenario.cluster import Cluster, Host
from tests.cluster import cluster as clusters
from tests.cluster.commands import output
from tests.cluster.identity import Identity
from tests.functional.firewall import closed
from tests.functional.waiting import wait_until

# What of a link's rate is left to a program after the headers of Ethernet, IP and TCP.
HEADERS = 0.957
TRIES = 10
SLOW_BITS_PER_S, SLOWER_BITS_PER_S = 100e6, 50e6
# What leaves a host only; what comes into it has full speed.
ONE_WAY = ("root", "tbf", "rate", "50mbit", "burst", "65536", "latency", "100ms")


def of(made: clusters.Cluster, *numbers: int, **settings: Any) -> Cluster:
    """Return hosts of the test cluster as dlbench sees them."""
    hosts = tuple(Host(address=made.hosts[number].address, slots=1) for number in numbers)
    return Cluster(hosts=hosts, ssh=str(made.ssh), **settings)


def by_name(made: clusters.Cluster) -> Cluster:
    """Return the first two hosts, by their names."""
    return Cluster(hosts=tuple(Host(address=host.name, slots=1) for host in made.hosts[:2]), ssh=str(made.ssh))


def problem_of(hosts: Cluster) -> str:
    with pytest.raises(UserError) as caught:
        measure(hosts, os.environ)
    return caught.value.message


def test_each_pair_has_its_own_link_of_which_the_slower_direction_counts(trio: clusters.Cluster) -> None:
    _first, second, third = trio.hosts
    before = [set(host.processes()) for host in trio.hosts]
    third.limit("100mbit")
    output("tc", "-netns", second.namespace, "qdisc", "replace", "dev", "eth0", *ONE_WAY)
    expected = [SLOWER_BITS_PER_S, SLOW_BITS_PER_S, SLOWER_BITS_PER_S]
    try:
        # Others may compute beside one try.
        for _ in range(TRIES):
            found = measure(of(trio, 0, 1, 2), os.environ)
            rates = [8 * link.bandwidth_bytes_per_s for link in found]
            if rates == pytest.approx([HEADERS * rate for rate in expected], rel=0.15):
                break
        else:
            pytest.fail(f"{rates} bits per second, not {expected}")
    finally:
        third.limit(None)
        second.limit(None)
    assert [(link.a, link.b) for link in found] == [(0, 1), (0, 2), (1, 2)]
    assert {(link.interface_a, link.interface_b) for link in found} == {("eth0", "eth0")}
    assert all(0 < link.round_trip_s < 0.5 for link in found)
    assert {(one.sender, one.receiver) for one in found[0].messages} == {(0, 1), (1, 0)}
    assert {65536} <= {one.size_bytes for one in found[0].messages} <= set(MESSAGE_SIZES)
    wait_until(lambda: nothing_is_added(trio, before), "an agent still runs")


def test_this_machine_may_be_a_host_in_any_place(trio: clusters.Cluster) -> None:
    here, first = Host(address="localhost", slots=1), of(trio, 0).hosts[0]
    for hosts, interfaces in (((here, first), (trio.name, "eth0")), ((first, here), ("eth0", trio.name))):
        (link,) = measure(Cluster(hosts=hosts, ssh=str(trio.ssh)), os.environ)
        assert (link.interface_a, link.interface_b) == interfaces


def test_the_network_that_is_named_is_measured(trio: clusters.Cluster) -> None:
    for host, own in zip(trio.hosts, ("10.250.9.1/24", "10.250.9.2/24"), strict=False):
        host.run(["ip", "link", "add", "name", "fast0", "link", "eth0", "type", "macvlan", "mode", "bridge"])
        host.run(["ip", "address", "add", own, "dev", "fast0"])
        host.run(["ip", "link", "set", "dev", "fast0", "up"])
    try:
        (link,) = measure(of(trio, 0, 1, interface="10.250.9.0/24"), os.environ)
        assert (link.interface_a, link.interface_b) == ("fast0", "fast0")
    finally:
        for host in trio.hosts[:2]:
            host.run(["ip", "link", "delete", "dev", "fast0"])
    address = trio.hosts[1].address
    assert f"{address}: it has no address on fast0" in problem_of(of(trio, 0, 1, interface="fast0"))


def test_hosts_that_cannot_connect_are_named_and_the_others_are_measured(trio: clusters.Cluster) -> None:
    first, second, _ = trio.hosts
    first.run(["ip", "route", "add", "unreachable", second.address])
    try:
        with started(Agents(of(trio, 0, 1, 2), os.environ)) as agents:
            found = list(measure_each(of(trio, 0, 1, 2), agents))
    finally:
        first.run(["ip", "route", "delete", "unreachable", second.address])
    broken, *measured = found
    assert broken == BrokenLink(0, 1, f"{first.address}: no route to {second.address}: No route to host")
    assert [(type(link), link.a, link.b) for link in measured] == [(LinkMeasurement, 0, 2), (LinkMeasurement, 1, 2)]


def test_a_host_without_an_agent_is_named(trio: clusters.Cluster) -> None:
    third = trio.hosts[2]
    with closed(third, "INPUT", "-p", "tcp", "--dport", "22"):
        text = problem_of(of(trio, 0, 2))
    assert text.startswith(f"{trio.hosts[0].address} and {third.address} cannot connect: {third.address}: cannot be ")


def test_a_firewall_in_one_direction_is_found(trio: clusters.Cluster) -> None:
    """TCP alone gives up after two minutes."""
    first, second, _ = trio.hosts
    with closed(first, "INPUT", "-p", "tcp", "--syn", "-s", second.address, "!", "--dport", "22", answer="DROP"):
        text = problem_of(of(trio, 0, 1))
    assert f"{second.address} calls {first.address} port " in text
    assert text.endswith("timed out")


@contextmanager
def names(host: clusters.Host, path: Path, line: str) -> Iterator[None]:
    """Give a host its own `/etc/hosts`."""
    path.write_text(f"127.0.0.1 localhost\n{line}\n")
    host.run(["mount", "--bind", str(path), "/etc/hosts"])
    try:
        yield
    finally:
        host.run(["umount", "/etc/hosts"])


def test_a_name_that_resolves_to_the_host_itself_is_no_link(trio: clusters.Cluster, tmp_path: Path) -> None:
    first, second, _ = trio.hosts
    with names(first, tmp_path / "hosts", f"127.0.1.1 {second.name}"):
        text = problem_of(by_name(trio))
    assert text.startswith("node1 and node2 cannot connect: ")
    assert text.endswith("127.0.1.1")


def test_hosts_whose_names_only_ssh_knows(trio: clusters.Cluster, tmp_path: Path) -> None:
    with names(trio.hosts[0], tmp_path / "hosts", ""):
        (link,) = measure(by_name(trio), os.environ)
    assert (link.interface_a, link.interface_b) == ("eth0", "eth0")


PROGRAM = """
import os, sys
from dlbench.hosts.links import measure
from dlbench.scenario.cluster import Cluster
while True:
    measure(Cluster.model_validate_json(sys.argv[1]), os.environ)
"""


def test_no_agent_outlives_a_measurement_that_is_killed(trio: clusters.Cluster) -> None:
    before = [set(host.processes()) for host in trio.hosts]
    argv = [sys.executable, "-c", PROGRAM, of(trio, 0, 1).model_dump_json()]
    with subprocess.Popen(argv) as begun:
        try:
            wait_until(lambda: all(has_agent(host) for host in trio.hosts[:2]), "there is no agent")
        finally:
            begun.send_signal(signal.SIGKILL)
    wait_until(lambda: nothing_is_added(trio, before), "an agent still runs")


def nothing_is_added(made: clusters.Cluster, before: list[set[Identity]]) -> bool:
    """Whether each host has no process but those before; what another test had left there may end meanwhile."""
    return all(set(host.processes()) <= known for host, known in zip(made.hosts, before, strict=True))


def has_agent(host: clusters.Host) -> bool:
    return "dlbench.hosts.agent" in host.run(["sh", "-c", "cat /proc/[0-9]*/cmdline"], check=False).stdout
