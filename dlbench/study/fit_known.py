"""What is known of largest batches from other studies: one small file each in dlbench's cache.

A file's name is a hash of all that the number depends on: the recipe (model, data, precision, optimizer, ...), the
machine's hardware and versions, and the memory of one worker. A user's own function (`package.module:function`) may
change without a sign of it, so nothing is kept for runs that have one.
"""

import contextlib
import hashlib
import json
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError

from dlbench import plugins
from dlbench.datasets._cache import cache_root
from dlbench.records import files
from dlbench.records.largest import Largest
from dlbench.scenario.largest import recipe
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.values import PLUGIN_SETTINGS

FOLDER = "largest-batches"
_WHOSE = ("trainer", "model", "dataset")


def path_of(run: RunSpec, machine: str, memory_bytes: int, sharing: int) -> Path | None:
    """Return the file of a run's largest batch, or None where nothing is kept.

    Args:
        run: The run.
        machine: Fingerprint of hardware and versions.
        memory_bytes: Memory of one worker.
        sharing: Workers that the training samples are divided by.
    """
    if not all(_is_ours(PLUGIN_SETTINGS[key], getattr(run.settings, key)) for key in _WHOSE):
        return None
    content = json.dumps([recipe(run), machine, memory_bytes, sharing])
    return cache_root() / FOLDER / f"{hashlib.sha256(content.encode()).hexdigest()[:24]}.json"


def read(path: Path | None) -> Largest | None:
    """Return what is known, or None."""
    if path is None:
        return None
    try:
        return Largest.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def write(path: Path | None, found: Largest) -> None:
    """Keep what was found; a cache that cannot be written is no reason to lose it for this study."""
    if path is not None:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write_text(path, found.model_dump_json(indent=2) + "\n")


def _is_ours(kind: str, name: str) -> bool:
    target = plugins.load(kind, name).target
    module = target.__name__ if isinstance(target, ModuleType) else getattr(target, "__module__", "")
    return str(module).partition(".")[0] == "dlbench"
