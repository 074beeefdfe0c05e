"""One network interface for all that a process sends to other hosts: MPI, Gloo and NCCL get the same.

Left to themselves each takes its own: Open MPI all interfaces at once, NCCL and Gloo the first that looks usable, which
on hosts with containers is often a bridge that leads nowhere. They read their variables when they are loaded or
initialised, so this comes before.
"""

import ipaddress
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbench.errors import UserError
from dlbench.records import interfaces
from dlbench.records.assignment import ADDRESS_VARIABLE, INTERFACE_VARIABLE, Assignment, Endpoint
from dlbench.scenario.cluster import HERE

# A user's own choice of Open MPI's interfaces stays.
_OPEN_MPI, _OPEN_MPI_NOT = "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_btl_tcp_if_exclude"
# Where each library reads it.
_WORDS = {"mpi": _OPEN_MPI, "nccl": "NCCL_SOCKET_IFNAME", "gloo": "HOROVOD_GLOO_IFACE"}
# InfiniBand and what is like it; absent where there is none.
_FABRICS = Path("/sys/class/infiniband")


@dataclass(frozen=True)
class Interface:
    """A network interface of this host: its name, and this host's address on it."""

    name: str
    address: str


def choose(assignment: Assignment, rank: int, environment: MutableMapping[str, str] | None = None) -> None:
    """Set the variables of all libraries to one interface; none is set on one host.

    What a user has set of a library's own stays; rows then name the interface that the run's library uses, and none
    where the choice is no interface's name.

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
        return
    if layout.interface:
        interface = _named(layout.interface)
    elif route := interfaces.route_out(_addresses(others, assignment.endpoint)):
        interface = Interface(route.interface, route.own.partition("%")[0])
    else:  # all are over loopback
        return
    chosen = os.environ if environment is None else environment
    for name, value in _variables(interface, chosen).items():
        chosen.setdefault(name, value)
    word = _WORDS.get(assignment.run.settings.collectives or "", INTERFACE_VARIABLE)
    in_use = chosen.get(word, interface.name).removeprefix("=")
    if in_use != interface.name:  # its bytes are those that the sensor counts
        del chosen[INTERFACE_VARIABLE], chosen[ADDRESS_VARIABLE]
        if addresses := [other.address for other in _all() if other.name == in_use]:
            chosen[INTERFACE_VARIABLE], chosen[ADDRESS_VARIABLE] = in_use, addresses[0]


def _addresses(hosts: Iterable[str], endpoint: Endpoint | None) -> Iterator[str]:
    """Yield the addresses that lead to other hosts; what dlbench calls `localhost` is where dlbench is."""
    here = [] if endpoint is None else [endpoint.address]
    for host in hosts:
        yield from here if host in HERE else [host]
    yield from here


def facts(environment: Mapping[str, str], collectives: str | None) -> dict[str, Any]:
    """Return the interfaces and transports set for the libraries of this process, by column name."""
    columns = {"interface": environment.get(INTERFACE_VARIABLE), "transports": _transports(environment, collectives)}
    return {name: value for name, value in columns.items() if value}


def _named(choice: str) -> Interface:
    """Return the interface of that name, or the one with an address in that network."""
    network = ipaddress.ip_network(choice) if "/" in choice else None
    for interface in _all():
        if interface.name == choice or (network is not None and ipaddress.ip_address(interface.address) in network):
            return interface
    there = ", ".join(f"{interface.name} ({interface.address})" for interface in _all())
    raise UserError(
        f"{socket.gethostname()} has no network interface {choice}",
        hint=f"`interface` in the cluster file; this host has {there or 'none with an address'}",
    )


def _all() -> list[Interface]:
    """Return every interface of this host with each of its addresses."""
    return [Interface(name, address) for address, name in interfaces.addresses().items()]


def _variables(own: Interface, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what says to each library, in its own words, which interface it takes."""
    variables = {INTERFACE_VARIABLE: own.name, ADDRESS_VARIABLE: own.address}
    # MPICH sends by libfabric or by UCX, which would take these interfaces and the ports of a fabric alike.
    variables |= {"FI_TCP_IFACE": own.name, "FI_SOCKETS_IFACE": own.name}
    if not _FABRICS.exists():
        variables["UCX_NET_DEVICES"] = own.name
    # NCCL takes a name for the beginning of names, unless it begins with `=`.
    variables |= {"NCCL_SOCKET_IFNAME": f"={own.name}", "GLOO_SOCKET_IFNAME": own.name}
    variables["HOROVOD_GLOO_IFACE"] = own.name
    if _OPEN_MPI_NOT not in environment:
        variables[_OPEN_MPI] = own.name
    return variables


def _transports(environment: Mapping[str, str], collectives: str | None) -> str:
    """Return the transports set for the library that moves bytes; empty where none is set."""
    if collectives == "mpi":
        layers = [environment.get(f"OMPI_MCA_{name}", "") for name in ("pml", "btl")]
        return " ".join(filter(None, layers))
    if collectives == "nccl":
        names = ("NCCL_NET", "NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
        return " ".join(f"{name}={environment[name]}" for name in names if environment.get(name))
    return {"gloo": "tcp", "grpc": "tcp"}.get(collectives or "", "")
