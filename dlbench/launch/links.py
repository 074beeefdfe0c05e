"""The links between the hosts of a cluster, measured: how long a message takes there and back, how many bytes a second.

Pairs are measured one after the other, for they may share wires; each takes some 1.5 s. Of two hosts each calls the
other and streams to it, on ports and addresses as MPI would use them, so that a firewall in either direction is found.
One TCP connection may not fill a very fast link (above some 20 Gbit/s), and what a cloud lets through for minutes
before it limits a host is taken for what the link can do.
"""

import secrets
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from dlbench.errors import UserError
from dlbench.launch.link_ask import End, LinkError, ends
from dlbench.launch.remote import elsewhere
from dlbench.scenario.cluster import Cluster

# Up to so many hosts every pair is measured, above it each host and its next: pairs grow with the square of hosts.
ALL_PAIRS_HOSTS = 8


@dataclass(frozen=True)
class Link:
    """What was measured between two hosts.

    Attributes:
        a: Position of the one host in the cluster.
        b: Position of the other.
        round_trip_s: One byte there and one back over TCP, median of up to 500; the lower of what the two ends
            see. Half of it is what models of communication call latency.
        bandwidth_bytes_per_s: What arrives of a TCP stream per second once the sender runs at full speed, for the
            slower direction.
        interface_a: The interface on `a` that was used; empty where it cannot be told.
        interface_b: The interface on `b`.
    """

    a: int
    b: int
    round_trip_s: float
    bandwidth_bytes_per_s: float
    interface_a: str
    interface_b: str


@dataclass(frozen=True)
class Broken:
    """Two hosts that cannot talk.

    Attributes:
        a: Position of the one host in the cluster.
        b: Position of the other.
        problem: Why.
    """

    a: int
    b: int
    problem: str


def measure(cluster: Cluster, environment: Mapping[str, str], python: str = sys.executable) -> tuple[Link, ...]:
    """Measure every pair of up to 8 hosts, and of more each host and its next; nothing for one host.

    Args:
        cluster: The hosts, and how they are reached; its `interface` is what is measured, where it names one.
        environment: Says how hosts are reached where the cluster does not.
        python: The interpreter that has dlbench, here and there.

    Raises:
        UserError: Two hosts cannot talk; names them.
    """
    found = []
    with closing(measure_each(cluster, environment, python)) as measured:
        for link in measured:
            if isinstance(link, Broken):
                names = " and ".join(cluster.hosts[number].address for number in (link.a, link.b))
                raise UserError(f"{names} cannot talk: {link.problem}", hint="`dlbench doctor` examines all hosts")
            found.append(link)
    return tuple(found)


def measure_each(
    cluster: Cluster, environment: Mapping[str, str], python: str = sys.executable
) -> Generator[Link | Broken, None, None]:
    """Yield what is found between each pair: the same as `measure`, but it goes on after a failure."""
    wanted = pairs(len(cluster.hosts))
    if not wanted:
        return
    with ends(cluster, environment, python) as found:
        for a, b in wanted:
            pair = _Pair(cluster, found, a, b)
            try:
                yield pair.measure()
            except LinkError as error:
                yield Broken(a, b, str(error))


def pairs(num_hosts: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs that are measured: all, or of many hosts a ring."""
    if num_hosts <= ALL_PAIRS_HOSTS:
        return tuple(combinations(range(num_hosts), 2))
    return (*pairwise(range(num_hosts)), (0, num_hosts - 1))


@dataclass(frozen=True)
class _Pair:
    """Two hosts of a cluster, and the programs on all of them."""

    cluster: Cluster
    ends: list[End | LinkError]
    a: int
    b: int

    def measure(self) -> Link:
        """Measure both directions.

        Raises:
            LinkError: One of the hosts cannot be asked, or they cannot talk.
        """
        there, back = self._one_way(self.a, self.b), self._one_way(self.b, self.a)
        return Link(
            a=self.a,
            b=self.b,
            round_trip_s=min(there["round_trip_s"], back["round_trip_s"]),
            bandwidth_bytes_per_s=min(there["bandwidth_bytes_per_s"], back["bandwidth_bytes_per_s"]),
            interface_a=there["caller_interface"],
            interface_b=there["listener_interface"],
        )

    def _one_way(self, caller: int, listener: int) -> dict[str, Any]:
        """Have one host call the other and stream to it."""
        address, own = self._way(caller, listener)
        token = secrets.token_hex(16)
        port = self._ask(listener, "listen", address=address, token=token)["port"]
        try:
            called = self._ask(caller, "call", address=address, port=port, token=token, own=own)
        except LinkError as error:
            # What the listener saw says no more.
            self._end(listener).give_up()
            raise LinkError(f"{self._name(caller)} calls {address} port {port}: {error}") from error
        heard = self._said(listener, self._end(listener).answer)
        return {
            "round_trip_s": called["latency_s"],
            "bandwidth_bytes_per_s": heard["bandwidth_bytes_per_s"],
            "caller_interface": called["interface"],
            "listener_interface": heard["interface"],
        }

    def _way(self, caller: int, listener: int) -> tuple[str, str]:
        """Return the address that one host calls the other by, and the address it calls from; empty for any."""
        if self.cluster.interface:
            places = (self._ask(number, "own", interface=self.cluster.interface) for number in (listener, caller))
            address, own = (place["address"] for place in places)
            return address, own
        if self.cluster.hosts[listener].is_here:
            # Another host takes `localhost` for itself: it calls the address from which this one would call.
            way = self._ask(listener, "way", to=self._name(caller))
            address = way["own"]
        else:
            way = self._ask(caller, "way", to=self._name(listener))
            address = way["address"]
        if not address:
            # Its name is known to ssh alone.
            return self._ask(listener, "own", interface="")["address"], ""
        if way["is_loopback"] and self._are_apart(caller, listener):
            raise LinkError(f"one of them takes the other for itself: it resolves the other's name to {address}")
        return address, ""

    def _are_apart(self, *hosts: int) -> bool:
        """Whether one of two hosts is not this machine."""
        return any(self.cluster.hosts[number] in elsewhere(self.cluster) for number in hosts)

    def _name(self, number: int) -> str:
        return self.cluster.hosts[number].address

    def _ask(self, number: int, do: str, **request: Any) -> dict[str, Any]:
        return self._said(number, lambda: self._end(number).ask(do, **request))

    def _said(self, number: int, asking: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a host's answer; what is wrong is said with its name."""
        try:
            return asking()
        except LinkError as error:
            raise LinkError(f"{self._name(number)}: {error}") from error

    def _end(self, number: int) -> End:
        end = self.ends[number]
        if isinstance(end, LinkError):
            raise end
        return end
