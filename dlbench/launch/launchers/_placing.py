"""Where the processes of a layout go, as every `mpirun` has it."""

from collections import Counter

from dlbench.scenario.layout import Layout

_HERE = {"localhost", "127.0.0.1", "[::1]"}


def is_here(layout: Layout) -> bool:
    """Whether all processes are on this machine, and no host needs to be named."""
    return set(layout.hosts) <= _HERE


def host_list(layout: Layout) -> str:
    """Return the hosts with their numbers of processes, such as `a:2,b:2`."""
    counts = Counter(place.host for place in layout.places)
    return ",".join(f"{host}:{count}" for host, count in counts.items())
