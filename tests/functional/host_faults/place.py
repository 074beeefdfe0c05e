"""A cluster for faults: its studies and its hosts' temporary files are on small disks of their own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.testing import cluster
from tests.functional.host_faults.study import HostShape, HostStudy

_STUDIES_SIZE, _TEMPORARY_SIZE = "256m", "32m"


@contextmanager
def struck_study(folder: Path, num_hosts: int, shape: HostShape) -> Iterator[HostStudy]:
    """Give a study on a cluster of its own; both are always taken down again."""
    small = folder / "small"
    small.mkdir(parents=True)
    (folder / "studies").symlink_to(small)
    with _mounted(small), cluster(num_hosts) as made:
        for host in made.hosts:
            size = f"size={_TEMPORARY_SIZE},mode=1777"
            host.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", host.variables["TMPDIR"]])
        yield from _cared_for(made, folder, shape)


def _cared_for(made: Cluster, folder: Path, shape: HostShape) -> Iterator[HostStudy]:
    study = HostStudy(made, folder, shape)
    try:
        yield study
    finally:
        study.clean_up()


@contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    """Put a small file system there, before the hosts are made: they then have it, too."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_STUDIES_SIZE}", "tmpfs", str(folder)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine lets not even root mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
