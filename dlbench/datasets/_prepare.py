"""Prepares one data set: `python -m dlbench.datasets._prepare '{"dataset": ..., "options": {...}, "cache": ...}'`.

A separate process, so that dlbench itself never holds a data set or a decoder in memory. It prints one line of JSON
(`folder`, `checksum`); progress goes to stderr. `cache` is the default cache where it is missing or null. With
`"held": true` it ends when its stdin is closed, that is when the process that asked for the data has ended, on whatever
host that was. Exit codes: 0, 2 for what a user can fix (reported on stderr after the line `PREPARATION_REFUSED`), 1 for
anything else, 130 when interrupted, 143 when terminated or no longer held.
"""

import hashlib
import inspect
import itertools
import json
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from dlbench import plugins
from dlbench.datasets._cache import Entry, Recipe, cache_root, ensure, lookup
from dlbench.datasets._disk import Say
from dlbench.datasets._read_files import FILES_READ, FileRecorder
from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import PREPARATION_REFUSED, UserError, lacking
from dlbench.scenario.frozen import Frozen

# How long a library may take to return to Python once stdin is closed.
END_TIMEOUT_S = 5.0


class PreparationRequest(Frozen):
    """Which data set to prepare, and where."""

    dataset: str
    options: dict[str, Any] = Field(default_factory=dict)
    cache: str | None = None
    held: bool = False


@dataclass(frozen=True)
class FunctionDataset:
    """The functions of a data set file, made from a user's own `package.module:function` that returns arrays.

    Attributes:
        plugin: The function.
        recorder: What has recorded the files that its module read when it was imported.
    """

    plugin: plugins.Plugin
    recorder: FileRecorder

    def identity(self, options: plugins.Options) -> dict[str, Any]:
        """Return the hash of the source file that holds the function, the options and the working folder.

        Files that the function reads and modules that it imports are compared when the entry is used again; see
        `_read_files.py`.

        Raises:
            UserError: The function has no source file, or cannot be called with its options.
        """
        try:
            inspect.signature(self.plugin.target).bind(**options.model_dump())
        except (TypeError, ValueError) as error:
            raise UserError(
                f"data set {self.plugin.name!r} cannot be called: {error}",
                hint="its parameters must be keyword-only, after a `*`; each is then an option `dataset.<name>`",
            ) from error
        return {
            "function": self.plugin.name,
            "source": hashlib.sha256(self._source_file().read_bytes()).hexdigest(),
            "options": options.model_dump(mode="json"),
            "folder": str(Path.cwd()),
        }

    def prepare(self, options: plugins.Options, writer: ArrayWriter) -> None:
        """Call the function and write what it returns.

        Raises:
            UserError: It does not return two or four arrays of matching lengths.
        """
        with self.recorder:
            arrays = self.plugin.target(**options.model_dump())
        is_sequence = isinstance(arrays, tuple | list)
        are_pairs = is_sequence and all(map(_is_pair, arrays))
        if are_pairs and len(arrays) <= 2:
            arrays = list(itertools.chain(*arrays))  # (x, y), (validation_x, validation_y), as Keras's data sets
        elif are_pairs or not is_sequence or len(arrays) not in (2, 4):
            noun = "pairs" if are_pairs else "values"
            returned = f"{len(arrays)} {noun}" if is_sequence else type(arrays).__name__
            raise UserError(f"it returned {returned}", hint="return (x, y), or (x, y), (validation_x, validation_y)")
        writer.describe(
            source=f"{self.plugin.name} in {self._source_file()}",
            notes={FILES_READ: self.recorder.states()},
            has_validation=len(arrays) == 4,
        )
        writer.append(arrays[0], arrays[1])
        if len(arrays) == 4:
            writer.append(arrays[2], arrays[3], "validation")
        if writer.largest_byte > 1:
            writer.add_remark(f"bytes of 0 to {writer.largest_byte} are not scaled")

    def _source_file(self) -> Path:
        function = inspect.unwrap(self.plugin.target)
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        file = getattr(module, "__file__", None)
        if file is None or not Path(file).is_file():
            raise UserError(
                f"data set {self.plugin.name!r} has no source file that would identify its version",
                hint="name a function that is defined in a .py file",
            )
        return Path(file)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and all(hasattr(array, "__len__") for array in value)


def prepare(request: PreparationRequest, say: Say) -> Entry:
    """Prepare a data set, or find it prepared.

    Raises:
        UserError: The data set, its options, its source or the cache's disk has a fault that the user can fix.
    """
    with FileRecorder() as recorder:
        plugin = plugins.load("datasets", request.dataset)
    return ensure(_recipe(plugin, request, recorder), _cache(request), lambda line: say(f"{plugin.name}: {line}"))


def prepared(request: PreparationRequest) -> Entry | None:
    """Return a data set that is prepared already; None where that takes reading a user's files, or running code."""
    plugin = plugins.load("datasets", request.dataset)
    if not plugin.get("identity") or "path" in plugin.options.model_fields:
        return None
    return lookup(_recipe(plugin, request, FileRecorder()), _cache(request))


def _cache(request: PreparationRequest) -> Path:
    return Path(request.cache).expanduser().absolute() if request.cache else cache_root()


def _recipe(plugin: plugins.Plugin, request: PreparationRequest, recorder: FileRecorder) -> Recipe:
    try:
        options = plugin.options.model_validate(request.options)
    except ValidationError as error:
        lines = [f"dataset.{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}" for mistake in error.errors()]
        raise UserError(
            f"data set {plugin.name!r}: " + "; ".join(lines),
            hint="`dlbench list datasets` shows the options of each",
        ) from error
    source = plugin.target if plugin.get("prepare") and plugin.get("identity") else FunctionDataset(plugin, recorder)
    identity, fill = partial(source.identity, options), partial(source.prepare, options)
    return Recipe(plugin.name, options.model_dump(mode="json"), identity, fill)


def _read_request(arguments: list[str]) -> PreparationRequest:
    if len(arguments) != 1:
        raise UserError("give one argument: a JSON object with dataset, options, cache")
    try:
        return PreparationRequest.model_validate_json(arguments[0])
    except ValidationError as error:
        raise UserError(f"the request is not understood: {error.errors()[0]['msg']}") from error


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _end_with_stdin() -> None:
    """End this process when its stdin is closed, by SIGTERM, so that nothing half-written is left."""
    held = os.dup(sys.stdin.fileno())
    # A user's function that reads its stdin finds it empty.
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())

    def wait() -> None:
        while os.read(held, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(END_TIMEOUT_S)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=wait, name="dlbench-held", daemon=True).start()


def main(arguments: list[str]) -> int:
    """Prepare what the arguments ask for, print the summary and return the exit code."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # A user's function, or a library, may print: stdout has the one line alone.
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        request = _read_request(arguments)
        if request.held:
            _end_with_stdin()
        entry = prepare(request, _say)
        with answer:
            summary = {"checksum": entry.meta.checksum, "doubt": entry.meta.content.doubt}
            answer.write(json.dumps({"folder": str(entry.folder)} | summary) + "\n")
    except UserError as error:
        _say(f"{PREPARATION_REFUSED}\n{error}")
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  # any error becomes an exit code and a traceback
        if what := lacking(error):
            _say(f"{PREPARATION_REFUSED}\n{what}")
            return 2
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
