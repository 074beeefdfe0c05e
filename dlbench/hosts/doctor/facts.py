"""What is known of a cluster's hosts, and what checks find."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dlbench.hosts.links import BrokenLink, LinkMeasurement
from dlbench.records.machine import found_in
from dlbench.scenario.cluster import Cluster, Host


class CheckVerdict(StrEnum):
    """How a check ends: runs work; they work, but slower or otherwise than they could; or some do not work."""

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    FAIL = "fail"


_ORDER = (CheckVerdict.PASS, CheckVerdict.WARN, CheckVerdict.FAIL)


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


def passed(text: str) -> Finding:
    """Return the finding that all is well."""
    return Finding(CheckVerdict.PASS, text)


def warned(text: str, fix: str) -> Finding:
    """Return the finding that runs work, but are slower or other than they could be."""
    return Finding(CheckVerdict.WARN, text, fix)


def failed(text: str, fix: str) -> Finding:
    """Return the finding that some runs do not work."""
    return Finding(CheckVerdict.FAIL, text, fix)


def worst(verdicts: Iterable[CheckVerdict]) -> CheckVerdict:
    """Return the worst of some verdicts; of none, pass."""
    return max(verdicts, key=_ORDER.index, default=CheckVerdict.PASS)


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
