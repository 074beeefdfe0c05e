"""Prepare every data set of a study, before any launch: here, and on every host that has not the same files.

Each is prepared in its own process. What hosts have prepared must have the same checksum everywhere.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from dlbench import plugins
from dlbench.errors import PREPARATION_REFUSED, UserError, joined
from dlbench.hosts.remote import argv, in_parallel, remote_hosts
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.run_spec import RunSpec
from dlbench.search_path import inherited, program

PROGRAM = program("dlbench.datasets._prepare")
POLL_S = 0.05
USAGE = 2
END_TIMEOUT_S = 5.0
# Lines of a failed preparation that are shown; the first of them is the cause where it is a user's mistake.
SHOWN_LINES = 15
_SUMMARY = re.compile(r'\{"folder"')


class NotPrepared(UserError):  # noqa: N818 - it says what it is
    """A data set could not be prepared; nothing was launched."""


class Stopped(Exception):  # noqa: N818 - it is a way to end, not a defect
    """The user ended the study while a data set was prepared."""


@dataclass(frozen=True)
class Prepared:
    """A data set on disk.

    Attributes:
        folder: What workers map.
        checksum: What its `meta.json` must say.
        doubt: Why scores on its validation samples are doubtful.
        elsewhere: The folder on each other host, by address.
    """

    folder: Path
    checksum: str
    doubt: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=dict)


Say = Callable[[str], None]


def recipe_of(run: RunSpec) -> str | None:
    """Return what identifies a run's data set, as JSON; None for a user's own script, which brings its data."""
    if run.settings.command is not None:
        return None
    return json.dumps({"dataset": run.settings.dataset, "options": run.options_of("dataset")}, sort_keys=True)


def prepare(
    runs: Iterable[RunSpec], say: Say, stop: threading.Event, cluster: Cluster | None = None
) -> dict[str, Prepared]:
    """Prepare the data sets of all runs; return them by recipe.

    Args:
        runs: The runs that will be launched.
        say: Takes lines about the progress.
        stop: Set when the user ends the study.
        cluster: The hosts that need them besides this machine; None: no other.

    Raises:
        UserError: One cannot be prepared, or is another on another host; says why.
        Stopped: `stop` was set.
    """
    prepared = {
        recipe: _prepared(recipe) or _prepare(recipe, [sys.executable, *_words(recipe)], say, stop)
        for recipe in _recipes(runs)
    }
    if cluster is None or not (others := remote_hosts(cluster)):
        return prepared
    return {recipe: _everywhere(recipe, here, cluster, others, say, stop) for recipe, here in prepared.items()}


def _prepared(recipe: str) -> Prepared | None:
    """Return a data set that is prepared already; None where only another process can tell."""
    from dlbench.datasets._prepare import PreparationRequest, prepared

    try:
        entry = prepared(PreparationRequest.model_validate_json(recipe))
    except (UserError, OSError, ImportError):  # the process that prepares it reports why
        return None
    return None if entry is None else Prepared(entry.folder, entry.meta.checksum, entry.meta.content.doubt)


def verify(runs: Iterable[RunSpec], say: Say) -> None:
    """Read the data sets of runs for `check` and `init`, and refuse what `run` would refuse.

    Each data set bounds how much of it is read (`verify` in its file). A function of the user's own is called and its
    data prepared, which `run` then finds.

    Args:
        runs: The runs.
        say: Takes a line on what was read of each.

    Raises:
        UserError: Data sets cannot be prepared; says why for each.
    """
    problems = []
    for recipe in _recipes(runs):
        options = json.loads(recipe)["options"]
        plugin = plugins.load("datasets", _dataset(recipe))
        try:
            if callable(plugin.target):
                _prepare(recipe, [sys.executable, *_words(recipe)], say, threading.Event())
            elif (function := plugin.get("verify")) and (seen := function(plugin.options(**options))):
                say(seen)
        except UserError as error:
            problems.append(error if callable(plugin.target) else _refused(_dataset(recipe), error))
    if problems:
        raise joined(problems)


def _recipes(runs: Iterable[RunSpec]) -> list[str]:
    return list(dict.fromkeys(recipe for run in runs if (recipe := recipe_of(run)) is not None))


def _refused(dataset: str, error: UserError) -> UserError:
    return UserError(f"data set {dataset!r} cannot be prepared: {error.message}", hint=error.hint)


def _words(recipe: str, **more: str) -> tuple[str, ...]:
    """Return what an interpreter is given to prepare a data set."""
    return (*PROGRAM, json.dumps({**json.loads(recipe), **more, "held": True}))


def _everywhere(
    recipe: str, here: Prepared, cluster: Cluster, others: Sequence[Host], say: Say, stop: threading.Event
) -> Prepared:
    """Prepare a data set on all other hosts at once; where they share this machine's files, it is there already.

    Raises:
        UserError: A host cannot prepare it, or prepares another; names all such hosts.
    """
    words = _words(recipe, cache=str(here.folder.parent))

    def one(host: Host) -> Prepared | UserError:
        command = argv(cluster, host, words, os.environ)
        try:
            prepared = _prepare(recipe, command, lambda line: say(f"{host.address}: {line}"), stop)
        except UserError as error:
            return error
        if prepared.checksum != here.checksum:
            return UserError(f"has another {_dataset(recipe)!r}: checksum {prepared.checksum}, here {here.checksum}")
        return prepared

    answers = dict(zip((host.address for host in others), in_parallel(one, others), strict=True))
    problems = [f"{address}: {answer}" for address, answer in answers.items() if isinstance(answer, UserError)]
    if problems:
        raise NotPrepared("\n  ".join(["hosts without the data:", *problems]))
    folders = {address: str(answer.folder) for address, answer in answers.items() if isinstance(answer, Prepared)}
    return replace(here, elsewhere=folders)


def _dataset(recipe: str) -> str:
    return str(json.loads(recipe)["dataset"])


def _prepare(recipe: str, command: Sequence[str], say: Say, stop: threading.Event) -> Prepared:
    """Prepare a data set in a process, here or on a host.

    Raises:
        UserError: It cannot be prepared.
        Stopped: `stop` was set.
    """
    # In another session: Ctrl-C reaches dlbench alone, which then ends it. On another host that ends ssh here and
    # nothing there, so the program heeds its stdin, which this process holds for as long as it wants the data.
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        # Nothing is multiplied there, and OpenBLAS ends a process in which its threads cannot be started.
        env={"OPENBLAS_NUM_THREADS": "1", **inherited(os.environ)},
        start_new_session=True,
    )
    with process, ThreadPoolExecutor(max_workers=2) as readers:
        assert process.stdout is not None
        assert process.stderr is not None
        answer = readers.submit(process.stdout.read)
        lines = readers.submit(_relay, process.stderr, say)
        try:
            while process.poll() is None:
                if stop.wait(POLL_S):
                    raise Stopped
        finally:
            process.terminate()  # one that has ended is left alone
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
    if process.returncode != 0:
        raise _failure(_dataset(recipe), process.returncode, lines.result())
    summary = _summary(answer.result())
    return Prepared(Path(summary["folder"]), summary["checksum"], summary["doubt"])


def _summary(printed: str) -> dict[str, Any]:
    """Return the summary that was printed; a shell on another host may print more around it, in its line, too.

    Raises:
        NotPrepared: There is none.
    """
    for match in reversed([*_SUMMARY.finditer(printed)]):
        with contextlib.suppress(ValueError):
            content: dict[str, Any] = json.JSONDecoder().raw_decode(printed, match.start())[0]
            if content.keys() >= {"folder", "checksum", "doubt"}:
                return content
    raise NotPrepared("a data set was prepared, but its folder was not reported")


def _relay(stream: IO[str], say: Say) -> list[str]:
    """Pass progress on as it comes; return its last lines, or those of the error where there is one."""
    lines: list[str] = []
    for text in stream:
        line = text.rstrip()
        if line == PREPARATION_REFUSED:
            # What follows is the error, which is reported once, by whoever catches it.
            return [line for text in stream if (line := text.rstrip())]
        if line:
            say(line)
            lines = [*lines, line][-SHOWN_LINES:]
    return lines


def _failure(dataset: str, code: int, lines: list[str]) -> UserError:
    """Return the error of a failed preparation; exit code 2 is a mistake that the user can fix."""
    if code == USAGE:
        return _refused(dataset, UserError("\n".join(lines).removeprefix(f"data set {dataset!r}: ")))
    ended = f"on signal {-code}" if code < 0 else f"with exit code {code}"
    output = "\n  ".join(lines) or "it said nothing"
    return NotPrepared(f"data set {dataset!r} could not be prepared (ended {ended}):\n  {output}")
