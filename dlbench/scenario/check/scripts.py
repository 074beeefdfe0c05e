"""Warnings about scripts of a user's own: what dlbench cannot set in them, and what it would not be told."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlbench.scenario.placeholders import names
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Affects, settings_of

# What dlbench itself applies to a script: how many workers it starts, where.
_APPLIED = frozenset(settings_of(Affects.DISTRIBUTION, Affects.OBSERVATION)) | {"cores_per_worker", "command"}
HOOK = "dlbench"


def script_warnings(arms: Sequence[RunSpec]) -> list[str]:
    """Return the warnings about the Python scripts that arms run: that lack the hook, or do not read what varies."""
    commands: dict[str, list[RunSpec]] = {}
    for run in arms:
        if run.settings.command is not None:
            commands.setdefault(run.settings.command, []).append(run)
    found: list[str] = []
    for command, own in commands.items():
        path = _script(command)
        text = _text(path) if path else None
        if text is not None:
            found += _about(str(path), text, command, own)
    return list(dict.fromkeys(found))


def _about(path: str, text: str, command: str, arms: Sequence[RunSpec]) -> Iterable[str]:
    if HOOK not in text:
        yield f"{path} never mentions dlbench.worker: nothing of it would be recorded, and its runs would fail"
    for key in dict.fromkeys(key for run in arms for key in run.axes if key not in _APPLIED and "." not in key):
        values = {run.axes.get(key) for run in arms}
        if len(values) > 1 and key not in names(command) and key not in text:
            yield (
                f"`{key}` varies, and neither the command nor {path} mentions it: if the script does not read it, arms "
                "are not what they are called"
            )


def _script(command: str) -> Path | None:
    """Return the Python script of a command."""
    words = (word for word in shlex.split(command) if word.endswith(".py") and not names(word))
    return next((Path(word) for word in words), None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    except OSError:
        return None
