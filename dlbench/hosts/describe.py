"""Ask other hosts, before anything is launched on them, what they are: cores, hardware, versions, the user's files."""

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlbench import plugins
from dlbench.errors import UserError
from dlbench.hosts.agent import describe
from dlbench.hosts.remote import Agents, HostError, command, in_parallel, remote_hosts
from dlbench.launch.submission import ask
from dlbench.records.machine import found_in, library_versions, other_versions
from dlbench.regular_file import is_file
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.cluster.allocation import processors
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import PLUGIN_SETTINGS
from dlbench.search_path import find_named

_ANSWER_S = 60.0


def describe_hosts(
    cluster: Cluster, machine: Mapping[str, Any], environment: Mapping[str, str], files: Sequence[str] = ()
) -> tuple[Cluster, tuple[Mapping[str, Any], ...]]:
    """Ask all hosts of a cluster but this one at once.

    Args:
        cluster: The hosts.
        machine: What this machine is.
        environment: Says how they are reached.
        files: The user's own files that runs are made from.

    Returns:
        The same cluster, with the cores of every host, and which of them are one machine; and what
        `dlbench.records.machine.describe` returns on each other host, in order, without names.

    Raises:
        UserError: Some do not answer, lack the interpreter or dlbench, or have other versions or files; names all.
    """
    others, agents = remote_hosts(cluster), Agents(cluster, environment)
    answers = in_parallel(lambda host: _ask(agents, host, files), others)
    here = describe(files, machine)
    facts_of: dict[str, dict[str, Any] | str] = {host.address: here for host in cluster.hosts}
    facts_of |= {host.address: facts for host, facts in zip(others, answers, strict=True)}
    problems = {
        host.address: problem for host in cluster.hosts if (problem := _problem(host, facts_of[host.address], here))
    }
    if problems:
        lines = [f"{address}: {problem}" for address, problem in problems.items()]
        first = next(iter(problems)).strip("[]")
        raise UserError(
            "\n  ".join(["hosts that cannot be used as they are:", *lines]),
            hint=f"{shlex.join([*command(cluster, environment), first])} true  shows how it is reached",
        )
    answered = {address: facts for address, facts in facts_of.items() if not isinstance(facts, str)}
    kernels = list(dict.fromkeys(facts["kernel"] for facts in answered.values() if facts["kernel"]))
    shares = _shares(environment)
    hosts = tuple(_with_facts(host, answered[host.address], kernels, shares) for host in cluster.hosts)
    machines = tuple(answered[host.address]["machine"] for host in others)
    return cluster.model_copy(update={"hosts": hosts}), machines


def _ask(agents: Agents, host: Host, files: Sequence[str]) -> dict[str, Any] | str:
    """Return a host's answer, or what is wrong with it."""
    try:
        return agents.ask(host, "describe", _ANSWER_S, files=list(files))
    except HostError as error:
        return str(error)


def _problem(host: Host, there: Mapping[str, Any] | str, here: Mapping[str, Any]) -> str:
    """Return why a host cannot be used, or an empty string."""
    if isinstance(there, str):
        return there
    cores = list(map(int, there["cores"]))
    missing = [core for core in host.cores if core not in cores]
    if missing:
        return f"has no core {', '.join(map(str, missing))}; its cores are {', '.join(map(str, cores))}"
    if different := other_versions(_versions(here["machine"]), _versions(there["machine"])):
        return f"has other versions: {', '.join(different)}"
    files: Mapping[str, str | None] = here["files"]
    if absent := [path for path in files if there["files"].get(path) is None]:
        return f"has no {', '.join(absent)} in {Path.cwd()}"
    others = [path for path, digest in files.items() if there["files"][path] != digest]
    return f"has another {', '.join(others)}" if others else ""


def _versions(machine: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Python": found_in(machine, "software", "python"),
        **library_versions(machine),
        "dlbench's commit": found_in(machine, "software", "dlbench", "commit"),
    }


def _with_facts(host: Host, facts: Mapping[str, Any], kernels: Sequence[str], shares: Mapping[str, int]) -> Host:
    """Return a host with its cores, those that the cluster names or all, and the number of its machine.

    Of the cores of a host that a job shares, it has as many as the job was given.
    """
    there = tuple(map(int, facts["cores"]))
    name = host.address if host.address in shares else host.address.partition(".")[0]
    share = shares.get(name, len(there))
    machine = kernels.index(facts["kernel"]) if facts["kernel"] else None
    changes = {"cores": (host.cores or there)[:share], "machine": machine, "is_shared": share < len(there)}
    return host.model_copy(update=changes)


def _shares(environment: Mapping[str, str]) -> dict[str, int]:
    """Return how many processors our Slurm job has on each of its hosts; nothing where it has them to itself."""
    shares = processors(environment)
    words = ("squeue", "--noheader", f"--jobs={environment.get('SLURM_JOB_ID')}", "--format=%h")
    # A host may have more cores than Slurm gives to any job: a second thread of each, or those of the system.
    done = ask(*words) if shares else None
    return {} if done is not None and {*done.stdout.split()} == {"NO"} else shares


def user_files(runs: Iterable[RunSpec]) -> tuple[str, ...]:
    """Return the files of modules that runs name as `module:function`, and those that their commands name.

    Files below the folder dlbench was called in are named as from there.
    """
    settings = [run.settings for run in runs]
    values = {(kind, str(getattr(of_run, key))) for of_run in settings for key, kind in PLUGIN_SETTINGS.items()}
    # Some of dlbench's own have a colon in their name: `keras:mnist`.
    modules = {value.partition(":")[0] for kind, value in values if ":" in value and value not in plugins.names(kind)}
    commands = {of_run.command for of_run in settings if of_run.command is not None}
    paths = [
        *filter(None, map(_file_of_module, sorted(modules))),
        *(path for text in sorted(commands) for path in _files_in(text)),
    ]
    relative = {path: os.path.relpath(path) for path in paths}
    return tuple(dict.fromkeys(path if here.startswith(os.pardir) else here for path, here in relative.items()))


def _file_of_module(module: str) -> str:
    """Return the file of a module that can be imported from here; an empty string where it has none."""
    try:
        spec = find_named(module)
    except (ImportError, ValueError):
        return ""
    return spec.origin if spec is not None and spec.origin and Path(spec.origin).is_file() else ""


def _files_in(command: str) -> Iterator[str]:
    """Yield the words of a command that are files here; programs that are found on PATH are not."""
    with contextlib.suppress(ValueError):  # a quotation that is not closed
        yield from filter(is_file, shlex.split(command))
