"""The user's own files that runs are made from: they must be the same on every host."""

import importlib.util
import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from dlbench import plugins
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import PLUGIN_SETTINGS


def user_files(runs: Iterable[RunSpec]) -> tuple[str, ...]:
    """Return the files of modules that runs name as `module:function`, and those that their commands name.

    Files below the folder dlbench was called in are named as from there.
    """
    settings = [run.settings for run in runs]
    values = {(kind, str(getattr(found, key))) for found in settings for key, kind in PLUGIN_SETTINGS.items()}
    # Some of dlbench's own have a colon in their name: `keras:mnist`.
    modules = {value.partition(":")[0] for kind, value in values if ":" in value and value not in plugins.names(kind)}
    commands = {found.command for found in settings if found.command is not None}
    paths = [
        *filter(None, map(_file_of, sorted(modules))),
        *(path for text in sorted(commands) for path in _words(text)),
    ]
    return tuple(dict.fromkeys(map(_as_from_here, paths)))


def _file_of(module: str) -> str:
    """Return the file of a module that can be imported from here; an empty string where it has none."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return ""
    return spec.origin if spec is not None and spec.origin and Path(spec.origin).is_file() else ""


def _words(command: str) -> Iterator[str]:
    """Yield the words of a command that are files here; programs that are found on PATH are not."""
    try:
        words = shlex.split(command)
    except ValueError:
        return
    yield from (word for word in words if Path(word).is_file())


def _as_from_here(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
