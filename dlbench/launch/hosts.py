"""Other hosts, asked before anything is launched on them: whether they answer, have the same versions, and which cores.

They are reached as Open MPI will reach them, by ssh or by what its parameter `plm_ssh_agent` names.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlbench.errors import UserError
from dlbench.launch.introduce import MARK, kernel
from dlbench.launch.remote import RemoteError, answer, at_once, command, elsewhere, run
from dlbench.launch.sources import hashes
from dlbench.records.machine import found_in, library_versions
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.limits import usable_cores

_PROGRAM = ("-m", "dlbench.launch.introduce")
_ANSWER_S = 60.0


@dataclass(frozen=True)
class Seen:
    """What hosts say of themselves.

    Attributes:
        cluster: The same cluster, with the cores of every host, and which of them are one machine.
        machines: What `dlbench.records.machine.describe` says on each host that was asked, in order, without names.
    """

    cluster: Cluster
    machines: tuple[Mapping[str, Any], ...] = field(repr=False)


def look(
    cluster: Cluster,
    machine: Mapping[str, Any],
    environment: Mapping[str, str],
    python: str = sys.executable,
    files: Sequence[str] = (),
) -> Seen:
    """Ask all hosts of a cluster but this one at once.

    Args:
        cluster: The hosts.
        machine: What this machine says of itself.
        environment: Says how they are reached.
        python: The interpreter that workers will have, here and there.
        files: Files of the user's own that runs are made from.

    Raises:
        UserError: Some do not answer, lack the interpreter or dlbench, or have other versions or files; names all.
    """
    others = elsewhere(cluster)
    answers = at_once(lambda host: _ask(cluster, host, files, environment, python), others)
    here = {"cores": usable_cores(), "machine": machine, "kernel": kernel(), "files": hashes(files)}
    known: dict[str, dict[str, Any] | str] = {host.address: here for host in cluster.hosts}
    known |= {host.address: found for host, found in zip(others, answers, strict=True)}
    problems = {host.address: problem for host in cluster.hosts if (problem := _unfit(host, known[host.address], here))}
    if problems:
        told = [f"{address}: {problem}" for address, problem in problems.items()]
        raise UserError(
            "\n  ".join(["hosts that cannot be used as they are:", *told]),
            hint=f"{shlex.join([*command(cluster, environment), next(iter(problems))])} true  shows how it is reached",
        )
    answered = {address: found for address, found in known.items() if not isinstance(found, str)}
    kernels = list(dict.fromkeys(found["kernel"] for found in answered.values() if found["kernel"]))
    hosts = tuple(_as_seen(host, answered[host.address], kernels) for host in cluster.hosts)
    machines = tuple(answered[host.address]["machine"] for host in others)
    return Seen(cluster.model_copy(update={"hosts": hosts}), machines)


def _ask(
    cluster: Cluster, host: Host, files: Sequence[str], environment: Mapping[str, str], python: str
) -> dict[str, Any] | str:
    """Return a host's answer, or what is wrong with it."""
    try:
        printed = run(cluster, host, (*_PROGRAM, *files), environment, _ANSWER_S, python)
    except RemoteError as error:
        return str(error)
    found = answer(printed, MARK)
    if found is not None and found.keys() >= {"cores", "machine", "kernel", "files"}:
        return found
    return "dlbench does not work there: its answer is not understood"


def _unfit(host: Host, found: Mapping[str, Any] | str, here: Mapping[str, Any]) -> str:
    """Return why a host cannot be used, or an empty string."""
    if isinstance(found, str):
        return found
    there = list(map(int, found["cores"]))
    lacking = [core for core in host.cores if core not in there]
    if lacking:
        return f"has no core {', '.join(map(str, lacking))}; its cores are {', '.join(map(str, there))}"
    return _difference(here["machine"], found["machine"]) or _other_files(here["files"], found["files"])


def _other_files(here: Mapping[str, str | None], there: Mapping[str, str | None]) -> str:
    """Return which files of the user's own a host lacks or has otherwise, or an empty string."""
    lacking = [path for path in here if there.get(path) is None]
    if lacking:
        return f"has no {', '.join(lacking)} in {Path.cwd()}"
    others = [path for path, found in here.items() if there[path] != found]
    return f"has another {', '.join(others)}" if others else ""


def _difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Return in which versions two machines differ, or an empty string."""
    ours, theirs = _versions(here), _versions(there)
    found = [
        f"{name} {theirs.get(name, 'absent')} (here {ours.get(name, 'absent')})"
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name) != theirs.get(name)
    ]
    return f"has other versions: {', '.join(found)}" if found else ""


def _versions(machine: Mapping[str, Any]) -> dict[str, str]:
    found = {"Python": found_in(machine, "software", "python"), **library_versions(machine)}
    found["dlbench's commit"] = found_in(machine, "software", "dlbench", "commit")
    return {name: str(version) for name, version in found.items() if version is not None}


def _as_seen(host: Host, found: Mapping[str, Any], kernels: Sequence[str]) -> Host:
    """Return a host with its cores, unless they were said, and the number of its machine."""
    cores = host.cores or tuple(map(int, found["cores"]))
    machine = kernels.index(found["kernel"]) if found["kernel"] else None
    return host.model_copy(update={"cores": cores, "machine": machine})
