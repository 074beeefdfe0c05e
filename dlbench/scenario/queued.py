"""What a submitter says of the clusters that it gives, for whoever must know before there are any."""

from dlbench import plugins
from dlbench.scenario.cluster import Cluster


def starts_here(cluster: Cluster) -> bool:
    """Return whether dlbench will be on every host: on this machine, or on the only host that a queue gives."""
    if len(cluster.hosts) == 1 and plugins.load("submitters", cluster.submitter).get("STARTS_ON_ITS_HOST", False):
        return True
    return all(host.is_here for host in cluster.hosts)
