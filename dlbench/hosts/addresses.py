"""Where the processes of a user's script find each other: an address of each host, and ports that are free there."""

from collections.abc import Mapping

from dlbench.errors import UserError
from dlbench.hosts.agent import free_ports
from dlbench.hosts.remote import Agents, HostError, in_parallel
from dlbench.scenario.cluster import HERE, Cluster, Host
from dlbench.scenario.layout import Layout
from dlbench.telemetry.server import own_address

TIMEOUT_S = 60.0


def addresses(layout: Layout, cluster: Cluster, environment: Mapping[str, str], *, needs_all: bool) -> tuple[str, ...]:
    """Return `host:port` of processes, by rank; ports that the hosts' kernels gave just now.

    Args:
        layout: Who is where.
        cluster: The hosts, and how they are reached.
        environment: Says how they are reached, where the cluster does not.
        needs_all: Whether every process needs its own; else those of worker 0's host are enough.

    Raises:
        UserError: A host does not answer.
    """
    hosts = layout.hosts if needs_all else layout.hosts[:1]
    numbers = {host: sum(place.host == host for place in layout.places) for host in hosts}
    by_address = {host.address: host for host in cluster.hosts}

    def ports_of(host: Host) -> list[int]:
        try:
            return list(agents.ask(host, "free ports", TIMEOUT_S, number=numbers[host.address])["ports"])
        except HostError as error:
            raise UserError(f"{host.address}: it gives no port to the script's processes: {error}") from error

    agents, others = Agents(cluster, environment), [host for host in numbers if host not in HERE]
    asked = in_parallel(ports_of, [by_address[host] for host in others])
    ports = dict(zip(others, map(iter, asked), strict=True)) | {
        host: iter(free_ports(numbers[host])) for host in hosts if host in HERE
    }
    elsewhere = [host for host in layout.hosts if host not in HERE]
    here = own_address(elsewhere) if elsewhere else "127.0.0.1"
    names = {host: here if host in HERE else host for host in hosts}
    shown = {host: f"[{name.strip('[]')}]" if ":" in name else name for host, name in names.items()}
    places = [place for place in layout.places if place.host in hosts]
    return tuple(f"{shown[place.host]}:{next(ports[place.host])}" for place in places)
