"""Waiting until hosts and their daemons answer."""

import socket
import time
from collections.abc import Callable, Collection

from tests.cluster.host import Host

_READY_S = 120.0
_POLL_S = 0.02
_SSH_PORT = 22
_SHOWN = 600


class NotReadyError(RuntimeError):
    """A host or a daemon did not come up; the text has the ends of its logs."""


def wait_for_ssh(hosts: Collection[Host]) -> None:
    """Wait until the daemons of all hosts are started and ssh is answered.

    Raises:
        NotReadyError: It took too long.
    """
    wait_until(hosts, lambda: all(map(_answers, hosts)), "ssh")


def _answers(host: Host) -> bool:
    """Whether a host's daemons are started and its sshd says that it is one."""
    if not (host.folder / "ready").exists():
        return False
    try:
        with socket.create_connection((host.address, _SSH_PORT), timeout=1.0) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_until(hosts: Collection[Host], is_so: Callable[[], bool], what: str) -> None:
    """Wait for daemons.

    Raises:
        NotReadyError: They took too long, or a host's first process has ended over them.
    """
    deadline = time.monotonic() + _READY_S
    while not is_so():
        if time.monotonic() > deadline or any(host.has_failed for host in hosts):
            logs = [path for host in hosts for path in sorted(host.folder.glob("*.log"))]
            ends = "\n".join(f"{path}: {path.read_text(errors='replace')[-_SHOWN:]}" for path in logs)
            raise NotReadyError(f"{what} did not come up (time-out: {_READY_S:g} s)\n{ends}")
        time.sleep(_POLL_S)
