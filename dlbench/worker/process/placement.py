"""Whether the processes of a run are on the hosts that its layout names, and that its rows will name."""

import contextlib
from collections.abc import Sequence

from dlbench.records import interfaces
from dlbench.scenario.cluster import HERE
from dlbench.scenario.layout import Layout


def check(layout: Layout, rank: int, names: Sequence[str]) -> None:
    """Compare where processes are with where they should be, as far as that is known.

    A host behind a router has none of the addresses it is called by: that proves nothing.

    Args:
        layout: Where they should be.
        rank: This process.
        names: What the hosts of all processes that train call themselves, by rank.

    Raises:
        RuntimeError: They are on another number of hosts, on others together, or this one is on another's host.
    """
    num_hosts = len({place.host for place in layout.places[: len(names)]})
    if len(set(names)) != num_hosts:
        where = ", ".join(sorted(set(names)))
        raise RuntimeError(f"the layout has workers on {num_hosts} hosts, they are on {where}")
    first: dict[str, int] = {}
    for place, name in zip(layout.places, names, strict=False):
        other = first.setdefault(place.host, place.rank)
        if names[other] != name:
            both = f"{names[other]} and {name}"
            raise RuntimeError(f"processes {other} and {place.rank} belong on {place.host} and are on {both}")
    assigned = layout.places[rank].host
    if assigned in HERE or _is_mine(assigned, or_loopback=True):
        return
    actual = next((host for host in layout.hosts if host not in HERE and _is_mine(host)), None)
    if actual is not None:
        raise RuntimeError(f"process {rank} belongs on {assigned} and is on {actual}")


def _is_mine(host: str, *, or_loopback: bool = False) -> bool:
    """Whether an address of a host is one of this host's; a name may lead to loopback on the host that has it."""
    with contextlib.suppress(OSError):
        way = interfaces.route_to(host)
        return or_loopback if way.is_loopback else bool(interfaces.interface_of(way.address))
    return False
