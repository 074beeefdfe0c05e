"""Faults at random over a study of short runs on three hosts; needs root."""

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tests.functional.host_faults.kinds import KINDS
from tests.functional.host_faults.striker import Fault, Report, Striker, incomplete
from tests.functional.host_faults.study import HostShape, HostStudy, struck_study
from tests.soak.page import in_memory, machine, table, what_went_wrong, write_table

NUM_HOSTS = 3
EPOCHS = 8
# 480 samples in batches of 16 for each of three workers: ten steps an epoch, of which each worker sends rows.
ROWS = NUM_HOSTS * EPOCHS * 10
# Most strike while a run trains; some as it is launched, some shortly before its end.
SHARE_AT_LAUNCH = 0.2
SHARE_BEFORE_THE_RUN = 0.5
LONGEST_START_S = 8.0
_HOW = (
    "Each fault strikes one run of a study of short runs, one worker on each host, at a moment drawn by chance; in the "
    "end the study was continued until every run had completed. [faults.csv](faults.csv) has every fault."
)
_LEGEND = (
    "`end_s`: seconds from the fault to the end of the run (`dlbench killed`: of its last process). `rows_received`: "
    "step rows in the run's journal, every acknowledged one among them; `rows_kept`: in `steps.csv`. `left`: processes "
    "that were still there afterwards, on whatever host. `wrong`: what was not as it must be."
)
# How a fault ended that struck dlbench between two runs.
NO_RUN = "no run was there"
_KIND_COLUMNS = ("fault", "what it is", "times", "how the runs ended", "longest end_s", "wrong")
_WHAT = {
    "killed": "a worker gets SIGKILL",
    "stopped": "a worker gets SIGSTOP",
    "memory": "a worker asks for more memory than there is",
    "slow": "a worker sleeps in every step for a while",
    "cut off": "a host's link is taken away",
    "full /tmp": "a host's temporary files have no room",
    "full disk": "the study's disk has no room",
    "wrong key": "a host has another ssh key than the one that is known",
    "port in use": "all ports that MPI may use on a host are taken",
    "second dlbench": "another dlbench is started on the same study",
    "mpirun killed": "the launcher gets SIGKILL",
    "daemon stopped": "Open MPI's daemon on a host gets SIGSTOP, and the launcher SIGKILL",
    "dlbench killed": "dlbench itself gets SIGKILL, at any moment",
}
COLUMNS = ("fault", "worker", "moment", "status", "reason", "end_s", "rows_received", "rows_kept", "left", "wrong")


def draw(number: int, seed: int) -> list[Fault]:
    """Draw faults: every kind before any comes again; worker and moment by chance alone."""
    rng, kinds = random.Random(seed), [name for name in KINDS if name != "none"]
    drawn: list[str] = []
    while len(drawn) < number:
        drawn += rng.sample(kinds, len(kinds))
    return [_drawn(kind, rng) for kind in drawn[:number]]


def _drawn(kind: str, rng: random.Random) -> Fault:
    rank = rng.choice([rank for rank in range(NUM_HOSTS) if KINDS[kind].is_right_for(rank)])
    at_launch, before = rng.random() < SHARE_AT_LAUNCH, rng.random() < SHARE_BEFORE_THE_RUN
    after = 0 if at_launch else rng.randint(1, ROWS * 2 // 3)
    if kind == "dlbench killed" and before:
        return Fault(kind, 0, 0, round(rng.uniform(0.0, LONGEST_START_S), 2))
    return Fault(kind, rank, max(after, KINDS[kind].least_rows))


@click.command()
@click.option("--faults", default=100, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Folder for faults.csv and README.md; default: none.")
def hosts(faults: int, seed: int, output: Path | None) -> None:
    """Faults on three hosts that are network namespaces of this machine (root).

    Exit code 0 if each fault has the right status and reason, nothing is left running, and no row is lost.
    """
    drawn, begun = draw(faults, seed), time.monotonic()
    # A fault takes one run of the study; one that is ahead also the run before.
    repeats = len(drawn) + sum(KINDS[fault.kind].is_ahead for fault in drawn) + 1
    shape = HostShape(NUM_HOSTS, repeats, EPOCHS)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        struck_study(Path(folder) / "study", NUM_HOSTS, shape) as study,
    ):
        before = in_memory()
        reports, wrong = _struck(study, drawn)
        wrong += [f"left in shared memory: {path}" for path in sorted(in_memory() - before)]
    minutes = (time.monotonic() - begun) / 60
    if output is not None:
        write(output, reports, wrong, f"`python -m tests.soak hosts --faults {faults} --seed {seed}`", minutes)
    click.echo(f"{summary(reports, wrong)}; {minutes:.1f} minutes")
    sys.exit(bool(wrong or any(report.complaints for report in reports)))


def _struck(study: HostStudy, drawn: Sequence[Fault]) -> tuple[list[Report], list[str]]:
    """Strike, complete, and return the report of each fault and what is wrong at the end."""
    try:
        return Striker(study, drawn, click.echo).run(), incomplete(study)
    except BaseException:
        click.echo(study.output[-3000:])
        raise


def summary(reports: Sequence[Report], wrong: Sequence[str]) -> str:
    """Return how many faults ended how, in a line, and what is wrong at the end in further lines."""
    statuses = Counter(report.status or NO_RUN for report in reports)
    counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    struck = sum(bool(report.complaints) for report in reports)
    return "\n".join([f"{len(reports)} faults: {counts}; {struck} ended wrongly", *wrong])


def write(folder: Path, reports: Sequence[Report], wrong: Sequence[str], command: str, minutes: float) -> None:
    """Write `faults.csv`, and the same as a page."""
    rows = [_row(report) for report in reports]
    write_table(folder / "faults.csv", COLUMNS, rows)
    (folder / "README.md").write_text(page(rows, summary(reports, wrong), command, minutes), encoding="utf-8")


def page(rows: Sequence[Sequence[str]], counts: str, command: str, minutes: float) -> str:
    """Return the page: in a line, by kind of fault, and every fault that ended wrongly."""
    head = [
        f"# {len(rows)} faults on {NUM_HOSTS} hosts",
        f"{command} took {minutes:.0f} minutes on {machine()}; the hosts are network namespaces of it. {_HOW}",
        f"{counts}.",
        table(_KIND_COLUMNS, _by_kind(rows)),
        _LEGEND,
    ]
    return "\n\n".join([*head, *what_went_wrong(COLUMNS, rows)]) + "\n"


def _by_kind(rows: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Yield for each kind how often it struck, how runs ended, the longest end, and how many ended wrongly."""
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    for kind in dict.fromkeys(row["fault"] for row in found):
        of_kind = [row for row in found if row["fault"] == kind]
        statuses = Counter(row["status"] or NO_RUN for row in of_kind)
        counts = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
        ends = [float(row["end_s"]) for row in of_kind if row["end_s"]]
        wrong = sum(row["wrong"] != "0" for row in of_kind)
        yield [kind, _WHAT[kind], str(len(of_kind)), counts, f"{max(ends):.1f}" if ends else "", str(wrong)]


def _row(report: Report) -> list[str]:
    end = "" if report.end_s is None else f"{report.end_s:.1f}"
    about = [report.fault.kind, str(report.fault.rank), report.moment, report.status, report.reason, end]
    counts = [report.acknowledged, report.kept, len(report.left), len(report.complaints)]
    return [" ".join(cell.split()) for cell in (*about, *map(str, counts))]
