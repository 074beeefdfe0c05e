"""Who really ran where in an attempt, as rows of `topology.csv`: the layout, and what its processes told."""

from collections.abc import Iterator
from typing import Any

from dlbench.analysis import sensors
from dlbench.records.journal import Journal
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.layout import Layout


def topology(layout: Layout, cluster: Cluster, journal: Journal) -> Iterator[dict[str, Any]]:
    """Yield a row for each process of an attempt.

    Args:
        layout: Where it was put.
        cluster: The hosts, which rows name by number.
        journal: What the processes told.
    """
    numbers = {host.address: number for number, host in enumerate(cluster.hosts)}
    sent, received = (
        sensors.counted_by_worker(journal, "network", name) for name in ("wire_sent_bytes", "wire_received_bytes")
    )
    for place in layout.places:
        host = numbers.get(place.host)
        told = journal.facts.get(place.rank, {})
        yield {
            "rank": place.rank,
            "role": place.role,
            "held_workers": ";".join(map(str, place.workers)),
            "host": host,
            "machine": None if host is None else cluster.hosts[host].machine,
            "local_index": place.local_index,
            "cores": ";".join(map(str, place.cores)),
            "device_name": told.get("device_name"),
            "interface": told.get("interface"),
            "wire_sent_bytes": sent.get(place.rank),
            "wire_received_bytes": received.get(place.rank),
        }
