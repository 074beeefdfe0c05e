"""How long messages take: alpha-beta links between hosts, and queues at each host's interface."""

from collections.abc import Sequence
from itertools import count

from dlbench.communicators.simulated import SimulatedOptions
from dlbench.scenario.plugin_settings import RoleProcesses


class Links:
    """The interfaces of all hosts, each with a queue in each direction; and the memory that processes of a host share.

    A message of n bytes leaves its host when that one's earlier messages have left (n / bandwidth each), its first byte
    arrives a latency later, and it has arrived n / bandwidth after what came to that host before it: alone it takes
    latency + n / bandwidth (Hockney 1994). Within a host it takes n / bandwidth of the host's memory, one after
    another.

    Args:
        host_of: The host of each node.
        machines: Latencies and bandwidths, between hosts and within one.
    """

    def __init__(self, host_of: Sequence[int], machines: SimulatedOptions) -> None:
        self._host_of = host_of
        self._latency_s, self._s_per_byte = machines.latency_s, 1 / machines.bandwidth_bytes_per_s
        self._host_latency_s, self._host_s_per_byte = machines.host_latency_s, 1 / machines.host_bandwidth_bytes_per_s
        hosts = max(host_of) + 1
        self._sending_until, self._receiving_until, self._copying_until = [0.0] * hosts, [0.0] * hosts, [0.0] * hosts

    def is_local(self, source: int, to: int) -> bool:
        """Whether two nodes are on one host."""
        return self._host_of[source] == self._host_of[to]

    def copied_at(self, now: float, node: int, num_bytes: int) -> float:
        """Queue a message within the host of a node; return when it has arrived."""
        host = self._host_of[node]
        done = max(now, self._copying_until[host]) + num_bytes * self._host_s_per_byte
        self._copying_until[host] = done
        return done + self._host_latency_s

    def first_byte_at(self, now: float, source: int, num_bytes: int) -> float:
        """Queue a message at its sender's interface; return when its first byte is at the receiver's."""
        host = self._host_of[source]
        begun = max(now, self._sending_until[host])
        self._sending_until[host] = begun + num_bytes * self._s_per_byte
        return begun + self._latency_s

    def received_at(self, now: float, to: int, num_bytes: int) -> float:
        """Queue a message, whose first byte is here now, at its receiver's interface; return when it has arrived."""
        host = self._host_of[to]
        done = max(now, self._receiving_until[host]) + num_bytes * self._s_per_byte
        self._receiving_until[host] = done
        return done


def hosts_of(num_workers: int, others: Sequence[RoleProcesses], workers_per_host: int) -> list[int]:
    """Return the host of each node: workers fill hosts in order; others have their own, or share those in turn."""
    workers = [worker // workers_per_host for worker in range(num_workers)]
    used = workers[-1] + 1
    places = [(index, role.has_own_slots) for role in others for index in range(role.number)]
    own = count(used)
    return workers + [next(own) if has_own_slots else index % used for index, has_own_slots in places]
