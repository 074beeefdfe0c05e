"""What was gathered of a cluster, as checks see it."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dlbench.launch.links import Broken, Link
from dlbench.records.machine import found_in
from dlbench.scenario.cluster import Cluster, Host


@dataclass(frozen=True)
class Asked:
    """A host and its answer.

    Attributes:
        host: The host, as the cluster has it.
        is_here: Whether it is this machine.
        problem: Why it has not answered; empty where it has.
        told: What it told (see `dlbench.launch.doctor.tell`).
        reach: The words that a command on this host begins with; none for this machine.
    """

    host: Host
    is_here: bool
    problem: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    reach: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its address."""
        return self.host.address

    def has(self, *keys: str) -> Any:
        """Return what it told under these keys; None where it told nothing."""
        return found_in(self.told, *keys)

    def line(self, command: str) -> str:
        """Return the line that runs a shell command on this host when it is entered on this machine."""
        return shlex.join([*self.reach, command]) if self.reach else command


@dataclass(frozen=True)
class Facts:
    """All that checks know.

    Attributes:
        cluster: The hosts as the user has named them.
        hosts: Their answers, in order.
        here: What this machine told of itself, whether it is one of the hosts or not.
        links: What was measured between them, by position.
        home: The address that other hosts call this machine by.
        python: The interpreter, here and there.
        prefix: The environment it belongs to.
        root: The folder that dlbench itself is imported from.
    """

    cluster: Cluster
    hosts: tuple[Asked, ...]
    here: Asked
    links: tuple[Link | Broken, ...]
    home: str
    python: str
    prefix: str
    root: str

    @property
    def is_alone(self) -> bool:
        """Whether there is but one host: nothing then crosses a wire between hosts."""
        return len(self.hosts) == 1

    def names(self, position: int) -> str:
        """Return the address of the host at a position."""
        return self.hosts[position].name

    def copying(self, asked: Asked) -> str:
        """Return the command that copies this machine's environment to a host."""
        folders = sorted({self.prefix} | ({self.root} if not self.root.startswith(self.prefix) else set()))
        kept = [folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders)]
        shell = ["-e", shlex.join(asked.reach[:-1])] if asked.reach[:-1] not in ((), ("ssh",)) else []
        return shlex.join(["rsync", "-a", "--relative", *shell, *kept, f"{asked.name}:/"])
