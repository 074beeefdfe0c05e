"""The network interfaces of this machine, and the routes from it to other hosts."""

import contextlib
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import psutil

# Nothing is sent there: the kernel only looks up the route.
_PORT = 9


class UnknownNameError(OSError):
    """A name that has no address here."""


@dataclass(frozen=True)
class Route:
    """How a host is reached from here.

    Attributes:
        address: Its address, as its name is resolved here.
        own: The address of this machine on the way there.
        interface: The interface that has `own`; empty where none has.
    """

    address: str
    own: str
    interface: str

    @property
    def is_loopback(self) -> bool:
        """Whether it leads back to this machine by the loopback interface."""
        return ipaddress.ip_address(self.address.partition("%")[0]).is_loopback

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {**asdict(self), "is_loopback": self.is_loopback}


def addresses() -> dict[str, str]:
    """Return the interface of each address of this machine, IPv4 first."""
    by_interface = psutil.net_if_addrs()
    return {
        # An address that was added later may have a label such as `eth0:1`.
        item.address.partition("%")[0]: name.partition(":")[0]
        for family in (socket.AF_INET, socket.AF_INET6)
        for name, items in by_interface.items()
        for item in items
        if item.family == family
    }


def interface_of(address: str) -> str:
    """Return the interface that has an address; empty where none has."""
    return addresses().get(address.partition("%")[0], "")


def route_to(host: str, family: int = socket.AF_UNSPEC) -> Route:
    """Return how a host is reached from here; nothing is sent but what it takes to resolve its name.

    Raises:
        UnknownNameError: Its name cannot be resolved.
        OSError: There is no route to it.
    """
    host, problem = host.strip("[]"), ""
    try:
        infos = socket.getaddrinfo(host, _PORT, family=family, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        raise UnknownNameError(f"the name {host} is not known: {error.strerror}") from error
    for family_of_place, _, _, _, place in infos:
        try:
            with socket.socket(family_of_place, socket.SOCK_DGRAM) as probe:
                probe.connect(place)
                source = str(probe.getsockname()[0])
        except OSError as error:
            problem = problem or f"no route to {place[0]}: {error.strerror or error}"
        else:
            return Route(str(place[0]), source, interface_of(source))
    raise OSError(problem or f"{host} has no address")


def route_out(hosts: Iterable[str], family: int = socket.AF_UNSPEC) -> Route | None:
    """Return the route to the first of some hosts that is not over loopback; None where there is none."""
    for host in hosts:
        with contextlib.suppress(OSError):
            route = route_to(host, family)
            if route.interface and not ipaddress.ip_address(route.own.partition("%")[0]).is_loopback:
                return route
    return None


def address_on(interface: str) -> str:
    """Return this machine's address on an interface, or in a network such as `10.1.0.0/16`; IPv4 first.

    Args:
        interface: Its name, or the network; empty for any that leaves this machine.

    Raises:
        OSError: It has none there.
    """
    by_address = addresses()
    network = ipaddress.ip_network(interface) if "/" in interface else None
    for address, name in by_address.items():
        parsed = ipaddress.ip_address(address)
        if network is not None:
            is_there = parsed in network
        else:
            is_there = name == interface if interface else not (parsed.is_loopback or parsed.is_link_local)
        if is_there:
            return address
    names = ", ".join(sorted(set(by_address.values()))) or "none"
    raise OSError(f"it has no address on {interface or 'any interface'}; its interfaces are {names}")
