"""The hosts that functional tests share: one cluster, and one with a Slurm, for the whole test run.

Each process of pytest-xdist has its own. A test leaves its hosts as it found them: links, limits and mounts are
restored by the test; a host that has died is booted again here.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.ready import wait_for_ssh
from tests.cluster.testing import cluster


def pytest_configure(config: pytest.Config) -> None:
    """Treat SIGTERM like Ctrl-C, so that hosts are taken down."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_hosts() -> Iterator[Cluster]:
    """Three hosts at full speed; tests take them as `trio` or `pair`."""
    with cluster(3) as made:
        yield made


@pytest.fixture
def trio(shared_hosts: Cluster) -> Iterator[Cluster]:
    """Three hosts that are alive, at full speed."""
    yield shared_hosts
    revive(shared_hosts)


@pytest.fixture
def pair(trio: Cluster) -> Cluster:
    """The first two of the three hosts."""
    return replace(trio, hosts=trio.hosts[:2])


@pytest.fixture(scope="session")
def slurm_hosts() -> Iterator[Cluster]:
    """Three hosts with a Slurm; each has a core of its own, as far as there are any."""
    with cluster(3, slurm=True) as made:
        give_cores(made)
        yield made


def revive(made: Cluster) -> None:
    """Boot the hosts of a cluster that have died."""
    dead = [host for host in made.hosts if host.first_process is None]
    for host in dead:
        host.boot()
    if dead:
        wait_for_ssh(made.hosts)


def give_cores(made: Cluster) -> None:
    """Give each host one of this machine's cores, in turn."""
    cores = sorted(os.sched_getaffinity(0))
    for number, host in enumerate(made.hosts):
        for process in host.processes():
            with contextlib.suppress(ProcessLookupError):  # a call by ssh that has just ended
                os.sched_setaffinity(process.pid, {cores[number % len(cores)]})
