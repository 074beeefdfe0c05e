"""Who runs where: the layout of one run over hosts, cores and devices. Made by `dlbench.launch`, read by workers."""

from itertools import groupby

from dlbench.scenario.cluster import HERE
from dlbench.scenario.frozen import Frozen
from dlbench.scenario.needs import EVALUATOR


class Place(Frozen):
    """One process: its rank, role, host and what of the host is its own.

    Attributes:
        rank: Index over all processes; workers first, in order.
        role: `worker`, or what else it does (`dlbench.scenario.needs.Role`).
        index: Its number among the processes of its role; a worker's is its rank.
        workers: The workers it holds: one, or all of them for `mirrored`, or none.
        host: Address of the host; `localhost` for this machine.
        machine: Number of the machine that it is; None where it is not known.
        local_index: Index of the process among those on its host; the device index.
        cores: Core numbers it is bound to; empty where it is not bound.
        quota: CPU seconds per second on those cores where it has less than all of them to itself, else None.
    """

    rank: int
    role: str = "worker"
    index: int = 0
    workers: tuple[int, ...]
    host: str = "localhost"
    machine: int | None = None
    local_index: int = 0
    cores: tuple[int, ...] = ()
    quota: float | None = None

    @property
    def name(self) -> str:
        """What the process is called: `worker 2`, `server 0`."""
        return f"{self.role} {self.rank if self.workers else self.index}"


class Layout(Frozen):
    """Every process of one run.

    Attributes:
        places: The processes, by rank.
        intra_op_threads: Threads inside one operation.
        inter_op_threads: Operations at once.
        emulated: Reasons why it is not representative hardware; empty where it is.
        interface: The network interface that messages between hosts are to take: its name or network, or empty for the
            one that leads there.
        machines: Number of machines that the hosts are; None where it is not known.
        link_latency_s: Of the slowest measured link between two of its hosts; None on one host.
        link_bandwidth_bytes_per_s: Of the narrowest one.
    """

    places: tuple[Place, ...]
    intra_op_threads: int
    inter_op_threads: int
    emulated: tuple[str, ...] = ()
    interface: str = ""
    machines: int | None = None
    link_latency_s: float | None = None
    link_bandwidth_bytes_per_s: float | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Distinct hosts in order of first use."""
        return tuple(dict.fromkeys(place.host for place in self.places))

    @property
    def evaluator(self) -> int | None:
        """The rank that scores while others train, if there is one."""
        return next((place.rank for place in self.places if place.role == EVALUATOR.name), None)

    @property
    def is_here(self) -> bool:
        """Whether all processes are on this machine, so that a launcher needs no host's name."""
        return set(self.hosts) <= HERE

    @property
    def host_list(self) -> str:
        """The hosts with their numbers of processes, as every `mpirun` takes them: `a:2,b:2`.

        A host whose ranks do not follow each other is named again: `a:2,b:2,a:1`.
        """
        return ",".join(f"{host}:{count}" for host, count in self._runs)

    @property
    def returns_to_a_host(self) -> bool:
        """Whether the ranks of a host do not follow each other, as where servers come after the workers of all."""
        return len(self._runs) > len(self.hosts)

    @property
    def _runs(self) -> list[tuple[str, int]]:
        return [(host, len(list(places))) for host, places in groupby(self.places, lambda place: place.host)]

    @property
    def cores_per_worker(self) -> float | None:
        """Cores that each worker is bound to, or its share of one (the fewest of all); None where one is unbound."""
        places = [place for place in self.places if place.workers]
        if not all(place.cores for place in places):
            return None
        cores = (len(place.cores) if place.quota is None else place.quota for place in places)
        return min((total / len(place.workers) for total, place in zip(cores, places, strict=True)), default=None)
