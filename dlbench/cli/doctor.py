"""`dlbench doctor`: examine the hosts before anything is measured on them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.cli import options, tables

if TYPE_CHECKING:
    from dlbench.launch.doctor.facts import Facts
    from dlbench.launch.doctor.finding import Finding
    from dlbench.scenario.where import Where

_FAILED = 1
# What a drawn table puts between two columns.
_MARGIN = 3


@click.command("doctor")
@options.hosts
@options.studies
@click.option("--json", "as_json", is_flag=True, help="Print everything that was found as JSON.")
def command(where: "Where", studies: Path, as_json: bool) -> int:
    """Examine hosts: reached by ssh, the same Python and versions, MPI, Horovod, cores, ways between them, links, room.

    Nothing is changed. Of each problem the command that mends it is shown. Exit code 1 if a check failed; warnings are
    no failures.
    """
    import os

    from dlbench.datasets._cache import cache_root
    from dlbench.launch.doctor.examine import examine
    from dlbench.launch.doctor.finding import Verdict
    from dlbench.launch.doctor.gather import gather
    from dlbench.study.request import cluster_of

    folders = {"studies": studies.absolute(), "cache": cache_root()}
    facts = gather(cluster_of(where), os.environ, folders)
    findings = examine(facts)
    if as_json:
        click.echo(_as_json(facts, findings))
    else:
        _show(facts, findings)
    return _FAILED if any(finding.remark.verdict is Verdict.FAIL for finding in findings) else 0


def _show(facts: "Facts", findings: "Sequence[Finding]") -> None:
    from dlbench.launch.doctor.examine import NAMES, verdicts

    found = verdicts(findings)
    checks = [name for name in NAMES if any(check == name for _, check in found)]
    rows = [[asked.name, *(str(found.get((asked.name, name), "-")) for name in checks)] for asked in facts.hosts]
    tables.show("doctor", *_turned(["host", *checks], rows))
    if facts.links:
        click.echo()
        tables.show("links", ("hosts", "bandwidth", "round trip", "interfaces"), list(_link_rows(facts)))
    for lines in _problems(findings):
        click.echo(f"\n{lines}")
    click.echo(f"\n{_sum(findings)}")


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


def _link_rows(facts: "Facts") -> Iterable[tuple[str, str, str, str]]:
    from dlbench.launch.doctor.check_links import speed
    from dlbench.launch.links import Link

    for link in facts.links:
        hosts = f"{facts.names(link.a)} - {facts.names(link.b)}"
        if isinstance(link, Link):
            round_trip = f"{1e3 * link.round_trip_s:.3f} ms"
            yield hosts, speed(link.bandwidth_bytes_per_s), round_trip, f"{link.interface_a} - {link.interface_b}"
        else:
            yield hosts, "none", "", ""


def _problems(findings: "Sequence[Finding]") -> Iterable[str]:
    """Return each problem with the hosts it is about, failures first, and the command that mends it."""
    from dlbench.launch.doctor.finding import Verdict

    for verdict in (Verdict.FAIL, Verdict.WARN):
        same: dict[tuple[str, str, str], list[str]] = {}
        for finding in findings:
            if finding.remark.verdict is verdict:
                key = (finding.check, finding.remark.text, finding.remark.mend)
                same.setdefault(key, []).append(finding.host)
        for (check, text, mend), hosts in same.items():
            yield f"{verdict}  {', '.join(hosts)}  {check}: {text}\n      mend: {mend}"


def _sum(findings: "Sequence[Finding]") -> str:
    from dlbench.launch.doctor.examine import verdicts
    from dlbench.launch.doctor.finding import Verdict

    found = list(verdicts(findings).values())
    counts = {verdict: found.count(verdict) for verdict in (Verdict.PASS, Verdict.WARN, Verdict.FAIL)}
    return f"{counts[Verdict.PASS]} passed, {counts[Verdict.WARN]} warned, {counts[Verdict.FAIL]} failed"


def _as_json(facts: "Facts", findings: "Sequence[Finding]") -> str:
    told = [
        {"host": found.host, "check": found.check, **{key: str(value) for key, value in asdict(found.remark).items()}}
        for found in findings
    ]
    links = [{**asdict(link), "a": facts.names(link.a), "b": facts.names(link.b)} for link in facts.links]
    return json.dumps({"hosts": [asked.name for asked in facts.hosts], "findings": told, "links": links}, indent=1)
