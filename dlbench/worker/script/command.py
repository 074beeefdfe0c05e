"""The user's own training script in place of dlbench's worker: its words, its settings, its environment."""

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from dlbench.errors import UserError, nearest
from dlbench.scenario.placeholders import fill
from dlbench.scenario.run_spec import RunSpec

# For scripts that read no argument: the settings as JSON, and how their cores are enforced.
SETTINGS_VARIABLE = "DLBENCH_SETTINGS"
CORES_VARIABLE = "DLBENCH_CORES_ENFORCED"


def values(run: RunSpec) -> dict[str, Any]:
    """Return what a command may name: settings, plugin options by dotted name; `seed` is this repeat's."""
    return {**run.settings.model_dump(mode="json"), **run.options, "seed": run.seed}


def arguments(command: str, known: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words of a command with its placeholders filled in; a value stays within its word.

    Raises:
        UserError: The command cannot be split into words, is empty, or names an unknown setting.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"command: {command!r} cannot be split into words: {error}") from error
    if not words:
        raise UserError("command: it is empty")
    return tuple(fill(word, lambda name: _value(name, known)) for word in words)


def execute(run: RunSpec, cores_enforced: str) -> NoReturn:
    """Become the user's script: same process, same log, same cores.

    Raises:
        UserError: It cannot be started.
    """
    settings = values(run)
    words = arguments(run.settings.command or "", settings)
    # `python` means the one that dlbench runs in, whether or not its environment is activated.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    os.environ[SETTINGS_VARIABLE] = json.dumps(settings)
    os.environ[CORES_VARIABLE] = cores_enforced
    sys.stdout.flush()
    try:
        os.execvp(words[0], words)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise UserError(
            f"command: cannot start {words[0]!r}: {error.strerror}", hint="is it installed on this host?"
        ) from error


def _value(name: str, known: Mapping[str, Any]) -> str:
    if name not in known:
        raise UserError(
            f"command: there is no setting {{{name}}}",
            hint=nearest(name, known) or "double the braces where they are meant as such",
        )
    value = known[name]
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
