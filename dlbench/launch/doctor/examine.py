"""All checks, applied to all hosts."""

from collections.abc import Callable, Iterable, Mapping

from dlbench.launch.doctor import check_cores, check_links, check_room, check_software, check_ways
from dlbench.launch.doctor.facts import Asked, Facts
from dlbench.launch.doctor.finding import Finding, Remark, Verdict, worst

Check = Callable[[Facts, Asked], Iterable[Remark]]

FIRST: Mapping[str, Check] = {"reached": check_software.reached}
# Of a host that has not answered nothing else is known.
OTHERS: Mapping[str, Check] = {
    "python": check_software.python,
    "versions": check_software.versions,
    "mpi": check_software.mpi,
    "horovod": check_software.horovod,
    "slots": check_cores.slots,
    "limits": check_cores.limits,
    "threads": check_cores.threads,
    "port": check_ways.port,
    "home": check_ways.home,
    "disk": check_room.disk,
    "shm": check_room.shared_memory,
}
# They are between hosts.
BETWEEN: Mapping[str, Check] = {
    "route": check_ways.route,
    "clock": check_ways.clock,
    "links": check_links.links,
}
NAMES = (*FIRST, *OTHERS, *BETWEEN)


def examine(facts: Facts) -> tuple[Finding, ...]:
    """Return what all checks find: by host, then in the order of `NAMES`."""
    return tuple(
        Finding(asked.name, name, remark)
        for asked in facts.hosts
        for name, check in _checks(facts, asked).items()
        for remark in check(facts, asked)
    )


def _checks(facts: Facts, asked: Asked) -> dict[str, Check]:
    if asked.problem:
        return dict(FIRST)
    return {**FIRST, **OTHERS, **({} if facts.is_alone else BETWEEN)}


def verdicts(findings: Iterable[Finding]) -> dict[tuple[str, str], Verdict]:
    """Return the worst verdict of each host and check."""
    found: dict[tuple[str, str], list[Verdict]] = {}
    for finding in findings:
        found.setdefault((finding.host, finding.check), []).append(finding.remark.verdict)
    return {key: worst(values) for key, values in found.items()}
