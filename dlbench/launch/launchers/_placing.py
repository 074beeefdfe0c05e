"""Where the processes of a layout go, as every `mpirun` has it."""

from collections import Counter

from dlbench.scenario.cluster import HERE
from dlbench.scenario.layout import Layout


def is_here(layout: Layout) -> bool:
    """Whether all processes are on this machine, and no host needs to be named."""
    return set(layout.hosts) <= HERE


def host_list(layout: Layout) -> str:
    """Return the hosts with their numbers of processes, such as `a:2,b:2`."""
    counts = Counter(place.host for place in layout.places)
    return ",".join(f"{host}:{count}" for host, count in counts.items())
