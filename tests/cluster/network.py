"""The wires: a bridge for each cluster, a namespace and a virtual link for each host, and limits on links."""

import contextlib
import ipaddress
import json
import re
from pathlib import Path
from typing import Any

from tests.cluster.commands import CommandError, output
from tests.cluster.identity import Identity, identity_of

_NAMESPACES = Path("/run/netns")
# HTB sends a segment while it owes nothing and makes the next one wait until this one is paid for. So no token bucket
# is full after a pause: what passes at once is what it may save up, and one segment. The kernel's timers are late by
# some 50 us, which only what is saved up makes good. Shorter segments cost more time and lose more to late timers.
_SEGMENT_S, _SAVED_S = 130e-6, 32e-6
_FULL_SEGMENT_BYTES, _LEAST_SEGMENT_BYTES, _LEAST_SAVED_BYTES = 65536, 3000, 2000
_UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
# A route as wide as this (of a private network behind a tunnel, say) may be hidden in part.
_WIDE = 16


def rate_bits_per_s(rate: str) -> float:
    """Return a rate such as `1gbit`, `200mbit` or `512kbit` in bits per second.

    Raises:
        ValueError: It is none of these.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]bit)", rate)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"rate: {rate!r} is not a number with kbit, mbit or gbit, such as 1gbit")
    return float(match[1]) * _UNITS[match[2]]


def routes() -> list[ipaddress.IPv4Network]:
    """Return the networks that this machine has a way into, but for very wide ones."""
    names = [row["dst"] for row in _rows("-4", "route", "show", "table", "all") if row["dst"] != "default"]
    found = [ipaddress.IPv4Network(name, strict=False) for name in names]
    return [net for net in found if net.prefixlen > _WIDE]


def make_bridge(name: str, address: str) -> None:
    """Make a bridge that the machine itself takes part in, by an address such as `10.77.1.254/24`."""
    output("ip", "link", "add", "name", name, "type", "bridge")
    output("ip", "address", "add", address, "dev", name)
    output("ip", "link", "set", "dev", name, "up")


def plug_in(bridge: str, namespace: str, address: str) -> None:
    """Make a namespace with an `eth0`, joined to the bridge by a link that has the namespace's name here."""
    output("ip", "netns", "add", namespace)
    inside = ("ip", "-netns", namespace)
    output("ip", "link", "add", "name", namespace, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    output("ip", "link", "set", "dev", namespace, "master", bridge, "up")
    output(*inside, "address", "add", address, "dev", "eth0")
    output(*inside, "link", "set", "dev", "eth0", "up")
    output(*inside, "link", "set", "dev", "lo", "up")


def switch(namespace: str, *, is_on: bool) -> None:
    """Cut a namespace's link, or restore it."""
    output("ip", "link", "set", "dev", namespace, "up" if is_on else "down")


def limit(namespace: str, rate: str | None) -> None:
    """Limit what leaves a namespace, and what comes into it, to a rate; None lifts the limit.

    A message takes its size / rate and the latency, within 10% from 128 kB on at 1 Gbit/s and from 64 kB on at
    500 Mbit/s and less; half as many bytes take up to 20% less. Headers count: 4.6% on top of a stream of TCP.
    """
    segment_bytes = _FULL_SEGMENT_BYTES
    if rate is not None:
        own = int(rate_bits_per_s(rate) / 8 * _SEGMENT_S)
        segment_bytes = min(max(own, _LEAST_SEGMENT_BYTES), _FULL_SEGMENT_BYTES)
    output("ip", "-netns", namespace, "link", "set", "dev", "eth0", "gso_max_size", str(segment_bytes))
    for where, device in ((("-netns", namespace), "eth0"), ((), namespace)):
        # A limit that is there cannot be changed to another.
        output("tc", *where, "qdisc", "replace", "dev", device, "root", "noqueue")
        if rate is not None:
            output("tc", *where, "qdisc", "replace", "dev", device, "root", "handle", "1:", "htb", "default", "1")
            output("tc", *where, "class", "add", "dev", device, "parent", "1:", "classid", "1:1", *_class(rate))


def _class(rate: str) -> tuple[str, ...]:
    saved_bytes = str(max(_LEAST_SAVED_BYTES, int(rate_bits_per_s(rate) / 8 * _SAVED_S)))
    quantum = str(_FULL_SEGMENT_BYTES)
    return ("htb", "rate", rate, "ceil", rate, "burst", saved_bytes, "cburst", saved_bytes, "quantum", quantum)


def namespaces(cluster: str) -> list[str]:
    """Return the namespaces of a cluster that are there."""
    return sorted(path.name for path in _NAMESPACES.glob(f"{cluster}-*"))


def links(cluster: str) -> list[str]:
    """Return the links of a cluster that are there, its bridge last."""
    names = [str(row["ifname"]) for row in _rows("link", "show")]
    return [name for name in names if name.startswith(f"{cluster}-")] + [name for name in names if name == cluster]


def members(namespace: str) -> list[Identity]:
    """Return the living processes in a namespace."""
    inside = _number(_NAMESPACES / namespace)
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    found = [identity_of(pid) for pid in pids if inside and _number(Path(f"/proc/{pid}/ns/net")) == inside]
    return [who for who in found if who is not None]


def remove(cluster: str) -> None:
    """Remove a cluster's links, namespaces and bridge, whichever of them are there.

    Raises:
        CommandError: Something of it could not be removed.
    """
    # Someone else may be removing them as well.
    for name in links(cluster):
        with contextlib.suppress(CommandError):
            output("ip", "link", "delete", "dev", name)
    for name in namespaces(cluster):
        with contextlib.suppress(CommandError):
            output("ip", "netns", "delete", name)
    if left := links(cluster) + namespaces(cluster):
        raise CommandError(f"could not remove {', '.join(left)}")


def _number(path: Path) -> tuple[int, int] | None:
    """Return the number of a namespace; None where it, or the process, is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _rows(*words: str) -> list[dict[str, Any]]:
    """Ask `ip` for a table."""
    rows: list[dict[str, Any]] = json.loads(output("ip", "-json", *words) or "[]")
    return [row for row in rows if row]
