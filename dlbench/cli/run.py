"""`dlbench run`: make every run of a scenario, and say what was found."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from dlbench.cli import INTERRUPTED, options
from dlbench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from dlbench.scenario.where import Where
    from dlbench.study.conduct import Account, Watcher
    from dlbench.study.folder import Folder, Question
    from dlbench.study.request import Request
    from dlbench.study.submit_follow import Stop

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
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
@click.option("--followed", is_flag=True, hidden=True, help="Another dlbench shows what was found.")
def command(
    scenario: Path | None,
    where: "Where",
    only: tuple[str, ...],
    dry_run: bool,
    study: Path | None,
    resume: bool,
    output: Path,
    repeats: int | None,
    part: str | None,
    followed: bool,
) -> int:
    """Make every run of SCENARIO, one at a time, and say what was found.

    Exit code: 0 where every run completed, 1 where some did not, 2 for a mistake in what was asked, 130 after Ctrl-C.
    """
    from dlbench.study.request import Request

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
        _rehearse(request)
        return COMPLETED
    return _run(request, is_followed=followed)


def _rehearse(request: "Request") -> None:
    from dlbench.launch.plan import render
    from dlbench.study.conduct import rehearse
    from dlbench.study.request import resolve
    from dlbench.study.submit import rehearsed, waits_for

    question, folder = resolve(request)
    if waits_for(question.cluster):
        click.echo(rehearsed(question, request, folder))
    question = _with_batches(question, folder)
    click.echo("# The way home (address, port, token), the prepared data and the log folder are added at the launch.")
    for run in question.runs:
        click.echo(f"\n# {run.run_id}: {_one_line(run.label)}, repeat {run.repeat}")
        click.echo(render(rehearse(run, question.cluster, os.environ)))


def _with_batches(question: "Question", folder: "Folder | None") -> "Question":
    """Return the question with every `batch_size: max` as it is known.

    Raises:
        UserError: One is not.
    """
    from dlbench.scenario.largest import open_runs
    from dlbench.study.fit_runs import with_known

    if not open_runs(question.runs):
        return question
    known = with_known(question, folder)
    unknown = next(iter(open_runs(known.runs).values()), None)
    if unknown is not None:
        raise UserError(
            f"[{unknown.label}] has `batch_size: max`, and the largest batch that fits is not known yet",
            hint="`dlbench run` finds it before the first run; leave such runs out with --only",
        )
    return known


def _run(request: "Request", *, is_followed: bool) -> int:
    """Make the runs, show what was found, and return the exit code; one that is followed leaves the showing to that."""
    from dlbench.api import measure
    from dlbench.study.disk import DiskFull
    from dlbench.study.prepare import NotPrepared
    from dlbench.study.submit_follow import Left, Stop

    console = _console()
    stop = Stop()
    try:
        with _signals(stop), _watcher(console) as watcher:
            folder, account = measure(request, watcher, stop)
    except (DiskFull, NotPrepared) as error:
        click.echo(f"dlbench: {error}", err=True)
        return SOME_DID_NOT
    except Left as left:
        with contextlib.suppress(OSError):  # the terminal is gone
            click.echo(f"dlbench: {left}", err=True)
        return HUNG_UP
    if not is_followed:
        _show(console, folder, account)
    if account.was_interrupted:
        return INTERRUPTED
    return COMPLETED if account.is_complete else SOME_DID_NOT


def _show(console: "Console", folder: "Folder", account: "Account") -> None:
    from dlbench.analysis.order import reading_order
    from dlbench.cli.summary import show
    from dlbench.study.folder import scenario_of

    show(console, folder.path, account.rows, reading_order(scenario_of(folder), folder.record.runs))
    if account.was_interrupted:
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


@contextlib.contextmanager
def _signals(stop: "Stop") -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP end the study in good order; a second Ctrl-C ends dlbench at once.

    SIGHUP, which a lost terminal sends, leaves a job of a queue alone.
    """

    def ask(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            stop.hang_up()
        else:
            stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # What the shell has us ignore, such as SIGHUP under nohup, stays ignored.
    heeded = [name for name in ENDING if signal.getsignal(name) is not signal.SIG_IGN]
    before = {name: signal.signal(name, ask) for name in heeded}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _one_line(text: str) -> str:
    return " ".join(text.split())
