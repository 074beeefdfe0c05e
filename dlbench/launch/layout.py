"""Who runs where: workers to hosts, hosts' cores to workers, thread pools to match. Pure and deterministic."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.cluster.spread import spread
from dlbench.scenario.layout import Layout, Place
from dlbench.scenario.needs import Needs
from dlbench.scenario.plugin_settings import needs_of, roles_of
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings

# Floating-point room for shares such as 2 cores / 3 workers.
_EPSILON = 1e-9


@dataclass(frozen=True)
class _Share:
    """What one worker gets of a host's CPU: cores it may run on, and CPU seconds per second if less than one core."""

    cores: tuple[int, ...]
    quota: float | None


# The hosts that are used, each with the shares of its workers.
Shared = Sequence[tuple[Host, Sequence[_Share]]]


def plan_layout(run: RunSpec, cluster: Cluster) -> Layout:
    """Return the layout of a run over a cluster.

    Raises:
        UserError: The cluster has too few hosts for the run's mode.
    """
    needs, wanted = needs_of(run.settings.strategy), run.settings.cores_per_worker
    shared = [(host, _divide(host, count, wanted)) for host, count in spread(run.settings, cluster)]
    hosts = [host for host, _ in shared]
    is_one = needs.one_process or run.settings.workers_inside
    places = _joined(shared) if is_one else _with_roles(_separate(shared), run.settings)
    # Of the process that has the fewest cores, the same for all: arms and peers are equal.
    alike = _separate(shared) if run.settings.workers_inside else places
    threads = max(1, min(_whole_cores(place, wanted) for place in alike if place.workers))
    return Layout(
        places=tuple(places),
        intra_op_threads=threads,
        inter_op_threads=inter_op_threads(threads, max(len(place.workers) for place in places)),
        emulated=(*_emulated(run.settings, needs, shared), *cluster.emulated),
        interface=cluster.interface,
        machines=_machines(hosts),
        **_links(hosts, cluster),
    )


def _machines(hosts: Sequence[Host]) -> int | None:
    """Return how many machines some hosts are; one host is one, whether or not it was asked."""
    machines = {host.machine for host in hosts}
    return len(machines) if None not in machines else 1 if len(hosts) == 1 else None


def _links(hosts: Sequence[Host], cluster: Cluster) -> dict[str, float]:
    """Return the worst latency and the least bandwidth between the hosts of a run, as far as they were measured."""
    used = {cluster.hosts.index(host) for host in hosts}
    links = [link for link in cluster.links if used >= set(link.hosts)]
    if not links:
        return {}
    latency_s = max(link.latency_s for link in links)
    bandwidth = min(link.bandwidth_bytes_per_s for link in links)
    return {"link_latency_s": latency_s, "link_bandwidth_bytes_per_s": bandwidth}


def inter_op_threads(intra_op_threads: int, workers: int = 1) -> int:
    """Return the size of the pool that runs independent operations at once.

    One core gets one thread: a second could only take the core from the first. From two cores on, two let a copy or an
    input operation run beside the heavy one; each heavy operation already fills the cores by its intra-op threads, so
    that more would compete with those. A process that holds several workers has so much for the share of each, and no
    more threads than for its cores: replicas with a core each all run at once.
    """
    if workers > 1:
        each = inter_op_threads(max(1, intra_op_threads // workers))
        return max(inter_op_threads(intra_op_threads), min(intra_op_threads, workers * each))
    return 1 if intra_op_threads == 1 else 2


def _divide(host: Host, count: int, wanted: float | None) -> list[_Share]:
    """Divide a host's cores over its workers: whole cores of their own, or shares of cores where there are too few."""
    available = len(host.cores)
    if available == 0:
        return [_Share((), None)] * count
    share = _share(host, count, wanted)
    if share >= 1:
        whole = math.floor(share + _EPSILON)
        return [_Share(host.cores[i * whole : (i + 1) * whole], None) for i in range(count)]
    per_core = math.floor(1 / share + _EPSILON)
    if math.ceil(count / per_core) <= available:
        return [_Share((host.cores[i // per_core],), share) for i in range(count)]
    return [_Share(host.cores, share)] * count


def _share(host: Host, count: int, wanted: float | None) -> float:
    fair = len(host.cores) / count
    share = fair if wanted is None else min(wanted, fair)
    return 1.0 if 1 - _EPSILON <= share < 1 else share


def _separate(shared: Shared) -> list[Place]:
    """One process for each worker."""
    owned = [(host, index, share) for host, shares in shared for index, share in enumerate(shares)]
    return [
        Place(
            rank=rank,
            workers=(rank,),
            host=host.address,
            machine=host.machine,
            local_index=index,
            cores=share.cores,
            quota=share.quota,
        )
        for rank, (host, index, share) in enumerate(owned)
    ]


def _with_roles(places: list[Place], settings: Settings) -> list[Place]:
    """Give places that are no worker's to other roles, where these have their own, or add some beside workers.

    Those beside workers are spread evenly, and may run on the cores of all workers of their host: a server works while
    one of them waits for it.
    """
    workers = len(places) if settings.is_simulated else settings.workers
    placed, own = places[:workers], iter(places[workers:])
    for role in roles_of(settings):
        for index in range(role.number):
            place = next(own) if role.has_own_slots else _beside(places[index * workers // role.number], placed)
            here = sum(other.host == place.host for other in placed)
            changes = {"rank": len(placed), "role": role.name, "index": index, "workers": (), "local_index": here}
            placed.append(place.model_copy(update=changes))
    return placed


def _beside(peer: Place, placed: list[Place]) -> Place:
    """Return a place on the host of another, on the cores of all workers there."""
    on_host = [place for place in placed if place.host == peer.host]
    cores = tuple(sorted({core for place in on_host if place.workers for core in place.cores}))
    return peer.model_copy(update={"cores": cores, "quota": None})


def _joined(shared: Shared) -> list[Place]:
    """One process that holds all workers, and of the cores of all of them the sum of their shares."""
    (host, shares), *others = shared
    if others:
        raise UserError(
            f"all workers are in one process, or started by one, and they do not fit on one host ({host.address})",
            hint="use `mode: scale-up`",
        )
    cores = tuple(dict.fromkeys(core for share in shares for core in share.cores))
    quota = sum(len(share.cores) if share.quota is None else share.quota for share in shares)
    less = quota if quota < len(cores) - _EPSILON else None
    workers = tuple(range(len(shares)))
    return [Place(rank=0, workers=workers, host=host.address, machine=host.machine, cores=cores, quota=less)]


def _whole_cores(place: Place, wanted: float | None) -> int:
    if place.quota is not None:
        return math.ceil(place.quota - _EPSILON)
    return len(place.cores) or math.floor((wanted or 1) * len(place.workers) + _EPSILON)


def _emulated(settings: Settings, needs: Needs, shared: Shared) -> tuple[str, ...]:
    """Why the layout is no picture of real devices: workers share cores or slots, or devices are drawn on a CPU."""
    reasons = ["simulated"] if settings.is_simulated else []
    wanted = settings.cores_per_worker
    if any(_is_oversubscribed(host, len(shares), wanted) for host, shares in shared) or _is_crowded(shared):
        reasons.append("oversubscribed")
    if needs.one_process and settings.workers > 1 and settings.command is None:  # a script makes its own
        reasons.append("logical-devices")
    return tuple(reasons)


def _is_crowded(shared: Shared) -> bool:
    """Whether workers of different hosts are given the same core: of hosts that are one machine, such as containers."""
    taken: defaultdict[tuple[int | None, int], float] = defaultdict(float)
    for host, shares in shared:
        for share in shares if host.machine is not None else ():
            for core in share.cores:
                taken[host.machine, core] += (share.quota or len(share.cores)) / len(share.cores)
    return any(load > 1 + _EPSILON for load in taken.values())


def _is_oversubscribed(host: Host, count: int, wanted: float | None) -> bool:
    """A worker has less than one core to itself, less than it was promised, or no slot."""
    if count > host.slots:
        return True
    if not host.cores:
        return False
    return _share(host, count, wanted) < 1 or (wanted or 0) * count > len(host.cores) + _EPSILON
