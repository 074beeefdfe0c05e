"""Whether hosts reach each other and this machine, by which way, and whether their clocks agree."""

import shlex
from collections.abc import Iterator
from typing import Any

from dlbench.launch.doctor.facts import Asked, Facts
from dlbench.launch.doctor.finding import Remark, failed, passed, warned
from dlbench.records.machine import found_in

# Of all that is measured only `startup_time_s` is taken from the clocks of two hosts; it may be a tenth of a second.
MOST_OFFSET_S = 0.1


def route(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether a way leads to each other host, over equal interfaces, and no name leads back."""
    found = {other.name: _way(facts, asked, other) for other in facts.hosts if other is not asked}
    remarks = [*_dead_ends(facts, asked, found), *_own_name(facts, asked), *_unequal(facts, asked, found)]
    yield from remarks
    if not remarks:
        interfaces = sorted({str(way.get("interface")) for way in found.values()})
        yield passed(f"over {', '.join(interfaces)}")


def _way(facts: Facts, asked: Asked, other: Asked) -> dict[str, Any]:
    """Return how a host reaches another one; this machine, where it is called localhost, by the address it has."""
    name = facts.home if other.host.is_here else other.name.strip("[]")
    return asked.has("ways", name) or {"error": asked.has("ways", "error") or "it was not asked"}


def _dead_ends(facts: Facts, asked: Asked, found: dict[str, dict[str, Any]]) -> Iterator[Remark]:
    for other in (other for other in facts.hosts if other is not asked):
        name, way = other.name, found[other.name]
        if way.get("is_unknown"):
            text = f"{way['error']}; MPI does without, what calls hosts by their names does not"
            yield warned(text, asked.line(f"echo 'ADDRESS {name}' | sudo tee -a /etc/hosts"))
        elif "error" in way:
            yield failed(
                f"{name}: {way['error']}", asked.line(f"ip route get $(getent ahostsv4 {name} | cut -d' ' -f1)")
            )
        elif way["is_loopback"]:
            text = f"{name} is {way['address']} there: it takes that host for itself"
            yield failed(text, _without_loopback(asked, other, name))


def _own_name(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Doubt a host whose own name is a loopback address, as Debian and Ubuntu have it, or none at all."""
    name = asked.has("hostname") or ""
    way = asked.has("ways", name) or {}
    if way.get("is_unknown"):
        line = shlex.quote(f"{_own_address(asked)} {name}")
        yield warned(
            f"its own name {name} has no address there: Horovod over Gloo ends on it, dlbench and MPI do not ask",
            asked.line(f"echo {line} | sudo tee -a /etc/hosts"),
        )
    elif way.get("is_loopback"):
        yield warned(
            f"its own name {name} is {way['address']} there: a program that tells others its address by its name tells "
            "them to call themselves; dlbench, Open MPI and Horovod's MPI do not",
            _without_loopback(asked, asked, name),
        )


def _without_loopback(asked: Asked, named: Asked, name: str) -> str:
    """Return the command that gives a host's name its real address on a host."""
    line = shlex.quote(f"{_own_address(named)} {name}")
    return asked.line(
        rf"sudo sed -i -E '/^127\./s/[[:space:]]+{name}\b//g' /etc/hosts && echo {line} | sudo tee -a /etc/hosts"
    )


def _own_address(named: Asked) -> str:
    """Return the address that a host has on its way to another one, for a command that somebody may still mend."""
    own = (way["own"] for way in (named.has("ways") or {}).values() if isinstance(way, dict) and _leads_out(way))
    return str(next(own, "ADDRESS"))


def _leads_out(way: dict[str, Any]) -> bool:
    return bool(way.get("own")) and not way.get("is_loopback")


def _unequal(facts: Facts, asked: Asked, found: dict[str, dict[str, Any]]) -> Iterator[Remark]:
    """Doubt an interface with another MTU or speed than at the other end."""
    for number, other in enumerate(facts.hosts):
        way, back = found.get(other.name, {}), _way(facts, other, asked) if not other.problem else {}
        if other is asked or number < facts.hosts.index(asked) or not way.get("interface") or not back.get("interface"):
            continue
        ours, theirs = _interface(asked, way["interface"]), _interface(other, back["interface"])
        for key, word in (("mtu_bytes", "MTU"), ("speed_mbit_per_s", "Mbit/s")):
            if ours.get(key) and theirs.get(key) and ours[key] != theirs[key]:
                text = f"{way['interface']} has {ours[key]} {word}, {back['interface']} of {other.name} {theirs[key]}"
                yield warned(text, _equalising(asked, other, way["interface"], back["interface"], key))


def _equalising(asked: Asked, other: Asked, ours: str, theirs: str, key: str) -> str:
    if key != "mtu_bytes":
        return asked.line(f"sudo ethtool {ours}")
    mine, its = (_interface(host, name)[key] for host, name in ((asked, ours), (other, theirs)))
    host, name = (asked, ours) if mine > its else (other, theirs)
    return host.line(f"sudo ip link set dev {name} mtu {min(mine, its)}")


def _interface(asked: Asked, name: str) -> dict[str, Any]:
    """Return what is known of an interface; a virtual one makes its speed up."""
    network: list[dict[str, Any]] = asked.has("machine", "network") or []
    told = next((found for found in network if found["name"] == name), {})
    return told if name in (asked.has("physical") or ()) else {**told, "speed_mbit_per_s": None}


def port(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether a port can be had to listen on."""
    if (problem := asked.has("port", "error")) is not None:
        yield failed(f"no port can be had: {problem}", asked.line("cat /proc/sys/net/ipv4/ip_local_port_range; ss -s"))
    else:
        yield passed(f"such as {asked.has('port', 'port')}")


def home(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether a host can call this machine: rows of runs come home that way."""
    problem = asked.has("home", "error")
    if problem is None:
        yield passed(f"{facts.home} answers in {1e3 * asked.has('home', 'round_trip_s'):.2f} ms")
    else:
        text = f"it cannot call this machine at {facts.home}: {problem}; no row of a worker there would come home"
        yield failed(text, _letting_in(facts, asked, str(problem)))


def _letting_in(facts: Facts, asked: Asked, problem: str) -> str:
    if "unreachable" in problem or "No route" in problem or "Invalid argument" in problem:
        return asked.line(f"ip route get {facts.home}")
    return shlex.join(["sudo", "iptables", "--insert", "INPUT", "--source", asked.name, "-p", "tcp", "-j", "ACCEPT"])


def clock(facts: Facts, asked: Asked) -> Iterator[Remark]:
    """Whether a host's clock agrees with that of this machine."""
    offset_s, round_trip_s = (found_in(asked.told, "home", key) for key in ("offset_s", "round_trip_s"))
    if offset_s is None:
        return
    said = f"{abs(offset_s):.3g} s {'ahead' if offset_s > 0 else 'behind'}, known to {round_trip_s / 2:.1g} s"
    if abs(offset_s) - round_trip_s / 2 <= MOST_OFFSET_S:
        yield passed(said)
    else:
        yield warned(
            f"{said}: startup_time_s, from the launch here to a worker's first step there, is wrong by so much; rates "
            "and step times are not, each worker has them from its own clock",
            asked.line("sudo timedatectl set-ntp true && sudo chronyc makestep"),
        )
