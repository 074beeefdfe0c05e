"""The table of all checks, and their application to all hosts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from dlbench.hosts.doctor import cores, network, noise, software, storage
from dlbench.hosts.doctor.facts import CheckVerdict, ClusterFacts, Finding, HostReport, worst

Check = Callable[[ClusterFacts, HostReport], Iterable[Finding]]

FIRST: Mapping[str, Check] = {"reached": software.reached}
# Of a host that has not answered nothing else is known.
OF_A_HOST: Mapping[str, Check] = {
    "python": software.python,
    "versions": software.versions,
    "mpi": software.mpi,
    "horovod": software.horovod,
    "slots": cores.slots,
    "limits": cores.limits,
    "threads": cores.threads,
    "noise": noise.noise,
    "port": network.port,
    "home": network.home,
    "disk": storage.disk,
    "shm": storage.shared_memory,
}
BETWEEN_HOSTS: Mapping[str, Check] = {"route": network.route, "clock": network.clock, "links": network.links}
NAMES = (*FIRST, *OF_A_HOST, *BETWEEN_HOSTS)


def examine(facts: ClusterFacts) -> tuple[Finding, ...]:
    """Return what all checks find: by host, then in the order of `NAMES`."""
    return tuple(
        replace(finding, host=report.name, check=name)
        for report in facts.hosts
        for name, check in _checks(facts, report).items()
        for finding in check(facts, report)
    )


def _checks(facts: ClusterFacts, report: HostReport) -> dict[str, Check]:
    if report.problem:
        return dict(FIRST)
    return {**FIRST, **OF_A_HOST, **({} if facts.is_alone else BETWEEN_HOSTS)}


def verdicts(findings: Iterable[Finding]) -> dict[tuple[str, str], CheckVerdict]:
    """Return the worst verdict of each host and check."""
    by_check: dict[tuple[str, str], list[CheckVerdict]] = {}
    for finding in findings:
        by_check.setdefault((finding.host, finding.check), []).append(finding.verdict)
    return {key: worst(values) for key, values in by_check.items()}
