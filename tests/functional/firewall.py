"""A host's own firewall, for tests of refused connections."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.host import Host

# Administrators' tools are in folders that are not on every shell's PATH.
_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


@contextmanager
def closed(host: Host, *rule: str, answer: str = "REJECT") -> Iterator[None]:
    """Have a host refuse packets, or drop them silently."""
    if shutil.which("iptables", path=_PLACES) is None:
        pytest.skip("there is no iptables; install it with: sudo apt-get install iptables")
    host.run(["iptables", "--wait", "--append", *rule, "-j", answer])
    try:
        yield
    finally:
        host.run(["iptables", "--wait", "--delete", *rule, "-j", answer])
