"""dlbench killed (-9) at every moment of a study, with every launcher."""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from tests.functional.faults.kill import Kill, draw, examine
from tests.soak.page import in_memory, machine, table, write_table

COLUMNS = ("moment", "delay_s", "workers", "fault", "found", "wrong")


@click.command()
@click.option("--seed", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Folder for kills.csv and README.md; default: none.")
def kills(seed: int, output: Path | None) -> None:
    """dlbench killed at every moment.

    Exit code 0 if all workers end themselves in time, no acknowledged row is lost, and `--resume` completes every
    study.
    """
    begun, rows, before = time.monotonic(), list[list[str]](), in_memory()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        for place, kill in enumerate(draw(seed)):
            found, complaints = examine(Path(folder) / str(place), kill)
            click.echo("\n    WRONG: ".join([f"{kill}: {found}", *complaints]))
            rows.append(_row(kill, found, complaints))
    if left := in_memory() - before:
        click.echo(f"WRONG: left in shared memory: {sorted(left)}")
        rows[-1][-1] = str(int(rows[-1][-1]) + 1)
    minutes = (time.monotonic() - begun) / 60
    if output is not None:
        write_table(output / "kills.csv", COLUMNS, rows)
        command = f"`python -m tests.soak kills --seed {seed}`"
        (output / "README.md").write_text(page(rows, command, minutes), encoding="utf-8")
    click.echo(f"{summary(rows)}; {minutes:.1f} minutes")
    sys.exit(any(row[-1] != "0" for row in rows))


def summary(rows: Sequence[Sequence[str]]) -> str:
    """Return how many kills there were, and how many went wrong."""
    return f"{len(rows)} kills; {sum(row[-1] != '0' for row in rows)} wrong"


def page(rows: Sequence[Sequence[str]], command: str, minutes: float) -> str:
    """Return the page: what was done, and every kill."""
    how = (
        f"{command} took {minutes:.0f} minutes on {machine()}. dlbench gets SIGKILL at the moment named, each time in "
        "a study of its own; first its workers must end by themselves, then `--resume` completes the study."
    )
    return (
        "\n\n".join([f"# {len(rows)} kills of dlbench itself", how, f"{summary(rows)}.", table(COLUMNS, rows)]) + "\n"
    )


def _row(kill: Kill, found: str, complaints: Sequence[str]) -> list[str]:
    fault = f"{kill.fault.kind} in worker {kill.fault.rank}" if kill.fault else ""
    return [kill.moment, f"{kill.delay_s:.2f}", str(kill.shape.workers), fault, found, str(len(complaints))]
