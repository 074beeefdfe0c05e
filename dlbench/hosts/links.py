"""Measure the links between the hosts of a cluster: round trip, messages and bandwidth of one TCP connection.

Pairs are measured one after the other, for they may share wires; each takes some 1.5 s, and with messages 3 s. Of two
hosts each calls the other and streams to it, on ports and addresses as MPI uses them, so that a firewall in either
direction is found.
One TCP connection may not fill a very fast link (above some 20 Gbit/s), and what a cloud lets through for minutes
before it limits a host counts as what the link can do.
"""

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

from dlbench.errors import UserError
from dlbench.hosts.link_ends import NUM_MESSAGES
from dlbench.hosts.remote import Agent, Agents, HostError, remote_hosts, started
from dlbench.scenario.cluster import Cluster

# Up to this many hosts every pair is measured, above it each host and its next: pairs grow with the square of hosts.
ALL_PAIRS_HOSTS = 8
# Longer than an agent takes over anything: it reports itself what goes wrong, and ssh that a host is down.
_ANSWER_S = 15.0
# Sizes of gradients. A stream shows the rate of a link in the long run, not that of a burst after a pause.
MESSAGE_SIZES = tuple(8192 * 2**power for power in range(10))


@dataclass(frozen=True)
class MessageTime:
    """What messages of one size took from one host to another, each sent after a pause.

    Attributes:
        sender: Position of the sender in the cluster.
        receiver: Position of the receiver.
        size_bytes: Their size.
        time_s: The median time, less the least of a message of one byte: what its size costs.
        least_time_s: The least time, likewise.
        number: How many were sent.
    """

    sender: int
    receiver: int
    size_bytes: int
    time_s: float
    least_time_s: float
    number: int

    @property
    def rate_bytes_per_s(self) -> float | None:
        """Size over time; None where it takes no longer than one byte."""
        return self.size_bytes / self.time_s if self.time_s > 0 else None


@dataclass(frozen=True)
class LinkMeasurement:
    """What was measured between two hosts.

    Attributes:
        a: Position of the one host in the cluster.
        b: Position of the other.
        round_trip_s: One byte there and one back over TCP, median of up to 500; the lower of what the two ends
            see. Half of it is what models of communication call latency.
        bandwidth_bytes_per_s: What arrives of a TCP stream per second once the sender runs at full speed, for the
            slower direction.
        interface_a: The interface on `a` that was used; empty where it is unknown.
        interface_b: The interface on `b`.
        messages: What messages took, in both directions; empty where none were sent.
    """

    a: int
    b: int
    round_trip_s: float
    bandwidth_bytes_per_s: float
    interface_a: str
    interface_b: str
    messages: tuple[MessageTime, ...] = ()


@dataclass(frozen=True)
class BrokenLink:
    """Two hosts that cannot connect.

    Attributes:
        a: Position of the one host in the cluster.
        b: Position of the other.
        problem: Why.
    """

    a: int
    b: int
    problem: str


def measure(cluster: Cluster, environment: Mapping[str, str]) -> tuple[LinkMeasurement, ...]:
    """Measure every pair of up to 8 hosts, and of more each host and its next, with messages; nothing for one host.

    Args:
        cluster: The hosts, and how they are reached; its `interface` is what is measured, where it names one.
        environment: Says how hosts are reached where the cluster does not.

    Raises:
        UserError: Two hosts cannot connect; names them.
    """
    if len(cluster.hosts) == 1:
        return ()
    links = []
    with started(Agents(cluster, environment)) as agents:
        for link in measure_each(cluster, agents, MESSAGE_SIZES):
            if isinstance(link, BrokenLink):
                names = " and ".join(cluster.hosts[number].address for number in (link.a, link.b))
                raise UserError(f"{names} cannot connect: {link.problem}", hint="`dlbench doctor` examines all hosts")
            links.append(link)
    return tuple(links)


def measure_each(
    cluster: Cluster, agents: Sequence[Agent], sizes: Sequence[int] = ()
) -> Iterator[LinkMeasurement | BrokenLink]:
    """Yield what is found between each pair of hosts, in order; goes on after a failure.

    Args:
        cluster: The hosts.
        agents: The agent on each of them.
        sizes: Bytes of the messages that are timed.
    """
    for a, b in pairs(len(cluster.hosts)):
        try:
            yield _Pair(cluster, agents, a, b).measure(sizes)
        except HostError as error:
            yield BrokenLink(a, b, str(error))


def pairs(num_hosts: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs that are measured: all, or of many hosts a ring."""
    if num_hosts <= ALL_PAIRS_HOSTS:
        return tuple(combinations(range(num_hosts), 2))
    return (*pairwise(range(num_hosts)), (0, num_hosts - 1))


@dataclass(frozen=True)
class _Pair:
    """Two hosts of a cluster, and the agents on all of them."""

    cluster: Cluster
    agents: Sequence[Agent]
    a: int
    b: int

    def measure(self, sizes: Sequence[int]) -> LinkMeasurement:
        """Measure both directions, with messages of these sizes.

        Raises:
            HostError: One of the hosts does not answer, or they cannot connect.
        """
        there, back = self._one_way(self.a, self.b, sizes), self._one_way(self.b, self.a, sizes)
        return replace(
            there,
            round_trip_s=min(there.round_trip_s, back.round_trip_s),
            bandwidth_bytes_per_s=min(there.bandwidth_bytes_per_s, back.bandwidth_bytes_per_s),
            messages=there.messages + back.messages,
        )

    def _one_way(self, caller: int, listener: int, sizes: Sequence[int]) -> LinkMeasurement:
        """Have one host call the other, and send messages and a stream to it."""
        address, caller_address = self._addresses(caller, listener)
        token = secrets.token_hex(16)
        port = self._ask(listener, "listen", address=address, token=token)["port"]
        try:
            called = self._ask(
                caller, "call", address=address, port=port, token=token, own=caller_address, sizes=list(sizes)
            )
        except HostError as error:
            # What the listener has seen adds nothing to the caller's error.
            self.agents[listener].send("stop")
            with contextlib.suppress(HostError):
                self.agents[listener].answer(_ANSWER_S)
            raise HostError(f"{self._name(caller)} calls {address} port {port}: {error}") from error
        heard = self._ask(listener, "")
        messages = tuple(
            MessageTime(caller, listener, int(size), time_s, least_s, NUM_MESSAGES)
            for size, time_s, least_s in called["messages"]
        )
        measured = called["round_trip_s"], heard["bandwidth_bytes_per_s"]
        return LinkMeasurement(caller, listener, *measured, called["interface"], heard["interface"], messages)

    def _addresses(self, caller: int, listener: int) -> tuple[str, str]:
        """Return the address that one host calls the other by, and the address it calls from; empty for any."""
        if self.cluster.interface:
            sides = (self._ask(number, "address", interface=self.cluster.interface) for number in (listener, caller))
            address, caller_address = (answer["address"] for answer in sides)
            return address, caller_address
        if self.cluster.hosts[listener].is_here:
            # Another host takes `localhost` for itself: it calls the address from which this one would call.
            route = self._ask(listener, "route", to=self._name(caller))
            address = route["own"]
        else:
            route = self._ask(caller, "route", to=self._name(listener))
            address = route["address"]
        if not address:
            # Only ssh knows its name.
            return self._ask(listener, "address", interface="")["address"], ""
        is_remote = any(self.cluster.hosts[number] in remote_hosts(self.cluster) for number in (caller, listener))
        if route["is_loopback"] and is_remote:
            raise HostError(f"one of them takes the other for itself: it resolves the other's name to {address}")
        return address, ""

    def _name(self, number: int) -> str:
        return self.cluster.hosts[number].address

    def _ask(self, number: int, do: str, **request: Any) -> dict[str, Any]:
        """Return a host's answer to a request, or its next answer where `do` is empty; errors begin with its name."""
        agent = self.agents[number]
        try:
            return agent.ask(do, _ANSWER_S, **request) if do else agent.answer(_ANSWER_S)
        except HostError as error:
            raise HostError(f"{self._name(number)}: {error}") from error
