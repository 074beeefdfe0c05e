"""Whether each pair of hosts can talk both ways, and as fast as the others and their interfaces let expect."""

from collections.abc import Iterator
from statistics import median

from dlbench.launch.doctor.facts import Asked, Facts
from dlbench.launch.doctor.finding import Remark, failed, passed, warned
from dlbench.launch.links import Broken, Link

# A link that is slower than so much of what is expected is not as it should be.
LEAST_SHARE = 0.5
# One TCP connection does not fill faster interfaces; nothing is expected of what they say.
FASTEST_MBIT_PER_S = 20_000
# A round trip within a room takes less; each step of an all-reduce takes as many as there are workers.
MOST_ROUND_TRIP_S = 0.002


def links(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Judge the links of a host."""
    position = facts.hosts.index(asked)
    for link in facts.links:
        if position in (link.a, link.b):
            yield _broken(facts, link) if isinstance(link, Broken) else _judged(facts, link)


def _broken(facts: Facts, link: Broken) -> Remark:
    first, second = facts.hosts[link.a], facts.hosts[link.b]
    is_seconds = link.problem.startswith((f"{second.name} calls ", f"{second.name}: "))
    caller, called = (second, first) if is_seconds else (first, second)
    if "no way leads" in link.problem or "for itself" in link.problem:
        mend = caller.line(f"ip route get {called.name}")
    else:
        mend = called.line(f"sudo iptables --insert INPUT --source {caller.name} -p tcp -j ACCEPT")
    return failed(f"{first.name} and {second.name} cannot talk: {link.problem}", mend)


def _judged(facts: Facts, link: Link) -> Remark:
    names = f"{facts.names(link.a)} and {facts.names(link.b)}"
    text = f"{names}: {speed(link.bandwidth_bytes_per_s)}, {1e3 * link.round_trip_s:.2f} ms there and back"
    host = facts.hosts[link.a]
    expected = _expected(facts, link)
    if expected is not None and link.bandwidth_bytes_per_s < LEAST_SHARE * expected:
        less = f"{text}; {speed(expected)} were to be expected"
        return warned(less, host.line(f"tc -s qdisc show dev {link.interface_a}; ethtool {link.interface_a}"))
    if link.round_trip_s > MOST_ROUND_TRIP_S:
        return warned(f"{text}: workers wait long for each other", host.line(f"traceroute {facts.names(link.b)}"))
    return passed(text)


def _expected(facts: Facts, link: Link) -> float | None:
    """Return the bytes per second to expect: what its interfaces say, else what other links carry; None: unknown."""
    others = [other.bandwidth_bytes_per_s for other in facts.links if isinstance(other, Link) and other != link]
    said = [*_said(facts, link.a, link.interface_a), *_said(facts, link.b, link.interface_b)]
    if said:
        return min(said)
    return median(others) if others else None


def _said(facts: Facts, number: int, name: str) -> Iterator[float]:
    """Yield the bytes per second that an interface of a host says it carries, if it can know and TCP can fill it."""
    told = facts.hosts[number]
    for found in told.has("machine", "network") or ():
        rate = found["speed_mbit_per_s"] or 0
        if found["name"] == name and name in (told.has("physical") or ()) and 0 < rate <= FASTEST_MBIT_PER_S:
            yield rate * 1e6 / 8


def speed(bytes_per_s: float) -> str:
    """Return a rate as networks are spoken of, in bits."""
    bits = 8 * bytes_per_s
    return f"{bits / 1e9:.1f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"
