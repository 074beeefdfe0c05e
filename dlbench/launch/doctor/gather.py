"""Asking all hosts of a cluster at once, this machine among them, and measuring the links between them."""

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dlbench
from dlbench.errors import UserError
from dlbench.launch import remote
from dlbench.launch.doctor.facts import Asked, Facts
from dlbench.launch.doctor.home import Home
from dlbench.launch.doctor.tell import MARK, TELLING_S
from dlbench.launch.environment import agent
from dlbench.launch.inbox import own_address
from dlbench.launch.links import Broken, Link, measure_each
from dlbench.records.machine import found_in
from dlbench.scenario.cluster import Cluster, Host, this_machine

_PROGRAM = ("-m", "dlbench.launch.doctor.tell")
# ssh gives up after ten seconds; then a host tells.
_ANSWER_S = 10.0 + TELLING_S
_LOCAL = "127.0.0.1"
_NOT_UNDERSTOOD = "dlbench does not work there: its answer is not understood"


def gather(
    cluster: Cluster, environment: Mapping[str, str], folders: Mapping[str, Path], python: str = sys.executable
) -> Facts:
    """Return what all hosts tell, and what the links between those that answer carry.

    Args:
        cluster: The hosts.
        environment: Says how they are reached.
        folders: Where room is needed, by what it is for.
        python: The interpreter, here and there.

    Raises:
        UserError: The hosts are a queue's, which gives them later.
    """
    if cluster.submitter != "direct":
        raise UserError(
            f"the hosts of {cluster.submitter} are given later, and cannot be examined from here",
            hint="put `dlbench doctor` in place of `dlbench run` into the job: it finds the job's hosts",
        )
    names = [host.address.strip("[]") for host in cluster.hosts if not host.is_here]
    others = remote.elsewhere(cluster)
    home = own_address(names) if others else _LOCAL
    with Home("" if others else _LOCAL) as opened:
        request = {
            "names": [*names, *([home] if others and len(names) < len(cluster.hosts) else [])],
            "home": [home, opened.port],
            "folders": {name: str(path) for name, path in folders.items()},
        }
        asking = _Asking(cluster, environment, python, request, others)
        found = asking.ask()
    here = next((asked for asked in found if asked.is_here), None)
    facts = Facts(
        cluster=cluster,
        hosts=tuple(asked for asked in found if asked.host in cluster.hosts),
        here=here or found[-1],
        links=(),
        home=home,
        python=python,
        prefix=sys.prefix,
        root=str(Path(dlbench.__file__).parents[1]),
    )
    return replace(facts, links=_links(facts, environment))


class _Asking:
    """One request to all hosts."""

    def __init__(
        self,
        cluster: Cluster,
        environment: Mapping[str, str],
        python: str,
        request: Mapping[str, Any],
        others: list[Host],
    ) -> None:
        self._cluster, self._environment, self._python = cluster, environment, python
        self._request, self._others = request, others

    def ask(self) -> list[Asked]:
        """Return every host's answer, in order; that of this machine last where it is none of them."""
        hosts = list(self._cluster.hosts)
        if len(self._others) == len(hosts):
            hosts.append(this_machine().hosts[0])
        return remote.at_once(self._one, hosts)

    def _one(self, host: Host) -> Asked:
        is_here = host not in self._others
        reach = () if is_here else self._reach(host)
        words = (*_PROGRAM, json.dumps(self._request))
        try:
            printed = self._here(words) if is_here else self._there(host, words)
        except remote.RemoteError as error:
            return Asked(host, is_here, problem=str(error), reach=reach)
        found = remote.answer(printed, MARK)
        if found is None:
            return Asked(host, is_here, problem=_NOT_UNDERSTOOD, reach=reach)
        problem = found_in(found, "machine", "error")
        return Asked(host, is_here, f"cannot tell what it is: {problem}" if problem else "", found, reach)

    def _there(self, host: Host, words: tuple[str, ...]) -> str:
        return remote.run(self._cluster, host, words, self._environment, _ANSWER_S, self._python)

    def _here(self, words: tuple[str, ...]) -> str:
        try:
            done = subprocess.run(
                [self._python, *words], capture_output=True, text=True, errors="replace", timeout=_ANSWER_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise remote.RemoteError(f"no answer within {_ANSWER_S:g} s") from error
        if done.returncode:
            raise remote.RemoteError(remote.problem_of(done.returncode, done.stderr, self._python))
        return done.stdout

    def _reach(self, host: Host) -> tuple[str, ...]:
        """Return the words that reach a host, as a person would enter them."""
        words = shlex.split(agent(self._cluster, self._environment).partition(" : ")[0]) or ["ssh"]
        return (*words, host.address.strip("[]"))


def _links(facts: Facts, environment: Mapping[str, str]) -> tuple[Link | Broken, ...]:
    """Measure between the hosts that answer, and give the links the positions of the whole cluster."""
    positions = [number for number, asked in enumerate(facts.hosts) if not asked.problem]
    if len(positions) < 2:
        return ()
    answering = facts.cluster.model_copy(update={"hosts": tuple(facts.cluster.hosts[number] for number in positions)})
    measured = measure_each(answering, environment, facts.python)
    return tuple(replace(link, a=positions[link.a], b=positions[link.b]) for link in measured)
