"""What is known of a cluster's hosts, and what checks find.

All hosts are asked at once, this machine among them; then the links between them are measured.
"""

import contextlib
import shlex
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import dlbench
from dlbench.errors import UserError
from dlbench.hosts.doctor.probes import PROBING_S
from dlbench.hosts.links import BrokenLink, LinkMeasurement, measure_each
from dlbench.hosts.remote import Agent, Agents, HostError, remote_hosts, ssh_words, started
from dlbench.records.machine import found_in
from dlbench.scenario.cluster import Cluster, Host, this_machine
from dlbench.telemetry.server import own_address

# ssh gives up after ten seconds; then a host examines itself.
_ANSWER_S = 10.0 + PROBING_S
_LOCAL = "127.0.0.1"
_POLL_S = 0.1
_MAX_LINE_BYTES = 64


class CheckVerdict(StrEnum):
    """How a check ends: runs work; they work, but slower or otherwise than they could; or some do not work."""

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    FAIL = "fail"


PASS, WARN, FAIL = CheckVerdict


@dataclass(frozen=True)
class Finding:
    """One thing that a check found on a host.

    Attributes:
        verdict: How it ends.
        text: What was found, and why it matters where something is wrong.
        fix: The command that fixes it, or that shows where to fix it; empty where nothing is wrong.
        host: Address of the host.
        check: Name of the check.
    """

    verdict: CheckVerdict
    text: str
    fix: str = ""
    host: str = ""
    check: str = ""


@dataclass(frozen=True)
class HostReport:
    """A host and its answer.

    Attributes:
        host: The host, as the cluster has it.
        is_here: Whether it is this machine.
        problem: Why it has not answered; empty where it has.
        answer: What it answered (see `dlbench.hosts.doctor.probes`).
        ssh: The words that a command on this host begins with; none for this machine.
    """

    host: Host
    is_here: bool
    problem: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)
    ssh: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its address."""
        return self.host.address

    def get(self, *keys: str) -> Any:
        """Return what it answered under these keys; None where there is nothing."""
        return found_in(self.answer, *keys)

    def __getitem__(self, path: str) -> Any:
        """Return what it answered at a path such as `machine.cpu.vendor`; None where there is nothing."""
        return self.get(*path.split("."))

    def command(self, line: str) -> str:
        """Return the line that runs a shell command on this host when it is entered on this machine."""
        return shlex.join([*self.ssh, line]) if self.ssh else line


@dataclass(frozen=True)
class ClusterFacts:
    """All that checks know.

    Attributes:
        cluster: The hosts as the user names them.
        hosts: Their reports, in order.
        here: The report of this machine, whether it is one of the hosts or not.
        links: What was measured between them, by position.
        telemetry_address: The address that other hosts call this machine by.
        python: The interpreter, here and there.
        prefix: The environment it belongs to.
        root: The folder that dlbench itself is imported from.
    """

    cluster: Cluster
    hosts: tuple[HostReport, ...]
    here: HostReport
    links: tuple[LinkMeasurement | BrokenLink, ...]
    telemetry_address: str
    python: str
    prefix: str
    root: str

    @property
    def is_alone(self) -> bool:
        """Whether there is only one host: nothing then crosses a wire between hosts."""
        return len(self.hosts) == 1

    @property
    def is_installed(self) -> bool:
        """Whether dlbench is installed in the environment, from a wheel: there is no checkout then."""
        return self.root.startswith(f"{self.prefix}/")

    def copying(self, report: HostReport) -> str:
        """Return the command that copies this machine's environment to a host."""
        folders = sorted({self.prefix} | (set() if self.is_installed else {self.root}))
        kept = [folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders)]
        shell = ["-e", shlex.join(report.ssh[:-1])] if report.ssh[:-1] not in ((), ("ssh",)) else []
        return shlex.join(["rsync", "-a", "--relative", *shell, *kept, f"{report.name}:/"])


def gather(cluster: Cluster, environment: Mapping[str, str], folders: Mapping[str, Path]) -> ClusterFacts:
    """Return what all hosts report, and what the links between those that answer carry.

    Args:
        cluster: The hosts.
        environment: Says how they are reached.
        folders: Where room is needed, by what it is for.

    Raises:
        UserError: The hosts are a queue's, which gives them later.
    """
    if cluster.submitter != "direct":
        raise UserError(
            f"the hosts of {cluster.submitter} are given later, and cannot be examined from here",
            hint="put `dlbench doctor` in place of `dlbench run` into the job: it finds the job's hosts",
        )
    names = [host.address.strip("[]") for host in cluster.hosts if not host.is_here]
    others = remote_hosts(cluster)
    telemetry_address = own_address(names) if others else _LOCAL
    clock_address = telemetry_address if not others or ":" in telemetry_address else ""
    # This machine comes last where it is none of the hosts.
    asked = list(cluster.hosts) + ([this_machine().hosts[0]] if len(others) == len(cluster.hosts) else [])
    agents = Agents(cluster.model_copy(update={"hosts": tuple(asked)}), environment)
    with started(agents) as running, _clock_server(clock_address) as port:
        request = {
            "names": [*names, *([telemetry_address] if others and len(names) < len(cluster.hosts) else [])],
            "home": [telemetry_address, port],
            "folders": {name: str(path) for name, path in folders.items()},
            "ray": cluster.launcher == "ray" or "RAY_ADDRESS" in environment,
        }
        ssh = ssh_words(cluster, environment)
        with ThreadPoolExecutor(len(asked)) as threads:
            answers = list(threads.map(lambda agent: _answer(agent, request), running))
        reports = [
            HostReport(host, host not in others, problem, answer, (*ssh, host.address.strip("[]")) * (host in others))
            for host, (problem, answer) in zip(asked, answers, strict=True)
        ]
        hosts = tuple(reports[: len(cluster.hosts)])
        return ClusterFacts(
            cluster=cluster,
            hosts=hosts,
            here=next(report for report in reports if report.is_here),
            links=tuple(_links(cluster, hosts, running)),
            telemetry_address=telemetry_address,
            python=sys.executable,
            prefix=sys.prefix,
            root=str(Path(dlbench.__file__).parents[1]),
        )


def _answer(agent: Agent, request: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return why a host cannot be examined, or an empty string, and its answer."""
    try:
        answer = agent.ask("check", _ANSWER_S, **request)
    except HostError as error:
        return str(error), {}
    problem = found_in(answer, "machine", "error")
    return f"cannot be examined: {problem}" if problem else "", answer


def _links(cluster: Cluster, reports: Sequence[HostReport], agents: Sequence[Agent]) -> Iterator[Any]:
    """Measure between the hosts that answer, and give the links the positions of the whole cluster."""
    positions = [number for number, report in enumerate(reports) if not report.problem]
    if len(positions) > 1:
        answering = cluster.model_copy(update={"hosts": tuple(cluster.hosts[number] for number in positions)})
        for link in measure_each(answering, [agents[number] for number in positions]):
            yield replace(link, a=positions[link.a], b=positions[link.b])


class _Clock(socketserver.StreamRequestHandler):
    """Answers each line with the time, in seconds since 1970."""

    timeout, disable_nagle_algorithm = 5.0, True

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while self.rfile.readline(_MAX_LINE_BYTES):
                self.wfile.write(f"{time.time():.6f}\n".encode())


class _ClockServer(socketserver.ThreadingTCPServer):
    daemon_threads, request_queue_size = True, 512

    def __init__(self, address: str) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, 0), _Clock)


@contextlib.contextmanager
def _clock_server(address: str) -> Iterator[int]:
    """Yield a port of this machine on which `_Clock` answers."""
    with _ClockServer(address) as server:
        threading.Thread(target=server.serve_forever, args=(_POLL_S,), name="clock", daemon=True).start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
