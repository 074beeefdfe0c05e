"""`dlbench doctor`: examine the hosts before anything is measured on them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.cli import COMPLETED, SOME_DID_NOT, options, tables

if TYPE_CHECKING:
    from dlbench.hosts.doctor.facts import ClusterFacts, Finding
    from dlbench.scenario.cluster.cluster_file import ClusterOptions

# What a drawn table puts between two columns.
_MARGIN = 3


@click.command("doctor")
@options.hosts
@options.studies
@click.option("--json", "as_json", is_flag=True, help="Print everything that was found as JSON.")
def command(where: "ClusterOptions", studies: Path, as_json: bool) -> int:
    """Examine hosts: reached by ssh, the same Python and versions, MPI, Horovod, cores, routes, links, disks.

    Nothing is changed. Each problem is shown with the command that fixes it. Exit code 1 if a check failed; warnings do
    not count.
    """
    import os

    from dlbench.datasets._cache import cache_root
    from dlbench.hosts.doctor.checks import examine
    from dlbench.hosts.doctor.facts import CheckVerdict, gather
    from dlbench.study.plan import cluster_of

    folders = {"studies": studies.absolute(), "cache": cache_root()}
    facts = gather(cluster_of(where), os.environ, folders)
    findings = examine(facts)
    if as_json:
        click.echo(_as_json(facts, findings))
    else:
        _show(facts, findings)
    return SOME_DID_NOT if any(finding.verdict is CheckVerdict.FAIL for finding in findings) else COMPLETED


def _show(facts: "ClusterFacts", findings: "Sequence[Finding]") -> None:
    from dlbench.hosts.doctor.checks import NAMES, verdicts
    from dlbench.hosts.doctor.facts import CheckVerdict

    worst = verdicts(findings)
    checks = [name for name in NAMES if any(check == name for _, check in worst)]
    rows = [[report.name, *(str(worst.get((report.name, name), "-")) for name in checks)] for report in facts.hosts]
    tables.show("doctor", *_turned(["host", *checks], rows))
    if facts.links:
        click.echo()
        tables.show("links", ("hosts", "bandwidth", "round trip", "interfaces"), list(_link_rows(facts)))
    for lines in _problems(findings):
        click.echo(f"\n{lines}")
    words = {CheckVerdict.PASS: "passed", CheckVerdict.WARN: "warned", CheckVerdict.FAIL: "failed"}
    counts = (f"{list(worst.values()).count(verdict)} {word}" for verdict, word in words.items())
    click.echo(f"\n{', '.join(counts)}")


def _turned(columns: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return a table as it is, or with a line for each check where a terminal is too narrow for it."""
    import shutil
    import sys

    lines = [columns, *rows]
    needed = sum(max(tables.width(cell) for cell in column) + _MARGIN for column in zip(*lines, strict=True))
    if not sys.stdout.isatty() or needed <= shutil.get_terminal_size().columns:
        return columns, rows
    first, *others = (list(column) for column in zip(*lines, strict=True))
    return ["check", *first[1:]], others


def _link_rows(facts: "ClusterFacts") -> Iterable[tuple[str, str, str, str]]:
    from dlbench.hosts.doctor.network import speed
    from dlbench.hosts.links import LinkMeasurement

    for link in facts.links:
        hosts = f"{facts.hosts[link.a].name} - {facts.hosts[link.b].name}"
        if isinstance(link, LinkMeasurement):
            round_trip = f"{1e3 * link.round_trip_s:.3f} ms"
            yield hosts, speed(link.bandwidth_bytes_per_s), round_trip, f"{link.interface_a} - {link.interface_b}"
        else:
            yield hosts, "none", "", ""


def _problems(findings: "Sequence[Finding]") -> Iterable[str]:
    """Return each problem with the hosts it is about, failures first, and the command that fixes it."""
    from dlbench.grouping import by_key
    from dlbench.hosts.doctor.facts import CheckVerdict

    for verdict in (CheckVerdict.FAIL, CheckVerdict.WARN):
        alike = [finding for finding in findings if finding.verdict is verdict]
        same = by_key(((finding.check, finding.text, finding.fix), finding.host) for finding in alike)
        for (check, text, fix), hosts in same.items():
            yield f"{verdict}  {', '.join(hosts)}  {check}: {text}\n      fix: {fix}"


def _as_json(facts: "ClusterFacts", findings: "Sequence[Finding]") -> str:
    listed = [asdict(finding) for finding in findings]
    links = [{**asdict(link), "a": facts.hosts[link.a].name, "b": facts.hosts[link.b].name} for link in facts.links]
    return json.dumps({"hosts": [report.name for report in facts.hosts], "findings": listed, "links": links}, indent=1)
