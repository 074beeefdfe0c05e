"""Whether two hosts of a cluster are one: the same name, or names of the same address."""

import contextlib
import ipaddress
import secrets
import socket
import threading
from collections.abc import Collection, Iterable, Mapping

import psutil

from dlbench.errors import UserError
from dlbench.scenario.cluster import LOCAL, Cluster, host_name, same_host

# A name server that does not answer must not keep `dlbench check`: what it would say, ssh says later.
_LOOK_UP_S = 2.0


def refuse_same_host(cluster: Cluster, where: str) -> None:
    """Refuse two names of one host, such as `localhost` and this machine's own, or a name and its address.

    Containers on one machine have an address each: they are different hosts.

    Args:
        cluster: The hosts.
        where: Where they are written.

    Raises:
        UserError: Says which are the same, and what to write instead.
    """
    if len(cluster.hosts) == 1 or cluster.submitter != "direct":
        return
    addresses = _looked_up(host.address for host in cluster.hosts)
    if _same(cluster, addresses):
        # Addresses that any name of a domain has, by a wildcard, say nothing about a host.
        random_name = secrets.token_hex(8)
        others = {name: f"{random_name}.{name.partition('.')[2]}".rstrip(".") for name in addresses}
        of_any = _looked_up(others.values())
        addresses = {name: addresses[name] - of_any[others[name]] for name in addresses}
        if same := _same(cluster, addresses):
            raise UserError(same, where=where)


def _same(cluster: Cluster, addresses: Mapping[str, frozenset[str]]) -> str:
    here = {item.address.partition("%")[0] for items in psutil.net_if_addrs().values() for item in items}
    # The first host of each name and address.
    first: dict[str, str] = {}
    for address in addresses:
        keys = _keys(address, addresses[address], here)
        chosen = next((first[key] for key in keys if key in first), address)
        first |= dict.fromkeys(keys, chosen)
    return same_host(cluster.hosts, lambda address: first[host_name(address)])


def _keys(address: str, addresses: frozenset[str], here: Collection[str]) -> list[str]:
    name = host_name(address)
    is_here = name == socket.gethostname().lower() or any(_is_here(item, here) for item in addresses)
    return [name, *([LOCAL] if is_here else []), *addresses]


def _looked_up(names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the addresses of each name; none where it has none, or its name server is silent."""
    addresses: dict[str, frozenset[str]] = dict.fromkeys(names, frozenset())

    def look_up() -> None:
        for name in list(addresses):
            with contextlib.suppress(OSError, UnicodeError):
                infos = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
                addresses[name] = frozenset(str(info[4][0]) for info in infos)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(_LOOK_UP_S)
    return dict(addresses)


def _is_here(address: str, here: Collection[str]) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_loopback or ip.is_unspecified or str(ip) in here
