"""The cluster for tests: skipped with the reason where none can be made, unless it must be."""

import os
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.make import make
from tests.cluster.needs import LackingError, lacking
from tests.cluster.take_down import take_down, take_down_abandoned

# Read here, because tests are kept from the variables of the person who runs them.
IS_REQUIRED = os.environ.get("DLBENCH_REQUIRE_CLUSTER", "") not in ("", "0")


@contextmanager
def cluster(
    num_hosts: int = 2, rate: str | None = None, private: Iterable[Path | str] = (), slurm: bool = False
) -> Iterator[Cluster]:
    """Make a cluster for a test, and take it down whatever the test does; also those of tests that were killed.

        with cluster(2, rate="1gbit") as made:
            first, second = made.hosts
            first.run(["ssh", second.name, "hostname"])

    Args:
        num_hosts: How many hosts; they are called node1, node2, ...
        rate: The limit of every host's link, such as `1gbit`; None for none.
        private: Existing folders that each host gets an empty one of its own instead of.
        slurm: Whether a Slurm runs on the hosts, its controller in the first.
    """
    try:
        if lack := lacking(is_limited=rate is not None, slurm=slurm):
            raise LackingError(lack)
        take_down_abandoned()
        # A name that was just given up is not taken again at once: another test may be looking for its remains.
        first = random.randrange(1, 256)
        made = make(num_hosts, rate=rate, private=private, with_slurm=slurm, first=first)
    except LackingError as error:
        if IS_REQUIRED:
            pytest.fail(f"DLBENCH_REQUIRE_CLUSTER is set, but {error}")
        pytest.skip(f"no cluster of hosts: {error}")
    try:
        yield made
    finally:
        take_down(made.name)
