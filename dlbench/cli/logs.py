"""`dlbench logs`: what a run's launcher and workers wrote."""

import codecs
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlbench.analysis.formatting import listed
from dlbench.cli import options
from dlbench.errors import STEERING, UserError, nearest, printable

if TYPE_CHECKING:
    from dlbench.study.attempts import Attempt
    from dlbench.study.folder import Folder

# Between two looks at files that grow.
LOOK_S = 0.5
_DECODER = codecs.getincrementaldecoder("utf-8")


@click.command("logs")
@click.argument("run")
@click.option(
    "--study", type=options.path, metavar="DIR", shell_complete=options.study_paths,
    help="Its study; default: the newest.",
)  # fmt: skip
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
    from dlbench.study.folder import newest, open_study

    folder = open_study(study) if study else newest(studies)
    chosen = _attempt(folder, _run_id(folder, run), attempt)
    printer = _Printer(lines)
    has_ended = not follow
    while True:
        for path in _logs(chosen, worker):
            printer.print(path)
        if has_ended:
            break
        # What is written between the last look and the outcome is printed by one more look.
        has_ended = chosen.outcome() is not None
        if not has_ended:
            time.sleep(LOOK_S)
    printer.end_line()
    if not printer.has_printed:
        which = "" if worker is None else f" of worker {worker}"
        raise UserError(f"there is no log{which} in {chosen.folder}")


def _run_id(folder: "Folder", word: str) -> str:
    names = [run.run_id for run in folder.record.runs]
    if word in names:
        return word
    matching = [name for name in names if word in name]
    # Who does not say otherwise means a result, not a run of a search.
    results = [run.run_id for run in folder.record.runs if run.phase == "measure" and run.run_id in matching]
    if len(matching) == 1 or len(results) == 1:
        return (results or matching)[0]
    if not matching:
        hint = nearest(word, names) or f"there are: {listed(names)}"
        raise UserError(f"{folder.path} has no run {word!r}", hint=hint)
    raise UserError(f"{len(matching)} runs of {folder.path} have {word!r} in their name: {listed(matching)}")


def _attempt(folder: "Folder", run_id: str, number: int | None) -> "Attempt":
    from dlbench.study.attempts import attempts_of

    attempts = attempts_of(folder.path, run_id)
    if not attempts:
        raise UserError(f"{run_id} has not been launched yet")
    chosen = [each for each in attempts if number in (None, each.number)]
    if not chosen:
        raise UserError(f"{run_id} has no attempt {number}; it has {', '.join(str(each.number) for each in attempts)}")
    return chosen[-1]


def _logs(attempt: "Attempt", worker: int | None) -> Iterator[Path]:
    """Yield the log of the launcher and those of the processes in their order, or that of one."""
    from dlbench.records import files

    if worker is not None:
        names = [files.worker_log(worker)]
    else:
        logs = [path.name for path in attempt.folder.glob(files.worker_log("*"))]
        names = [files.LAUNCHER_LOG, *sorted(logs, key=lambda name: (len(name), name))]
    yield from (path for name in names if (path := attempt.folder / name).is_file())


class _Printer:
    """Prints files that grow, each piece below the name of its file, as `tail --follow` does.

    Args:
        most: How many last lines are printed of a file that is new; 0 for all.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ends: dict[Path, int] = {}
        self._decoders = defaultdict[Path, codecs.IncrementalDecoder](lambda: _DECODER("replace"))
        self._last: Path | None = None
        self._is_in_line = False

    @property
    def has_printed(self) -> bool:
        return bool(self._ends)

    def print(self, path: Path) -> None:
        """Print what a file has beyond what was printed of it."""
        is_new = path not in self._ends
        with path.open("rb") as file:
            file.seek(self._ends.get(path, 0))
            data = file.read()
            self._ends[path] = file.tell()
        if is_new:
            data = b"".join(data.splitlines(keepends=True)[-self._most :])
        # A letter whose last bytes are still to be written waits for them.
        text = self._decoders[path].decode(data)
        if not text and not is_new:
            return
        if path != self._last:
            self.end_line()
            click.echo(f"==> {path} <==")
            self._last = path
        # Without what would steer the terminal: a log is data.
        click.echo(printable(STEERING.sub("", text).replace("\r\n", "\n").replace("\r", "\n")), nl=False)
        self._is_in_line = bool(text) and not text.endswith("\n")

    def end_line(self) -> None:
        """End a line that its file has not ended."""
        if self._is_in_line:
            click.echo()
            self._is_in_line = False
