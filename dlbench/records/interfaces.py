"""The network interfaces of the machine this runs on, and which of them leads where; needs nothing but Python."""

import array
import contextlib
import fcntl
import ipaddress
import socket
import struct
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# netdevice(7): the request that lists all IPv4 addresses, and the size of one answer: a name, then a socket address.
_SIOCGIFCONF = 0x8912
_NAME_BYTES, _ENTRY_BYTES = 16, 40
_MOST_ADDRESSES = 1024
_IPV6 = Path("/proc/net/if_inet6")
# Nothing is sent there: the kernel only looks for the way.
_PORT = 9


class UnknownName(OSError):  # noqa: N818 - it says what it is
    """A name that has no address here."""


@dataclass(frozen=True)
class Way:
    """How a host is reached from here.

    Attributes:
        address: Its address, as its name is resolved here.
        own: The address of this machine on the way there.
        interface: The interface that has it; empty where none has.
    """

    address: str
    own: str
    interface: str

    @property
    def is_loopback(self) -> bool:
        """Whether it leads back to this machine by the loopback interface."""
        return ipaddress.ip_address(self.address.partition("%")[0]).is_loopback

    def told(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {**asdict(self), "is_loopback": self.is_loopback}


def addresses() -> dict[str, str]:
    """Return the interface of each address of this machine."""
    return _ipv4() | _ipv6()


def interface_of(address: str) -> str:
    """Return the interface that has an address; empty where none has."""
    return addresses().get(address.partition("%")[0], "")


def way_to(name: str) -> Way:
    """Return how a host is reached from here; nothing is sent but what it takes to resolve its name.

    Raises:
        UnknownName: Its name cannot be resolved.
        OSError: No way leads there.
    """
    problem = ""
    for family, place in _resolved(name.strip("[]")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asked:
                asked.connect(place)
                own = str(asked.getsockname()[0])
        except OSError as error:
            problem = problem or f"no way leads to {place[0]}: {error.strerror or error}"
        else:
            return Way(str(place[0]), own, interface_of(own))
    raise OSError(problem or f"{name} has no address")


def _resolved(name: str) -> list[tuple[int, Any]]:
    """Return the addresses of a host, each with its family."""
    try:
        found = socket.getaddrinfo(name, _PORT, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        raise UnknownName(f"the name {name} is not known: {error.strerror}") from error
    return [(family, place) for family, _, _, _, place in found]


def address_on(interface: str) -> str:
    """Return this machine's address on an interface, or in a network such as `10.1.0.0/16`; IPv4 first.

    Args:
        interface: Its name, or the network; empty for any that leads out.

    Raises:
        OSError: It has none there.
    """
    found = addresses()
    if "/" in interface:
        network = ipaddress.ip_network(interface)
        there = [address for address in found if ipaddress.ip_address(address) in network]
    else:
        there = [address for address, name in found.items() if _is_meant(name, address, interface)]
    if not there:
        names = ", ".join(sorted(set(found.values()))) or "none"
        raise OSError(f"it has no address on {interface or 'any interface'}; its interfaces are {names}")
    return there[0]


def _is_meant(name: str, address: str, interface: str) -> bool:
    found = ipaddress.ip_address(address)
    return name == interface if interface else not (found.is_loopback or found.is_link_local)


def _ipv4() -> dict[str, str]:
    buffer = array.array("B", bytes(_ENTRY_BYTES * _MOST_ADDRESSES))
    request = struct.pack("iL", len(buffer), buffer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        used = struct.unpack("iL", fcntl.ioctl(asked, _SIOCGIFCONF, request))[0]
    entries = (buffer[start : start + _ENTRY_BYTES].tobytes() for start in range(0, used, _ENTRY_BYTES))
    return {socket.inet_ntoa(entry[_NAME_BYTES + 4 : _NAME_BYTES + 8]): _name(entry) for entry in entries}


def _name(entry: bytes) -> str:
    """Return the interface of an entry: an address that was added later may stand under `eth0:1`."""
    return entry[:_NAME_BYTES].partition(b"\0")[0].decode(errors="replace").partition(":")[0]


def _ipv6() -> dict[str, str]:
    found = {}
    with contextlib.suppress(OSError):  # no IPv6
        for line in _IPV6.read_text().splitlines():
            digits, *_, name = line.split()
            found[str(ipaddress.IPv6Address(int(digits, 16)))] = name
    return found
