"""After an attempt: end what is left of it on other hosts, and fetch the logs that are only there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlbench.hosts.remote import Agents, HostError, in_parallel, remote_hosts
from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.scenario.cluster import Cluster, Host

# Beyond what ending processes may take.
_ANSWER_S = 30.0


def collect_remote(
    cluster: Cluster, environment: Mapping[str, str], assignment: Assignment, folder: Path, went_well: bool
) -> dict[str, int]:
    """Clean up on every other host that took part, unless all went well and every log is here.

    A host that does not answer is passed over: it may be why the attempt has failed.

    Args:
        cluster: The hosts.
        environment: Says how they are reached, where the cluster does not.
        assignment: The attempt.
        folder: Its folder here, where logs are put.
        went_well: Whether it ended by itself and without an error.

    Returns:
        How many processes the kernel has killed for lack of memory on each host that was asked, by address.
    """
    places = assignment.layout.places
    ranks = {
        host: [place.rank for place in places if place.host == host.address]
        for host in remote_hosts(cluster)
        if any(place.host == host.address for place in places)
    }
    logs = [folder / files.worker_log(rank) for of_host in ranks.values() for rank in of_host]
    if not ranks or (went_well and all(log.exists() for log in logs)):
        return {}
    agents, grace_s = Agents(cluster, environment), assignment.run.limits.grace_s

    def clean_up(host: Host) -> dict[str, Any]:
        request = {"attempt_id": assignment.attempt_id, "grace_s": grace_s, "ranks": ranks[host]}
        try:
            return agents.ask(host, "clean up", _ANSWER_S + grace_s, **request)
        except HostError:
            return {}

    answers = dict(zip(ranks, in_parallel(clean_up, list(ranks)), strict=True))
    for answer in answers.values():
        for name, text in answer.get("logs", {}).items():
            _keep(folder / Path(name).name, str(text))
    return {host.address: int(answer["oom_kills"]) for host, answer in answers.items() if "oom_kills" in answer}


def _keep(path: Path, text: str) -> None:
    """Write a log that came from another host; one that is here already stays."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError:  # it is here, or the disk is full, which is reported elsewhere
        return
