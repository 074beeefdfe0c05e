"""Other hosts, asked before anything is launched on them: whether they answer, have the same versions, and which cores.

They are reached as Open MPI will reach them, by ssh or by what its parameter `plm_ssh_agent` names.
"""

import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dlbench.errors import UserError, shorten
from dlbench.launch.environment import agent
from dlbench.launch.introduce import MARK, kernel
from dlbench.records.machine import found_in, library_versions
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.limits import usable_cores

# A host that is down is known to be so after this; one that is up answers in a second.
_CONNECT_S = 10
_ANSWER_S = 60.0
_MOST_AT_ONCE = 64
_SSH_FAILED, _NO_COMMAND = 255, (126, 127)


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
    cluster: Cluster, machine: Mapping[str, Any], environment: Mapping[str, str], python: str = sys.executable
) -> Seen:
    """Ask all hosts of a cluster but this one at once.

    Args:
        cluster: The hosts.
        machine: What this machine says of itself.
        environment: Says how they are reached.
        python: The interpreter that workers will have, here and there.

    Raises:
        UserError: Some do not answer, lack the interpreter or dlbench, or have other versions; names all of them.
    """
    own_names = {socket.gethostname(), socket.getfqdn()}
    others = [host for host in cluster.hosts if not host.is_here and host.address not in own_names]
    argv = command(cluster, environment)
    with ThreadPoolExecutor(min(len(others), _MOST_AT_ONCE) or 1) as threads:
        answers = list(threads.map(lambda host: _ask(host, argv, python), others))
    here = {"cores": usable_cores(), "machine": machine, "kernel": kernel()}
    known: dict[str, dict[str, Any] | str] = {host.address: here for host in cluster.hosts}
    known |= {host.address: found for host, found in zip(others, answers, strict=True)}
    problems = {
        host.address: problem for host in cluster.hosts if (problem := _unfit(host, known[host.address], machine))
    }
    if problems:
        told = [f"{address}: {problem}" for address, problem in problems.items()]
        raise UserError(
            "\n  ".join(["hosts that cannot be used as they are:", *told]),
            hint=f"{shlex.join([*argv, next(iter(problems))])} true  shows how it is reached",
        )
    answered = {address: found for address, found in known.items() if not isinstance(found, str)}
    kernels = list(dict.fromkeys(found["kernel"] for found in answered.values()))
    hosts = tuple(_as_seen(host, answered[host.address], kernels) for host in cluster.hosts)
    machines = tuple(answered[host.address]["machine"] for host in others)
    return Seen(cluster.model_copy(update={"hosts": hosts}), machines)


def command(cluster: Cluster, environment: Mapping[str, str]) -> list[str]:
    """Return the command that reaches a host whose address follows it; ssh never asks anybody for a password.

    Args:
        cluster: May say it.
        environment: May say it as Open MPI has it, where the cluster does not.
    """
    words = shlex.split(agent(cluster, environment).partition(" : ")[0]) or ["ssh"]
    if Path(words[0]).name != "ssh":
        return words
    return [*words, "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}"]


def _ask(host: Host, argv: Sequence[str], python: str) -> dict[str, Any] | str:
    """Return a host's answer, or what is wrong with it."""
    words = [*argv, host.address.strip("[]"), shlex.join([python, "-m", "dlbench.launch.introduce"])]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_ANSWER_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer within {_ANSWER_S:g} s"
    except OSError as error:
        return f"{words[0]} cannot be started: {error.strerror or error}"
    answer = next((line.partition(MARK)[2] for line in done.stdout.splitlines() if MARK in line), "")
    try:
        found = json.loads(answer) if answer else None
    except ValueError:
        found = None
    if isinstance(found, dict) and found.keys() >= {"cores", "machine", "kernel"}:
        return found
    return _problem(done.returncode, done.stderr, python)


def _problem(exit_code: int, stderr: str, python: str) -> str:
    said = shorten(next((line for line in reversed(stderr.splitlines()) if line.strip()), "it says nothing"))
    if exit_code == _SSH_FAILED:
        return f"cannot be reached: {said}"
    if exit_code in _NO_COMMAND:
        return f"has no {python}: the environment must be at the same place on every host ({said})"
    return f"dlbench does not work there (exit code {exit_code}): {said}"


def _unfit(host: Host, found: Mapping[str, Any] | str, machine: Mapping[str, Any]) -> str:
    """Return why a host cannot be used, or an empty string."""
    if isinstance(found, str):
        return found
    there = list(map(int, found["cores"]))
    lacking = [core for core in host.cores if core not in there]
    if lacking:
        return f"has no core {', '.join(map(str, lacking))}; its cores are {', '.join(map(str, there))}"
    return _difference(machine, found["machine"])


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
    return host.model_copy(update={"cores": cores, "machine": kernels.index(found["kernel"])})
