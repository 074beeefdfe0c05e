"""After an attempt: what is left of it on other hosts is ended there, and what only they know is brought here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbench.launch.remnants import MARK
from dlbench.launch.remote import RemoteError, answer, at_once, elsewhere, run
from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.scenario.cluster import Cluster, Host

_PROGRAM = ("-m", "dlbench.launch.remnants")
# Beyond what ending processes may take.
_ANSWER_S = 30.0


@dataclass(frozen=True)
class Afterwards:
    """How other hosts are asked once an attempt has ended.

    Attributes:
        cluster: The hosts.
        environment: Says how they are reached, where the cluster does not.
    """

    cluster: Cluster
    environment: Mapping[str, str]

    def bring(self, assignment: Assignment, folder: Path, went_well: bool) -> dict[str, int]:
        """Ask every other host that took part, unless all went well and every log is here.

        A host that does not answer is passed over: it may be why the attempt has failed.

        Args:
            assignment: The attempt.
            folder: Its folder here, where logs are put.
            went_well: Whether it ended by itself and without an error.

        Returns:
            How many processes the kernel has killed for lack of memory on each host that was asked, by address.
        """
        used = set(assignment.layout.hosts)
        hosts = [host for host in elsewhere(self.cluster) if host.address in used]
        ranks = [place.rank for place in assignment.layout.places if place.host in {host.address for host in hosts}]
        if not hosts or (went_well and all((folder / files.worker_log(rank)).exists() for rank in ranks)):
            return {}
        answers = dict(zip(hosts, at_once(lambda host: self._ask(host, assignment), hosts), strict=True))
        for found in answers.values():
            for name, text in found.get("logs", {}).items():
                _keep(folder, str(name), str(text))
        return {host.address: int(found["oom_kills"]) for host, found in answers.items() if "oom_kills" in found}

    def _ask(self, host: Host, assignment: Assignment) -> dict[str, Any]:
        """Return what a host has brought; nothing where it cannot be asked."""
        grace_s = assignment.run.limits.grace_s
        ranks = [str(place.rank) for place in assignment.layout.places if place.host == host.address]
        words = (*_PROGRAM, assignment.attempt_id, f"{grace_s:g}", *ranks)
        try:
            printed = run(self.cluster, host, words, self.environment, _ANSWER_S + grace_s)
        except RemoteError:
            return {}
        return answer(printed, MARK) or {}


def _keep(folder: Path, name: str, text: str) -> None:
    """Write a log that came from another host; one that is here already stays."""
    path = folder / Path(name).name
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError:  # it is here, or the disk is full, which is said elsewhere
        return
