"""One network interface for all that a process sends to other hosts: MPI, Gloo and NCCL are told the same.

Left to themselves each takes its own: Open MPI all interfaces at once, NCCL and Gloo the first that looks usable, which
on hosts with containers is often a bridge that leads nowhere. They read their variables when they are loaded or
initialised, so this comes before.
"""

import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbench.errors import UserError
from dlbench.records import interfaces
from dlbench.records.assignment import ADDRESS_VARIABLE, INTERFACE_VARIABLE, Assignment, Home
from dlbench.scenario.cluster import HERE

# What a user has said of Open MPI's own interfaces stays.
_OPEN_MPI, _OPEN_MPI_NOT = "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude"
# Where each library reads it.
_WORDS = {"mpi": _OPEN_MPI, "nccl": "NCCL_SOCKET_IFNAME", "gloo": "HOROVOD_GLOO_IFACE"}
# InfiniBand and what is like it; absent where there is none.
_FABRICS = Path("/sys/class/infiniband")


@dataclass(frozen=True)
class Wire:
    """A network interface of this host: its name, and this host's address on it."""

    interface: str
    address: str


def choose(assignment: Assignment, rank: int, environment: MutableMapping[str, str] | None = None) -> Wire | None:
    """Set the variables of all libraries to one interface, and return it; None, and nothing set, on one host.

    What a user has set of a library's own stays; rows then name the interface that the run's library was told.

    Args:
        assignment: Who runs where, and the interface that was asked for; by default the one to the other hosts.
        rank: This process.
        environment: Where variables are set that are not there yet; default: this process's.

    Raises:
        UserError: This host has no such interface.
    """
    layout = assignment.layout
    others = [host for host in layout.hosts if host != layout.places[rank].host]
    if not others:
        return None
    wire = _named(layout.interface) if layout.interface else _leading_to(list(_ways(others, assignment.home)))
    if wire is None:
        return None
    chosen = os.environ if environment is None else environment
    for name, value in _variables(wire, chosen).items():
        chosen.setdefault(name, value)
    return _told(wire, chosen, assignment.run.settings.collectives)


def _ways(hosts: Iterable[str], home: Home | None) -> Iterator[str]:
    """Yield the addresses that lead to other hosts; what dlbench calls `localhost` is where dlbench is."""
    at_home = [] if home is None else [home.address]
    for host in hosts:
        yield from at_home if host in HERE else [host]
    yield from at_home


def _told(wire: Wire, chosen: MutableMapping[str, str], collectives: str | None) -> Wire | None:
    """Return the interface that the run's library was told, and say so to whoever counts what it carries.

    None, and nobody counts, where a user has told it something that is no interface's name.
    """
    said = chosen.get(_WORDS.get(collectives or "", INTERFACE_VARIABLE), wire.interface).removeprefix("=")
    if said == wire.interface:
        return wire
    found = next((other for other in _all() if other.interface == said), None)
    for name, value in ((INTERFACE_VARIABLE, said), (ADDRESS_VARIABLE, found and found.address)):
        chosen.pop(name)
        if found and value:
            chosen[name] = value
    return found


def facts(environment: Mapping[str, str], collectives: str | None) -> dict[str, Any]:
    """Return what the libraries of this process were told of interfaces and transports, by column name."""
    found = {"interface": environment.get(INTERFACE_VARIABLE), "transports": _transports(environment, collectives)}
    return {name: value for name, value in found.items() if value}


def _named(choice: str) -> Wire:
    """Return the interface of that name, or the one with an address in that network."""
    found = [wire for wire in _all() if _is_meant(wire, choice)]
    if not found:
        there = ", ".join(f"{wire.interface} ({wire.address})" for wire in _all())
        raise UserError(
            f"{socket.gethostname()} has no network interface {choice}",
            hint=f"`interface` in the cluster file; this host has {there or 'none with an address'}",
        )
    return found[0]


def _is_meant(wire: Wire, choice: str) -> bool:
    if "/" not in choice:
        return wire.interface == choice
    return ipaddress.ip_address(wire.address) in ipaddress.ip_network(choice)


def _leading_to(hosts: list[str]) -> Wire | None:
    """Return the interface on the way to the first host that can be found; None where nothing but loopback leads."""
    for host in hosts:
        with contextlib.suppress(OSError):
            way = interfaces.way_to(host)
            own = way.own.partition("%")[0]
            if way.interface and not ipaddress.ip_address(own).is_loopback:
                return Wire(way.interface, own)
    return None


def _all() -> list[Wire]:
    """Return every interface of this host with each of its addresses."""
    return [Wire(name, address) for address, name in interfaces.addresses().items()]


def _variables(wire: Wire, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what says to each library, in its own words, which interface it takes."""
    said = {INTERFACE_VARIABLE: wire.interface, ADDRESS_VARIABLE: wire.address}
    # MPICH sends by libfabric or by UCX, which would take these interfaces and the ports of a fabric alike.
    said |= {"FI_TCP_IFACE": wire.interface, "FI_SOCKETS_IFACE": wire.interface}
    if not _FABRICS.exists():
        said["UCX_NET_DEVICES"] = wire.interface
    # NCCL takes a name for the beginning of names, unless it is told otherwise.
    said |= {"NCCL_SOCKET_IFNAME": f"={wire.interface}", "GLOO_SOCKET_IFNAME": wire.interface}
    said["HOROVOD_GLOO_IFACE"] = wire.interface
    if _OPEN_MPI_NOT not in environment:
        said[_OPEN_MPI] = wire.interface
    return said


def _transports(environment: Mapping[str, str], collectives: str | None) -> str:
    """Return what the library that moves bytes was told to move them with; empty where nobody told it."""
    if collectives == "mpi":
        layers = [environment.get(f"OMPI_MCA_{name}", "") for name in ("pml", "btl")]
        return " ".join(filter(None, layers))
    if collectives == "nccl":
        names = ("NCCL_NET", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
        return " ".join(f"{name}={environment[name]}" for name in names if environment.get(name))
    return {"gloo": "tcp", "grpc": "tcp"}.get(collectives or "", "")
