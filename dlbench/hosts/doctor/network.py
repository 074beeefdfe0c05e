"""Whether hosts reach each other and this machine, by which route, how fast, and whether their clocks agree."""

import shlex
from collections.abc import Iterator
from statistics import median
from typing import Any

from dlbench.hosts.doctor.facts import ClusterFacts, Finding, HostReport, failed, passed, warned
from dlbench.hosts.links import BrokenLink, LinkMeasurement
from dlbench.records.machine import found_in

# Of all that is measured only `startup_time_s` is taken from the clocks of two hosts; it may be a tenth of a second.
MAX_OFFSET_S = 0.1
# A link that is slower than so much of what is expected is not as it should be.
MIN_SHARE = 0.5
# One TCP connection does not fill faster interfaces; their rate is not expected.
MAX_MBIT_PER_S = 20_000
# A round trip within a room takes less; each step of an all-reduce takes as many as there are workers.
MAX_ROUND_TRIP_S = 0.002


def route(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether each other host has a route, over equal interfaces, and no name leads back to the host itself."""
    paths = {other.name: _path_to(facts, report, other) for other in facts.hosts if other is not report}
    findings = [*_missing_routes(facts, report, paths), *_own_name(facts, report), *_unequal(facts, report, paths)]
    yield from findings
    if not findings:
        interfaces = sorted({str(path.get("interface")) for path in paths.values()})
        yield passed(f"over {', '.join(interfaces)}")


def _path_to(facts: ClusterFacts, report: HostReport, other: HostReport) -> dict[str, Any]:
    """Return how a host reaches another one; this machine, where it is called localhost, by its address."""
    name = facts.telemetry_address if other.host.is_here else other.name.strip("[]")
    return report.get("routes", name) or {"error": report.get("routes", "error") or "it was not asked"}


def _missing_routes(facts: ClusterFacts, report: HostReport, found: dict[str, dict[str, Any]]) -> Iterator[Finding]:
    for other in (other for other in facts.hosts if other is not report):
        name, path = other.name, found[other.name]
        if path.get("is_unknown"):
            text = f"{path['error']}; MPI works without; programs that call hosts by their names do not"
            yield warned(text, report.command(f"echo 'ADDRESS {name}' | sudo tee -a /etc/hosts"))
        elif "error" in path:
            yield failed(
                f"{name}: {path['error']}",
                report.command(f"ip route get $(getent ahostsv4 {name} | cut -d' ' -f1)"),
            )
        elif path["is_loopback"]:
            text = f"{name} is {path['address']} there: that name leads back to the host itself"
            yield failed(text, _without_loopback(report, other, name))


def _own_name(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Warn of a host whose own name is a loopback address, as Debian and Ubuntu have it, or none at all."""
    name = report.get("hostname") or ""
    path = report.get("routes", name) or {}
    if path.get("is_unknown"):
        line = shlex.quote(f"{_own_address(report)} {name}")
        yield warned(
            f"its own name {name} has no address there: Horovod over Gloo fails on it; dlbench and MPI do not use it",
            report.command(f"echo {line} | sudo tee -a /etc/hosts"),
        )
    elif path.get("is_loopback"):
        yield warned(
            f"its own name {name} is {path['address']} there: a program that announces this address sends other "
            "hosts to themselves; dlbench, Open MPI and Horovod's MPI do not",
            _without_loopback(report, report, name),
        )


def _without_loopback(report: HostReport, named: HostReport, name: str) -> str:
    """Return the command that gives a host's name its real address on a host."""
    line = shlex.quote(f"{_own_address(named)} {name}")
    return report.command(
        rf"sudo sed -i -E '/^127\./s/[[:space:]]+{name}\b//g' /etc/hosts && echo {line} | sudo tee -a /etc/hosts"
    )


def _own_address(named: HostReport) -> str:
    """Return the address that a host has on its route to another one, for a command that shows it."""
    own = (path["own"] for path in (named.get("routes") or {}).values() if isinstance(path, dict) and _leads_out(path))
    return str(next(own, "ADDRESS"))


def _leads_out(path: dict[str, Any]) -> bool:
    return bool(path.get("own")) and not path.get("is_loopback")


def _unequal(facts: ClusterFacts, report: HostReport, found: dict[str, dict[str, Any]]) -> Iterator[Finding]:
    """Warn of an interface with another MTU or speed than at the other end."""
    for number, other in enumerate(facts.hosts):
        path, back = found.get(other.name, {}), _path_to(facts, other, report) if not other.problem else {}
        if (
            other is report
            or number < facts.hosts.index(report)
            or not path.get("interface")
            or not back.get("interface")
        ):
            continue
        ours, theirs = _interface(report, path["interface"]), _interface(other, back["interface"])
        for key, word in (("mtu_bytes", "MTU"), ("speed_mbit_per_s", "Mbit/s")):
            if ours.get(key) and theirs.get(key) and ours[key] != theirs[key]:
                text = f"{path['interface']} has {ours[key]} {word}, {back['interface']} of {other.name} {theirs[key]}"
                yield warned(text, _same_setting(report, other, path["interface"], back["interface"], key))


def _same_setting(report: HostReport, other: HostReport, ours: str, theirs: str, key: str) -> str:
    if key != "mtu_bytes":
        return report.command(f"sudo ethtool {ours}")
    mine, its = (_interface(host, name)[key] for host, name in ((report, ours), (other, theirs)))
    host, name = (report, ours) if mine > its else (other, theirs)
    return host.command(f"sudo ip link set dev {name} mtu {min(mine, its)}")


def _interface(report: HostReport, name: str) -> dict[str, Any]:
    """Return what is known of an interface; a virtual one makes its speed up."""
    network: list[dict[str, Any]] = report.get("machine", "network") or []
    interface = next((listed for listed in network if listed["name"] == name), {})
    return interface if name in (report.get("physical") or ()) else {**interface, "speed_mbit_per_s": None}


def port(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether a port is free to listen on."""
    if (problem := report.get("port", "error")) is not None:
        yield failed(f"no port is free: {problem}", report.command("cat /proc/sys/net/ipv4/ip_local_port_range; ss -s"))
    else:
        yield passed(f"such as {report.get('port', 'port')}")


def home(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether a host can connect to this machine, where workers send their rows."""
    problem = report.get("home", "error")
    if problem is None:
        yield passed(f"{facts.telemetry_address} answers in {1e3 * report.get('home', 'round_trip_s'):.2f} ms")
    else:
        address = facts.telemetry_address
        text = f"it cannot connect to this machine at {address}: {problem}; no row of a worker there would arrive"
        yield failed(text, _firewall_fix(facts, report, str(problem)))


def _firewall_fix(facts: ClusterFacts, report: HostReport, problem: str) -> str:
    if "unreachable" in problem or "No route" in problem or "Invalid argument" in problem:
        return report.command(f"ip route get {facts.telemetry_address}")
    return shlex.join(["sudo", "iptables", "--insert", "INPUT", "--source", report.name, "-p", "tcp", "-j", "ACCEPT"])


def clock(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether a host's clock agrees with that of this machine."""
    offset_s, round_trip_s = (found_in(report.answer, "home", key) for key in ("offset_s", "round_trip_s"))
    if offset_s is None:
        return
    offset = f"{abs(offset_s):.3g} s {'ahead' if offset_s > 0 else 'behind'}, known to {round_trip_s / 2:.1g} s"
    if abs(offset_s) - round_trip_s / 2 <= MAX_OFFSET_S:
        yield passed(offset)
    else:
        yield warned(
            f"{offset}: startup_time_s, from the launch here to a worker's first step there, is wrong by so much; "
            "rates and step times are not, each worker has them from its own clock",
            report.command("sudo timedatectl set-ntp true && sudo chronyc makestep"),
        )


def links(facts: ClusterFacts, report: HostReport) -> Iterator[Finding]:
    """Whether the host connects to the others in both directions, as fast as expected."""
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
    return failed(f"{first.name} and {second.name} cannot connect: {link.problem}", fix)


def _measured(facts: ClusterFacts, link: LinkMeasurement) -> Finding:
    names = f"{facts.hosts[link.a].name} and {facts.hosts[link.b].name}"
    text = f"{names}: {speed(link.bandwidth_bytes_per_s)}, {1e3 * link.round_trip_s:.2f} ms round trip"
    host = facts.hosts[link.a]
    expected = _expected(facts, link)
    if expected is not None and link.bandwidth_bytes_per_s < MIN_SHARE * expected:
        less = f"{text}; {speed(expected)} expected"
        return warned(less, host.command(f"tc -s qdisc show dev {link.interface_a}; ethtool {link.interface_a}"))
    if link.round_trip_s > MAX_ROUND_TRIP_S:
        return warned(
            f"{text}: workers wait long for each other in every step",
            host.command(f"traceroute {facts.hosts[link.b].name}"),
        )
    return passed(text)


def _expected(facts: ClusterFacts, link: LinkMeasurement) -> float | None:
    """Return the bytes per second to expect: the rate of its interfaces, else that of other links; None: unknown."""
    others = [
        other.bandwidth_bytes_per_s for other in facts.links if isinstance(other, LinkMeasurement) and other != link
    ]
    rates = [*_nominal(facts, link.a, link.interface_a), *_nominal(facts, link.b, link.interface_b)]
    if rates:
        return min(rates)
    return median(others) if others else None


def _nominal(facts: ClusterFacts, number: int, name: str) -> Iterator[float]:
    """Yield the bytes per second that an interface is rated for, if it is a device and TCP can fill it."""
    report = facts.hosts[number]
    for interface in report.get("machine", "network") or ():
        rate = interface["speed_mbit_per_s"] or 0
        if interface["name"] == name and name in (report.get("physical") or ()) and 0 < rate <= MAX_MBIT_PER_S:
            yield rate * 1e6 / 8


def speed(bytes_per_s: float) -> str:
    """Return a rate in bits per second, as networks are rated."""
    bits = 8 * bytes_per_s
    return f"{bits / 1e9:.1f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"
