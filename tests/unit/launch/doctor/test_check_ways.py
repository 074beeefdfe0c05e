"""Routes, ports, the way home, clocks and links."""

from typing import Any

import pytest

from dlbench.launch.doctor.check_links import links, speed
from dlbench.launch.doctor.check_ways import clock, home, port, route
from dlbench.launch.links import Broken, Link
from dlbench.scenario.cluster import Host
from tests.unit.launch.doctor.facts import facts, of, two

LOOPBACK = {"address": "127.0.1.1", "interface": "lo", "is_loopback": True}


def test_a_route_over_equal_interfaces() -> None:
    found = two()
    assert of(route(found, found.hosts[1])) == [("pass", "over eth0", "")]


@pytest.mark.parametrize(
    ("told", "verdict", "text", "mend"),
    [
        (
            {"ways/a": {"error": "no way leads to 10.0.0.0: No route to host"}},
            "fail",
            "a: no way leads to 10.0.0.0: No route to host",
            "ip route get",
        ),
        (
            {"ways/a": {"error": "the name a is not known: -", "is_unknown": True}},
            "warn",
            "the name a is not known: -; MPI does without",
            "echo ",
        ),
        ({"ways/a": LOOPBACK}, "fail", "a is 127.0.1.1 there: it takes that host for itself", "/etc/hosts"),
        ({"ways/b": LOOPBACK}, "warn", "its own name b is 127.0.1.1 there", "/etc/hosts"),
        (
            {"ways/b": {"error": "the name b is not known: -", "is_unknown": True}},
            "warn",
            "its own name b has no address there",
            "10.0.0.1 b",
        ),
        ({"ways": {"error": "no answer within 8 s"}}, "fail", "a: no answer within 8 s", "ip route get"),
    ],
)
def test_a_way_that_leads_nowhere_or_back(told: dict[str, Any], verdict: str, text: str, mend: str) -> None:
    found = two(told=told)
    (remark,) = of(route(found, found.hosts[1]))
    assert remark[0] == verdict
    assert remark[1].startswith(text)
    assert mend in remark[2]
    assert remark[2].startswith("ssh b ")


def test_this_machine_is_reached_by_its_address_not_as_localhost() -> None:
    found = facts(Host(address="localhost", slots=1), Host(address="b", slots=1), told={"ways/localhost": LOOPBACK})
    assert of(route(found, found.hosts[1])) == [("pass", "over eth0", "")]
    found = facts(Host(address="localhost", slots=1), Host(address="b", slots=1), told={"ways/10.0.0.9": LOOPBACK})
    assert [remark[0] for remark in of(route(found, found.hosts[1]))] == ["fail"]


def test_a_name_gets_its_real_address() -> None:
    found = two(told={"ways/a": LOOPBACK, "ways/b": LOOPBACK})
    mends = [remark[2] for remark in of(route(found, found.hosts[1]))]
    assert ["10.0.0.0 a" in mends[0], "10.0.0.1 b" in mends[1]] == [True, True]


def test_interfaces_that_differ_are_said_once() -> None:
    network = [{"name": "eth0", "mtu_bytes": 9000, "speed_mbit_per_s": 1000}]
    found = two(told={"machine/network": network})
    assert of(route(found, found.hosts[0])) == [
        ("warn", "eth0 has 1500 MTU, eth0 of b 9000", "ssh b 'sudo ip link set dev eth0 mtu 1500'"),
        ("warn", "eth0 has 10000 Mbit/s, eth0 of b 1000", "sudo ethtool eth0"),
    ]
    assert [remark[0] for remark in of(route(found, found.hosts[1]))] == ["pass"]


def test_a_port() -> None:
    found = two(told={"port": {"error": "Address already in use"}})
    assert of(port(found, found.hosts[1]))[0][:2] == ("fail", "no port can be had: Address already in use")


@pytest.mark.parametrize(
    ("problem", "mend"),
    [
        ("timed out", "sudo iptables --insert INPUT --source b -p tcp -j ACCEPT"),
        ("Connection refused", "sudo iptables --insert INPUT --source b -p tcp -j ACCEPT"),
        ("Network is unreachable", "ssh b 'ip route get 10.0.0.9'"),
    ],
)
def test_no_way_home(problem: str, mend: str) -> None:
    found = two(told={"home": {"error": problem}})
    (remark,) = of(home(found, found.hosts[1]))
    assert (remark[0], remark[2]) == ("fail", mend)
    assert of(clock(found, found.hosts[1])) == []


@pytest.mark.parametrize(
    ("offset_s", "round_trip_s", "expected"),
    [
        (0.09, 0.001, "pass"),
        (-0.09, 0.001, "pass"),
        (0.11, 0.001, "warn"),
        (-0.11, 0.001, "warn"),
        (0.11, 0.1, "pass"),
    ],
)
def test_a_clock_is_doubted_beyond_what_is_known(offset_s: float, round_trip_s: float, expected: str) -> None:
    found = two(told={"home": {"offset_s": offset_s, "round_trip_s": round_trip_s}})
    (remark,) = of(clock(found, found.hosts[1]))
    assert remark[0] == expected
    assert ("ahead" if offset_s > 0 else "behind") in remark[1]


def link(a: int, b: int, bandwidth: float, round_trip_s: float = 3e-5, interface: str = "other0") -> Link:
    return Link(a, b, round_trip_s, bandwidth, interface, interface)


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (link(0, 1, 1.2e9), "pass"),
        (link(0, 1, 0.62e9, interface="eth0"), "warn"),
        (link(0, 1, 0.63e9, interface="eth0"), "pass"),
        (link(0, 1, 1.2e9, round_trip_s=0.003), "warn"),
    ],
)
def test_a_link_is_judged_by_its_interfaces_and_its_round_trip(measured: Link, expected: str) -> None:
    found = two(links=(measured,))
    for asked in found.hosts:
        assert [remark[0] for remark in of(links(found, asked))] == [expected]


def test_a_virtual_interface_makes_its_speed_up() -> None:
    found = two(links=(link(0, 1, 0.1e9, interface="eth0"),), told={"physical": []})
    found.hosts[0].told["physical"].clear()  # type: ignore[index]
    assert [remark[0] for remark in of(links(found, found.hosts[0]))] == ["pass"]


def test_a_link_is_judged_by_the_others_where_interfaces_say_nothing() -> None:
    hosts = [Host(address=name, slots=1) for name in "abc"]
    measured = (link(0, 1, 1e9), link(0, 2, 0.4e9), link(1, 2, 1e9))
    found = facts(*hosts, links=measured)
    assert [remark[0] for remark in of(links(found, found.hosts[0]))] == ["pass", "warn"]
    assert [remark[0] for remark in of(links(found, found.hosts[1]))] == ["pass", "pass"]


@pytest.mark.parametrize(
    ("problem", "mend"),
    [
        ("a calls 10.0.0.1 port 4: a: timed out", "ssh b 'sudo iptables --insert INPUT --source a -p tcp -j ACCEPT'"),
        ("b calls 10.0.0.0 port 4: b: timed out", "sudo iptables --insert INPUT --source b -p tcp -j ACCEPT"),
        ("b: no way leads to 10.0.0.0: No route to host", "ssh b 'ip route get a'"),
    ],
)
def test_two_hosts_that_cannot_talk(problem: str, mend: str) -> None:
    found = two(links=(Broken(0, 1, problem),))
    assert of(links(found, found.hosts[1])) == [("fail", f"a and b cannot talk: {problem}", mend)]


def test_rates_are_said_in_bits() -> None:
    assert [speed(value) for value in (1.25e9, 11.95e6, 12_500)] == ["10.0 Gbit/s", "95.6 Mbit/s", "0.1 Mbit/s"]
