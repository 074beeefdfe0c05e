"""Reach other hosts: a program started there over ssh, and the agent (`dlbench.hosts.agent`), asked line by line.

Hosts are reached as Open MPI reaches them: by ssh, or by the command that the cluster file or Open MPI's parameter
names. A program runs in the folder dlbench was called in, with the same interpreter. After an attempt what is left of
it there is ended, and the logs that are only there are fetched. Scripts get ports of the hosts to find each other at.
"""

import contextlib
import json
import os
import selectors
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from dlbench.errors import UserError, shorten
from dlbench.hosts import MARK
from dlbench.hosts.agent import free_ports
from dlbench.launch.environment import agent as agent_command
from dlbench.records import files
from dlbench.records.assignment import Assignment
from dlbench.scenario.cluster import HERE, Cluster, Host
from dlbench.scenario.layout import Layout
from dlbench.search_path import SHELL_LINE, inherited, program
from dlbench.telemetry.server import own_address

_AGENT = program("dlbench.hosts.agent")
# A folder that is not there leaves the program where ssh begins.
_SHELL = ("sh", "-c", f'cd "$1" 2>/dev/null; shift; {SHELL_LINE}; exec "$@"', "sh")
# A host that is down is known to be so after this; one that is up answers in a second.
_CONNECT_S = 10
_SSH_FAILED, _NO_COMMAND = 255, (126, 127)
_END_S = 0.5
# For cleaning up, beyond what ending processes may take.
_ANSWER_S = 30.0
_PORTS_S = 60.0
# ssh to more hosts at once would be more processes than some machines start.
_MAX_PARALLEL = 64
_T = TypeVar("_T")


class HostError(Exception):
    """A host cannot be reached, or cannot do what it was asked; the text says why, without the host's name."""


def remote_hosts(cluster: Cluster) -> list[Host]:
    """Return the hosts that are not this machine by any of its names."""
    own_names = {socket.gethostname(), socket.getfqdn()}
    return [host for host in cluster.hosts if not host.is_here and host.address not in own_names]


def ssh_words(cluster: Cluster, environment: Mapping[str, str]) -> list[str]:
    """Return the words that reach a host, as a person would type them before its address."""
    return shlex.split(agent_command(cluster, environment).partition(" : ")[0]) or ["ssh"]


def command(cluster: Cluster, environment: Mapping[str, str]) -> list[str]:
    """Return the command that reaches a host whose address follows it; ssh never asks for a password.

    Args:
        cluster: May name it.
        environment: May name it in Open MPI's variables, where the cluster does not.
    """
    words = ssh_words(cluster, environment)
    if Path(words[0]).name != "ssh":
        return words
    return [*words, "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}"]


def argv(cluster: Cluster, host: Host, words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command that runs this interpreter with some words on a host.

    Args:
        cluster: Says how it is reached.
        host: The host.
        words: Arguments of the interpreter, such as `-m dlbench.hosts.agent`.
        environment: Says how it is reached, where the cluster does not.
    """
    program = shlex.join([*_SHELL, str(Path.cwd()), sys.executable, *words])
    return [*command(cluster, environment), host.address.strip("[]"), program]


def in_parallel(ask: Callable[[Host], _T], hosts: Sequence[Host]) -> list[_T]:
    """Return what `ask` returns for each host, in order; up to 64 are asked at once."""
    with ThreadPoolExecutor(min(len(hosts), _MAX_PARALLEL) or 1) as threads:
        return list(threads.map(ask, hosts))


@dataclass(frozen=True)
class Agents:
    """How agents are started on the hosts of a cluster.

    Attributes:
        cluster: The hosts.
        environment: Says how they are reached, where the cluster does not.
    """

    cluster: Cluster
    environment: Mapping[str, str]

    def start(self, host: Host) -> "Agent":
        """Start the agent on a host, over ssh where it is not this machine."""
        if host in remote_hosts(self.cluster):
            return Agent(argv(self.cluster, host, _AGENT, self.environment))
        return Agent([sys.executable, *_AGENT])

    def ask(self, host: Host, do: str, timeout_s: float, **request: Any) -> dict[str, Any]:
        """Start the agent on a host for one request, and return the answer.

        Raises:
            HostError: It does not answer, or cannot do it.
        """
        with self.start(host) as agent:
            return agent.ask(do, timeout_s, **request)


class Agent:
    """The agent program on one host; if its command cannot be started, each answer says so.

    Args:
        words: The command that starts it, over ssh or here.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._printed = b""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the agent
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0,
                env=inherited(os.environ), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._problem = f"{words[0]} cannot be started: {error.strerror or error}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the agent: it ends by itself once its standard input ends."""
        self._stderr.close()
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, do: str, timeout_s: float, **request: Any) -> dict[str, Any]:
        """Return the first answer to a request.

        Raises:
            HostError: It cannot be done, or no answer comes in time.
        """
        self.send(do, **request)
        return self.answer(timeout_s)

    def send(self, do: str, **request: Any) -> None:
        """Send a request; whether it arrives shows in the answer."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """Return the next answer.

        Raises:
            HostError: It is an error, cannot be read, or does not come in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            while b"\n" not in self._printed:
                if self._process is None:
                    raise HostError(self._problem)
                self._printed += self._read(self._process, deadline, timeout_s)
            line, _, self._printed = self._printed.partition(b"\n")
            _, mark, text = line.decode(errors="replace").partition(MARK)
            if mark:
                return _parsed(text)

    def _read(self, process: "subprocess.Popen[bytes]", deadline: float, timeout_s: float) -> bytes:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise HostError(f"no answer within {timeout_s:g} s")
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            raise HostError(self._why_it_ended(process))
        return data

    def _why_it_ended(self, process: "subprocess.Popen[bytes]") -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        self._stderr.seek(0)
        lines = [line for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
        # ssh frames a warning, such as of a key that has changed, and ends with a line that says less.
        causes = [line.strip("@ ") for line in lines if line.startswith("@") and "WARNING" in line]
        last_line, code = shorten("; ".join([*causes, *lines[-1:]]) or "it says nothing"), process.returncode or 0
        if code == _SSH_FAILED:
            return f"cannot be reached: {last_line}"
        if code in _NO_COMMAND:
            return f"has no {sys.executable}: the environment must be at the same place on every host ({last_line})"
        return f"dlbench does not work there (exit code {code}): {last_line}"


def _parsed(text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise HostError("dlbench does not work there: its answer is not understood")
    if "error" in answer:
        raise HostError(answer["error"])
    return answer


@contextlib.contextmanager
def started(agents: Agents) -> Iterator[list[Agent]]:
    """Yield the agent on every host, in order; all are started at once."""
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(agents.start(host)) for host in agents.cluster.hosts]


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
    for name, text in (log for answer in answers.values() for log in answer.get("logs", {}).items()):
        # It is here already, or the disk is full, which is reported elsewhere.
        with contextlib.suppress(OSError), (folder / Path(name).name).open("x", encoding="utf-8") as file:
            file.write(str(text))
    return {host.address: int(answer["oom_kills"]) for host, answer in answers.items() if "oom_kills" in answer}


def addresses(layout: Layout, cluster: Cluster, environment: Mapping[str, str], *, needs_all: bool) -> tuple[str, ...]:
    """Return `host:port` of the processes of a script, by rank; ports that the hosts' kernels gave just now.

    Args:
        layout: Who is where.
        cluster: The hosts, and how they are reached.
        environment: Says how they are reached, where the cluster does not.
        needs_all: Whether every process needs its own; else those of worker 0's host are enough.

    Raises:
        UserError: A host does not answer.
    """
    agents = Agents(cluster, environment)

    def free_there(host: Host) -> list[int]:
        number = sum(place.host == host.address for place in layout.places)
        if host.is_here:
            return free_ports(number)
        try:
            return list(agents.ask(host, "free ports", _PORTS_S, number=number)["ports"])
        except HostError as error:
            raise UserError(f"{host.address}: it gives no port to the script's processes: {error}") from error

    chosen = layout.hosts if needs_all else layout.hosts[:1]
    hosts = [host for host in cluster.hosts if host.address in chosen]
    ports = {host.address: iter(free) for host, free in zip(hosts, in_parallel(free_there, hosts), strict=True)}
    elsewhere = [host for host in layout.hosts if host not in HERE]
    here = own_address(elsewhere) if elsewhere else "127.0.0.1"
    names = {host: here if host in HERE else host for host in chosen}
    shown = {host: f"[{name.strip('[]')}]" if ":" in name else name for host, name in names.items()}
    places = [place for place in layout.places if place.host in chosen]
    return tuple(f"{shown[place.host]}:{next(ports[place.host])}" for place in places)
