"""A cluster, as what uses it sees it."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.folder import Folder
from tests.cluster.host import Host


@dataclass(frozen=True)
class Cluster:
    """Hosts that reach each other, and what is needed to reach them."""

    name: str
    hosts: tuple[Host, ...]
    folder: Folder

    @property
    def ssh(self) -> Path:
        """A program that is ssh with the cluster's key and options, such as Open MPI's `plm_ssh_agent`."""
        return self.folder.ssh

    def slots(self, per_host: int | None = None) -> str:
        """Return the hosts for `--hosts` or mpirun's `-H`; by default they share this machine's cores evenly."""
        each = per_host or max(1, (os.cpu_count() or 1) // len(self.hosts))
        return ",".join(f"{host.address}:{each}" for host in self.hosts)

    def how_to_reach(self) -> str:
        """Return what a person needs to know to use it."""
        record = self.folder.record()
        assert record is not None, "a cluster that was made has a record"
        first, own = self.hosts[0], shlex.quote(str(self.folder.path))
        facts = [f"{len(self.hosts)} hosts on {record.subnet}", f"links at {record.rate or 'full speed'}"]
        facts += [f"{path} is each host's own" for path in record.private]
        lines = [f"cluster {self.name}: {', '.join(facts)}"]
        lines += [f"  {host.name}  {host.address}" for host in self.hosts]
        lines += [
            f"ssh:         {shlex.join([str(self.ssh), first.name])}",
            f"  the same:  ssh -F {shlex.quote(str(self.folder.ssh_config))} {first.name}",
            f"hosts:       --hosts {self.slots()}",
            f"mpirun:      --prtemca plm_ssh_agent {shlex.quote(str(self.ssh))}",
        ]
        if record.slurm:
            lines.append(f"slurm:       {shlex.quote(str(self.ssh))} {first.name} srun -N{len(self.hosts)} hostname")
        return "\n".join([*lines, f"state:       {own}", f"take down:   python -m tests.cluster down {self.name}"])
