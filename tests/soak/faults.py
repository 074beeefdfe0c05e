"""Faults at random in runs on this machine: every kind in every phase before any comes again."""

import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import click

from tests.functional.faults.fault import PHASES, Fault
from tests.functional.faults.strike import LONG, SHORT, WAITED_FOR, Report, examine, kinds
from tests.functional.faults.study import Shape
from tests.soak.page import in_memory, machine, read_rows, table, what_went_wrong, write_table

ALGORITHMS = ("auto", "ring", "recursive-doubling", "rabenseifner", "own-ring")
MOST_IN_A_STUDY = 10
COLUMNS = ("fault", "phase", "step", "worker", "workers", "algorithm", "status", "reason", "end_s", "wrong")


@click.command()
@click.option("--faults", "number", default=100, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Folder for faults.csv and README.md; default: none.")
@click.option("--resume", "is_resumed", is_flag=True, help="Go on after the faults that faults.csv has.")
def faults(number: int, seed: int, output: Path | None, is_resumed: bool) -> None:
    """Faults in workers on this machine, alone and over MPI.

    Rows are written study by study, so that a campaign that was cut off can be resumed.

    Exit code 0 if each fault has the right status and reason, nothing is left running, no row is lost, and `--resume`
    completes every study.
    """
    rows = read_rows(output / "faults.csv") if output is not None and is_resumed else []
    command = f"`python -m tests.soak faults --faults {number} --seed {seed}`"
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        for place, (shape, drawn) in enumerate(after(len(rows), studies(draw(number, seed)))):
            before = in_memory()
            made = examine(Path(folder) / str(place), shape, drawn)
            if left := in_memory() - before:
                made[-1].complaints.append(f"left in shared memory: {sorted(left)}")
            click.echo("\n".join(report.line() for report in made))
            rows += [_row(report) for report in made]
            if output is not None:
                write_table(output / "faults.csv", COLUMNS, rows)
                (output / "README.md").write_text(page(rows, command), encoding="utf-8")
    click.echo(summary(rows))
    sys.exit(any(row[-1] != "0" for row in rows))


def after(number: int, listed: Sequence[tuple[Shape, list[Fault]]]) -> list[tuple[Shape, list[Fault]]]:
    """Return the studies without the first ones, which have so many faults together.

    Raises:
        click.UsageError: So many are not those of whole studies.
    """
    ends = [0, *accumulate(len(drawn) for _, drawn in listed)]
    if number not in ends:
        raise click.UsageError(f"faults.csv has {number} faults: it was written with another --faults or --seed")
    return list(listed[ends.index(number) :])


def draw(number: int, seed: int) -> list[tuple[Shape, Fault]]:
    """Draw faults with what they strike: kinds and phases in turn, everything else by chance alone."""
    rng = random.Random(seed)
    cells: list[tuple[str, str]] = []
    while len(cells) < number:
        cells += rng.sample([(kind, phase) for kind in kinds() for phase in PHASES], len(kinds()) * len(PHASES))
    return [_drawn(kind, phase, rng) for kind, phase in cells[:number]]


def _drawn(kind: str, phase: str, rng: random.Random) -> tuple[Shape, Fault]:
    workers = rng.choice((1, 2, 2, 3))
    is_single = workers == 1 and rng.random() < 0.7
    limits = SHORT if kind in WAITED_FOR else LONG
    shape = Shape(workers, "" if is_single else rng.choice(ALGORITHMS), **limits)
    return shape, Fault(kind, phase, rng.randrange(workers), rng.randint(2, shape.steps), 0)


def studies(drawn: Sequence[tuple[Shape, Fault]]) -> list[tuple[Shape, list[Fault]]]:
    """Return the faults by the study that they strike."""
    by_shape: dict[Shape, list[Fault]] = defaultdict(list)
    for shape, fault in drawn:
        by_shape[shape].append(fault)
    return [
        (shape, listed[first : first + MOST_IN_A_STUDY])
        for shape, listed in by_shape.items()
        for first in range(0, len(listed), MOST_IN_A_STUDY)
    ]


def summary(rows: Sequence[Sequence[str]]) -> str:
    """Return how many faults ended how, and how many of them wrongly."""
    statuses = Counter(row[COLUMNS.index("status")] for row in rows)
    wrong = sum(row[-1] != "0" for row in rows)
    ends = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    return f"{len(rows)} faults: {ends}; {wrong} wrong"


def page(rows: Sequence[Sequence[str]], command: str) -> str:
    """Return the page: what was done, kinds x phases, and every fault that ended wrongly."""
    counts = Counter((row[0], row[1]) for row in rows)
    grid = [[kind, *(str(counts[kind, phase]) for phase in PHASES)] for kind in sorted({row[0] for row in rows})]
    how = (
        f"{command} on {machine()}. Each fault strikes one run of a study of short runs, in "
        "the phase of a worker that the table names; the study is then continued without faults. "
        "[faults.csv](faults.csv) has every fault."
    )
    legend = (
        "`end_s`: seconds from the fault to the outcome. `wrong`: how much is not as it must be (status, reason, log, "
        "rows, processes left running, temporary files and shared memory left, `--resume`)."
    )
    parts = [how, f"{summary(rows)}.", table(("fault", *PHASES), grid), legend]
    return "\n\n".join([f"# {len(rows)} faults on one machine", *parts, *what_went_wrong(COLUMNS, rows)]) + "\n"


def _row(report: Report) -> list[str]:
    fault, shape, outcome = report.fault, report.shape, report.outcome
    end = "" if report.end_s is None else f"{report.end_s:.1f}"
    where = [fault.kind, fault.phase, str(fault.step), str(fault.rank), str(shape.workers), shape.algorithm or "single"]
    return [
        *where,
        str(outcome.status) if outcome else "no outcome",
        outcome.reason if outcome else "",
        end,
        str(len(report.complaints)),
    ]
