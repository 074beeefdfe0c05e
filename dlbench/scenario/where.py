"""Where a user says to measure: hosts on the command line, a hostfile, or a cluster file; at most one of them."""

from dataclasses import dataclass
from pathlib import Path

from dlbench.errors import UserError
from dlbench.scenario import cluster_file
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.host_list import parse_hostfile, parse_hosts
from dlbench.scenario.text_file import read_text


@dataclass(frozen=True)
class Where:
    """What a user says; None where it is not said.

    Attributes:
        hosts: `a:4,b:4`.
        hostfile: The same as a file of Open MPI, MPICH or a queue.
        cluster: A cluster file.
    """

    hosts: str | None = None
    hostfile: Path | None = None
    cluster: Path | None = None

    def named(self) -> Cluster | None:
        """Return the cluster that is named; None where nothing is.

        Raises:
            UserError: More than one is given, a file cannot be read, or what is given is no cluster.
        """
        given = {"--hosts": self.hosts, "--hostfile": self.hostfile, "--cluster": self.cluster}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise UserError(f"{' and '.join(names)} {_ALL[len(names)]} say where to measure", hint="give one of them")
        if self.hosts is not None:
            return parse_hosts(self.hosts)
        if self.hostfile is not None:
            return parse_hostfile(read_text(self.hostfile, "host"), str(self.hostfile))
        return None if self.cluster is None else cluster_file.read(self.cluster)


_ALL = {2: "both", 3: "all"}
