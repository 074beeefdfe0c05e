"""`dlbench run`: make every run of a scenario, and print the results."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.cli import INTERRUPTED, options
from dlbench.cli.signals import stop_on_signals

if TYPE_CHECKING:
    from rich.console import Console

    from dlbench.scenario.cluster.cluster_file import ClusterOptions
    from dlbench.study.plan import Request
    from dlbench.study.runner import StudyResult, Watcher

COMPLETED = 0
SOME_DID_NOT = 1
HUNG_UP = 128 + signal.SIGHUP
# Wide enough for the summary where no terminal says how wide it is.
PLAIN_WIDTH = 200


@click.command("run")
@click.argument("scenario", type=click.Path(path_type=Path), required=False)
@options.hosts
@options.only
@click.option("--dry-run", is_flag=True, help="Print exactly what each run would execute, and start nothing.")
@click.option("--study", type=click.Path(path_type=Path), metavar="DIR", help="Continue this study.")
@click.option("--resume", is_flag=True, help="Continue the newest study of the scenario.")
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("studies"), metavar="DIR", show_default=True,
    help="Folder of all studies.",
)  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), metavar="N", help="In place of the scenario's repeats.")
@click.option("--part", hidden=True, metavar="I/N", help="Make the run of this number alone: a job does.")
@click.option("--followed", is_flag=True, hidden=True, help="Another dlbench prints the results.")
def command(
    scenario: Path | None,
    where: "ClusterOptions",
    only: tuple[str, ...],
    dry_run: bool,
    study: Path | None,
    resume: bool,
    output: Path,
    repeats: int | None,
    part: str | None,
    followed: bool,
) -> int:
    """Make every run of SCENARIO, one at a time, and print the results.

    Exit code: 0 where every run completed, 1 where some did not, 2 for a mistake in what was asked, 130 after Ctrl-C.
    """
    from dlbench.study.plan import Request

    request = Request(
        scenario=scenario,
        output=output,
        only=options.read_only(only),
        where=where,
        repeats=repeats,
        study=study,
        resume=resume,
        part=options.read_part(part),
    )
    if dry_run:
        from dlbench.study.measure import dry_run as plans

        for text in plans(request):
            click.echo(text)
        return COMPLETED
    return _run(request, is_followed=followed)


def _run(request: "Request", *, is_followed: bool) -> int:
    """Make the runs, print the results, and return the exit code; one that is followed leaves the showing to that."""
    from dlbench.study.follow import Detached, Stop
    from dlbench.study.measure import measure
    from dlbench.study.prepare import NotPrepared
    from dlbench.study.runner import DiskFull

    console = _console()
    stop = Stop()
    try:
        with stop_on_signals(stop), _watcher(console) as watcher:
            result = measure(request, watcher, stop)
    except (DiskFull, NotPrepared) as error:
        click.echo(f"dlbench: {error}", err=True)
        return SOME_DID_NOT
    except Detached as error:
        with contextlib.suppress(OSError):  # the terminal is gone
            click.echo(f"dlbench: {error}", err=True)
        return HUNG_UP
    if not is_followed:
        _show(console, result)
    if result.was_interrupted:
        return INTERRUPTED
    if result.problem:
        click.echo(f"dlbench: {result.problem}; remove what is in its place, then continue with --resume", err=True)
    return COMPLETED if result.is_complete and not result.problem else SOME_DID_NOT


def _show(console: "Console", result: "StudyResult") -> None:
    from dlbench.analysis.order import reading_order
    from dlbench.cli.summary import show
    from dlbench.study.folder import scenario_of

    folder = result.folder
    show(console, folder.path, result.rows, reading_order(scenario_of(folder), folder.record.runs))
    if result.was_interrupted:
        click.echo(f"interrupted; continue with: dlbench run --study {str(folder.path)!r}")


def _console() -> "Console":
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH, color_system=None, highlight=False)


@contextlib.contextmanager
def _watcher(console: "Console") -> "Iterator[Watcher]":
    from dlbench.cli.live import LiveTable, PlainLines

    if console.is_terminal:
        with LiveTable(console) as table:
            yield table
    else:
        yield PlainLines(click.echo)
