"""Prepare every data set of a study once, before any launch, in a process of its own."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dlbench.errors import UserError
from dlbench.records.messages import PREPARATION_REFUSED
from dlbench.scenario.run_spec import RunSpec

PROGRAM = ("-m", "dlbench.datasets._prepare")
POLL_S = 0.05
USAGE = 2
END_TIMEOUT_S = 5.0
# Lines of a failed preparation that are shown; the first of them is the cause where it is a user's mistake.
SHOWN_LINES = 15


class NotPrepared(UserError):  # noqa: N818 - it says what it is
    """A data set could not be prepared; nothing was launched."""


class Stopped(Exception):  # noqa: N818 - it is a way to end, not a defect
    """The user ended the study while a data set was prepared."""


@dataclass(frozen=True)
class Prepared:
    """A data set on disk: the folder that workers map, and what its `meta.json` must say."""

    folder: Path
    checksum: str


Say = Callable[[str], None]


def recipe_of(run: RunSpec) -> str | None:
    """Return what identifies a run's data set, as JSON; None for a user's own script, which brings its data."""
    if run.settings.command is not None:
        return None
    return json.dumps({"dataset": run.settings.dataset, "options": run.options_of("dataset")}, sort_keys=True)


def prepare(runs: Iterable[RunSpec], say: Say, stop: threading.Event) -> dict[str, Prepared]:
    """Prepare the data sets of all runs; return them by recipe.

    Args:
        runs: The runs that will be launched.
        say: Takes lines about the progress.
        stop: Set when the user ends the study.

    Raises:
        UserError: One cannot be prepared; says why.
        Stopped: `stop` was set.
    """
    recipes = dict.fromkeys(recipe for run in runs if (recipe := recipe_of(run)) is not None)
    return {recipe: _prepare(json.loads(recipe), say, stop) for recipe in recipes}


def _prepare(recipe: dict[str, Any], say: Say, stop: threading.Event) -> Prepared:
    # A session of its own: Ctrl-C reaches dlbench alone, which then ends it.
    process = subprocess.Popen(
        [sys.executable, *PROGRAM, json.dumps(recipe)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    with process, ThreadPoolExecutor(max_workers=2) as readers:
        assert process.stdout is not None
        assert process.stderr is not None
        answer = readers.submit(process.stdout.read)
        lines = readers.submit(_relay, process.stderr, say)
        try:
            _wait(process, stop)
        finally:
            _end(process)
    if process.returncode != 0:
        raise _failure(recipe["dataset"], process.returncode, lines.result())
    found = json.loads(answer.result().strip().splitlines()[-1])
    return Prepared(Path(found["folder"]), found["checksum"])


def _wait(process: subprocess.Popen[str], stop: threading.Event) -> None:
    while process.poll() is None:
        if stop.wait(POLL_S):
            raise Stopped


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _relay(stream: IO[str], say: Say) -> list[str]:
    """Pass progress on as it comes; return its last lines, or those of the error where there is one."""
    lines: list[str] = []
    for text in stream:
        line = text.rstrip()
        if line == PREPARATION_REFUSED:
            # What follows is the error, which is told once, by whoever catches it.
            return [line for text in stream if (line := text.rstrip())]
        if line:
            say(line)
            lines = [*lines, line][-SHOWN_LINES:]
    return lines


def _failure(dataset: str, code: int, lines: list[str]) -> UserError:
    """Return the error of a failed preparation; exit code 2 is a mistake that the user can mend."""
    if code == USAGE:
        return UserError(f"data set {dataset!r} cannot be prepared: " + "\n".join(lines))
    ended = f"on signal {-code}" if code < 0 else f"with exit code {code}"
    said = "\n  ".join(lines) or "it said nothing"
    return NotPrepared(f"data set {dataset!r} could not be prepared (ended {ended}):\n  {said}")
