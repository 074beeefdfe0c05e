"""How workers spread over hosts: by mode or workers per host, else hosts are filled in order.

Of hosts with unequal slots those with the most are used: a base line is then on a host that its arms use, too.
"""

from collections.abc import Sequence
from itertools import accumulate

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.plugin_settings import num_slots, roles_of
from dlbench.scenario.settings import Mode, Settings


def starts_here(cluster: Cluster) -> bool:
    """Return whether dlbench will be on every host: on this machine, or on the only host that a queue gives."""
    if len(cluster.hosts) == 1 and plugins.load("submitters", cluster.submitter).get("STARTS_ON_ITS_HOST", False):
        return True
    return all(host.is_here for host in cluster.hosts)


def spread(settings: Settings, cluster: Cluster) -> list[tuple[Host, int]]:
    """Return the hosts that are used with the number of slots taken on each, in the order of ranks.

    A slot is a worker's, or that of a process of another role that has its own; these are the last. Where workers are
    simulated, their one process counts as one worker.

    Raises:
        UserError: There are too few hosts.
    """
    if settings.is_simulated:
        return [(cluster.hosts[0], 1)]
    per_host = 1 if settings.mode is Mode.SCALE_OUT else settings.workers_per_host
    slots, hosts = num_slots(settings), cluster.hosts
    if per_host is None and settings.mode is Mode.SCALE_UP:
        per_host = slots
    by_size = sorted(range(len(hosts)), key=lambda number: -hosts[number].slots)
    if per_host is None:
        sums = accumulate(hosts[number].slots for number in by_size)
        needed = next((count for count, total in enumerate(sums, 1) if total >= slots), len(hosts))
    else:
        needed = -(-slots // per_host)
    if needed > len(hosts):
        raise UserError(
            f"{slots_in_words(settings)} with {per_host} on each host need {needed} hosts; the cluster has "
            f"{len(hosts)}",
            hint="name more hosts with --hosts a:4,b:4, or use `mode: scale-up`",
        )
    used = sorted(by_size[:needed])
    if per_host is None:
        return _filled(slots, [hosts[number] for number in used])
    # What is left over is on the smallest of them, wherever it is written.
    of_smallest, smallest = slots - (needed - 1) * per_host, by_size[needed - 1]
    return [(hosts[number], of_smallest if number == smallest else per_host) for number in used]


def _filled(slots: int, hosts: Sequence[Host]) -> list[tuple[Host, int]]:
    """Fill the slots host by host; what is left goes around again, in proportion to the slots."""
    rounds, left = divmod(slots, sum(host.slots for host in hosts))
    counts = []
    for host in hosts:
        taken = min(left, host.slots)
        counts.append(rounds * host.slots + taken)
        left -= taken
    return [(host, count) for host, count in zip(hosts, counts, strict=True) if count]


def slots_in_words(settings: Settings) -> str:
    """Return what takes slots: `4 workers`, or `4 workers, 2 servers and 1 evaluator` where these have their own."""
    *first, last = [
        f"{settings.workers} workers",
        *(role.words for role in roles_of(settings) if role.has_own_slots and role.number),
    ]
    return f"{', '.join(first)} and {last}" if first else last
