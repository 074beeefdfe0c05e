"""Taking a cluster down, whatever has become of its maker; what is gone already is no mistake."""

import contextlib
import shutil

from tests.cluster import network
from tests.cluster.folder import Folder, all_folders
from tests.cluster.identity import Identity, end_all


def take_down(name: str) -> None:
    """End a cluster's processes, then remove its links, namespaces and bridge, then its folder.

    Raises:
        StillRunningError: A process could not be ended; all else is left as it is, so that this can be called again.
        OSError: Its folder cannot be removed.
    """
    end_all(lambda: running(name))
    network.remove(name)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(Folder(name).path)


def running(name: str) -> list[Identity]:
    """Return the living processes of a cluster: all that are in its network namespaces."""
    return [who for namespace in network.namespaces(name) for who in network.members(namespace)]


def take_down_abandoned() -> list[str]:
    """Take down the clusters that were not to outlive their makers and have, and return their names."""
    records = [folder.record() for folder in all_folders()]
    names = [record.name for record in records if record and not record.is_kept and not record.maker.is_alive]
    for name in names:
        take_down(name)
    return names
