"""Who really ran where in an attempt, as rows of `topology.csv`: the layout, and what its processes reported."""

from collections.abc import Iterator
from typing import Any

from dlbench.analysis.metrics import sensors
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.layout import Layout
from dlbench.telemetry.journal import Journal


def topology(layout: Layout, cluster: Cluster, journal: Journal) -> Iterator[dict[str, Any]]:
    """Yield a row for each process of an attempt.

    Args:
        layout: Where it was put.
        cluster: The hosts, which rows name by number.
        journal: What the processes reported.
    """
    # The number of each host in the cluster; of hosts that a queue gave, in the order of their first use.
    addresses = [host.address for host in cluster.hosts]
    if not set(layout.hosts) <= set(addresses):
        addresses = list(layout.hosts)
    sent = sensors.counted_by_worker(journal, "network", "wire_sent_bytes")
    received = sensors.counted_by_worker(journal, "network", "wire_received_bytes")
    for place in layout.places:
        facts = journal.facts.get(place.rank, {})
        yield place.model_dump(include={"rank", "role", "machine", "local_index"}) | {
            "held_workers": ";".join(map(str, place.workers)),
            "host": addresses.index(place.host),
            "cores": ";".join(map(str, place.cores)),
            "device_name": facts.get("device_name"),
            "interface": facts.get("interface"),
            "wire_sent_bytes": sent.get(place.rank),
            "wire_received_bytes": received.get(place.rank),
        }
