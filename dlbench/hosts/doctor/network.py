"""Whether hosts reach each other, by which route, and how fast."""

import shlex
from collections.abc import Iterator
from statistics import median
from typing import Any

from dlbench.hosts.doctor.facts import FAIL, PASS, WARN, ClusterFacts, Finding, HostReport
from dlbench.hosts.links import BrokenLink, LinkMeasurement

# A link that is slower than so much of what is expected is not as it should be.
MIN_SHARE = 0.5
# One TCP connection does not fill faster interfaces; their rate is not expected.
MAX_MBIT_PER_S = 20_000
# A round trip within a room takes less; each step of an all-reduce takes as many as there are workers.
MAX_ROUND_TRIP_S = 0.002


def missing_routes(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Yield each other host that has no route, or whose name leads back to the host itself."""
    for other in (other for other in facts.hosts if other is not report):
        name, path = other.name, _path_to(facts, report, other)
        if path.get("is_unknown"):
            text = f"{path['error']}; MPI works without; programs that call hosts by their names do not"
            yield Finding(WARN, text, report.command(f"echo 'ADDRESS {name}' | sudo tee -a /etc/hosts"))
        elif "error" in path:
            fix = report.command(f"ip route get $(getent ahostsv4 {name} | cut -d' ' -f1)")
            yield Finding(FAIL, f"{name}: {path['error']}", fix)
        elif path["is_loopback"]:
            text = f"{name} is {path['address']} there: that name leads back to the host itself"
            yield Finding(FAIL, text, report.command(_without_loopback(other, name)))


def interfaces(facts: ClusterFacts, report: HostReport) -> str:
    """Return the interfaces over which a host reaches the others."""
    paths = [_path_to(facts, report, other) for other in facts.hosts if other is not report]
    return ", ".join(sorted({str(path.get("interface")) for path in paths}))


def _path_to(facts: ClusterFacts, report: HostReport, other: HostReport) -> dict[str, Any]:
    """Return how a host reaches another one; this machine, where it is called localhost, by its address."""
    name = facts.telemetry_address if other.host.is_here else other.name.strip("[]")
    return report.get("routes", name) or {"error": report["routes.error"] or "it was not asked"}


def own_name(report: HostReport, problem: str) -> dict[str, str]:
    """Return the address that a host's own name has there, and the fix, if it has this problem.

    Args:
        report: The host.
        problem: `is_unknown`, or `is_loopback`, as Debian and Ubuntu have it.
    """
    name = report["hostname"] or ""
    path = report.get("routes", name) or {}
    if not path.get(problem) or (problem == "is_loopback" and path.get("is_unknown")):
        return {}
    unknown = f"echo {_line_of(report, name)} | sudo tee -a /etc/hosts"
    is_unknown = problem == "is_unknown"
    return {"address": path.get("address", ""), "fix": unknown if is_unknown else _without_loopback(report, name)}


def _without_loopback(named: HostReport, name: str) -> str:
    """Return the command that gives a host's name its real address."""
    line = _line_of(named, name)
    return rf"sudo sed -i -E '/^127\./s/[[:space:]]+{name}\b//g' /etc/hosts && echo {line} | sudo tee -a /etc/hosts"


def _line_of(named: HostReport, name: str) -> str:
    """Return the line of `/etc/hosts` with a host's name and the address that it has on its route to another one."""
    paths = [path for path in (named["routes"] or {}).values() if isinstance(path, dict)]
    addresses = (path["own"] for path in paths if path.get("own") and not path.get("is_loopback"))
    return shlex.quote(f"{next(addresses, 'ADDRESS')} {name}")


def unequal_interfaces(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Yield each interface with another MTU or speed than at the other end, at the first of the two hosts."""
    for other in facts.hosts[facts.hosts.index(report) + 1 :]:
        name, its_name = (str(_path_to(facts, *pair).get("interface")) for pair in ((report, other), (other, report)))
        ours, theirs = _interface(report, name), _interface(other, its_name)
        for key, word in (("mtu_bytes", "MTU"), ("speed_mbit_per_s", "Mbit/s")):
            mine, its = ours.get(key), theirs.get(key)
            if mine and its and mine != its:
                fix = report.command(f"sudo ethtool {name}")
                if key == "mtu_bytes":
                    host, larger = (report, name) if mine > its else (other, its_name)
                    fix = host.command(f"sudo ip link set dev {larger} mtu {min(mine, its)}")
                text = f"{name} has {mine} {word}, {its_name} of {other.name} {its}"
                yield Finding(WARN, text, fix)


def _interface(report: HostReport, name: str) -> dict[str, Any]:
    """Return what is known of an interface; a virtual one makes its speed up."""
    network: list[dict[str, Any]] = report["machine.network"] or []
    interface = next((listed for listed in network if listed["name"] == name), {})
    return interface if name in (report["physical"] or ()) else {**interface, "speed_mbit_per_s": None}


def links(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Judge whether the host connects to the others in both directions, as fast as expected."""
    position = facts.hosts.index(report)
    for link in facts.links:
        if position in (link.a, link.b):
            yield _broken(facts, link) if isinstance(link, BrokenLink) else _measured(facts, link)


def _broken(facts: ClusterFacts, link: BrokenLink) -> Finding:
    first, second = facts.hosts[link.a], facts.hosts[link.b]
    is_seconds = link.problem.startswith((f"{second.name} calls ", f"{second.name}: "))
    caller, called = (second, first) if is_seconds else (first, second)
    if "no route" in link.problem or "for itself" in link.problem:
        fix = caller.command(f"ip route get {called.name}")
    else:
        fix = called.command(f"sudo iptables --insert INPUT --source {caller.name} -p tcp -j ACCEPT")
    return Finding(FAIL, f"{first.name} and {second.name} cannot connect: {link.problem}", fix)


def _measured(facts: ClusterFacts, link: LinkMeasurement) -> Finding:
    host, other = facts.hosts[link.a], facts.hosts[link.b]
    round_trip = f"{1e3 * link.round_trip_s:.2f} ms round trip"
    text = f"{host.name} and {other.name}: {speed(link.bandwidth_bytes_per_s)}, {round_trip}"
    expected = _expected_bytes_per_s(facts, link)
    if link.bandwidth_bytes_per_s < MIN_SHARE * expected:
        fix = host.command(f"tc -s qdisc show dev {link.interface_a}; ethtool {link.interface_a}")
        return Finding(WARN, f"{text}; {speed(expected)} expected", fix)
    if link.round_trip_s > MAX_ROUND_TRIP_S:
        slow = f"{text}: workers wait long for each other in every step"
        return Finding(WARN, slow, host.command(f"traceroute {other.name}"))
    return Finding(PASS, text)


def _expected_bytes_per_s(facts: ClusterFacts, link: LinkMeasurement) -> float:
    """Return the rate of its interfaces, if they are devices that TCP can fill, else that of other links; else 0."""
    ends = ((facts.hosts[link.a], link.interface_a), (facts.hosts[link.b], link.interface_b))
    speeds = [_interface(host, name).get("speed_mbit_per_s") or 0 for host, name in ends]
    rates = [mbit * 1e6 / 8 for mbit in speeds if 0 < mbit <= MAX_MBIT_PER_S]
    measured = (other for other in facts.links if isinstance(other, LinkMeasurement) and other != link)
    others = [other.bandwidth_bytes_per_s for other in measured]
    return min(rates) if rates else median(others or [0])


def speed(bytes_per_s: float) -> str:
    """Return a rate in bits per second, as networks are rated."""
    bits = 8 * bytes_per_s
    return f"{bits / 1e9:.1f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"
