"""`dlbench logs`: what a run's launcher and workers wrote."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.cli import options
from dlbench.errors import UserError, nearest

if TYPE_CHECKING:
    from dlbench.study.attempts import Attempt
    from dlbench.study.folder import Folder

# Between two looks at files that grow.
LOOK_S = 0.5


@click.command("logs")
@click.argument("run")
@click.option("--study", type=click.Path(path_type=Path), metavar="DIR", help="Its study; default: the newest.")
@options.studies
@click.option(
    "--worker", type=click.IntRange(min=0), metavar="N", help="Only this process; default: all, and the launcher."
)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Default: the last.")
@click.option(
    "--lines",
    type=click.IntRange(min=0),
    metavar="N",
    default=100,
    show_default=True,
    help="Last lines of each file; 0: all.",
)
@click.option("--follow", is_flag=True, help="Go on with what is written until the run has ended.")
def command(
    run: str, study: Path | None, studies: Path, worker: int | None, attempt: int | None, lines: int, follow: bool
) -> None:
    """Print the logs of RUN: its name, or a part of it that no other run has."""
    from dlbench.study.folder import latest, open_study

    folder = open_study(study) if study else latest(studies)
    found = _attempt(folder, _run_id(folder, run), attempt)
    read: dict[Path, int] = {}
    has_ended = not follow
    while True:
        for path in _logs(found, worker):
            read[path] = _print(path, read.get(path), lines)
        if has_ended:
            break
        # What is written between the last look and the outcome is printed by one more look.
        has_ended = found.outcome() is not None
        if not has_ended:
            time.sleep(LOOK_S)
    if not read:
        which = "" if worker is None else f" of worker {worker}"
        raise UserError(f"there is no log{which} in {found.folder}")


def _run_id(folder: "Folder", word: str) -> str:
    names = [run.run_id for run in folder.record.runs]
    if word in names:
        return word
    found = [name for name in names if word in name]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(f"{folder.path} has no run {word!r}", hint=nearest(word, names))
    raise UserError(f"{len(found)} runs of {folder.path} have {word!r} in their name: {', '.join(found[:4])} ...")


def _attempt(folder: "Folder", run_id: str, number: int | None) -> "Attempt":
    from dlbench.study.attempts import attempts_of

    found = attempts_of(folder.path, run_id)
    if not found:
        raise UserError(f"{run_id} has not been launched yet")
    chosen = [one for one in found if number in (None, one.number)]
    if not chosen:
        raise UserError(f"{run_id} has no attempt {number}; it has {', '.join(str(one.number) for one in found)}")
    return chosen[-1]


def _logs(attempt: "Attempt", worker: int | None) -> Iterator[Path]:
    """Yield the log of the launcher and those of the processes in their order, or that of one."""
    from dlbench.records import files

    if worker is not None:
        names = [files.worker_log(worker)]
    else:
        found = [path.name for path in attempt.folder.glob(files.worker_log_pattern())]
        names = [files.LAUNCHER_LOG, *sorted(found, key=lambda name: (len(name), name))]
    yield from (path for name in names if (path := attempt.folder / name).is_file())


def _print(path: Path, start: int | None, most: int) -> int:
    """Print what a file has beyond an offset, at first its last lines; return the offset of what is to come."""
    with path.open("rb") as file:
        file.seek(start or 0)
        data = file.read()
    end = (start or 0) + len(data)
    if start is None:
        click.echo(f"==> {path} <==")
        data = b"".join(data.splitlines(keepends=True)[-most:])
    # A log is data: nothing in it may steer the terminal.
    text = data.decode("utf-8", errors="replace")
    shown = "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)
    click.echo(shown, nl=start is None and bool(shown) and not shown.endswith("\n"))
    return end
