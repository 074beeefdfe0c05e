"""A user's own `package.module:function` as a data set."""

import hashlib
import inspect
import sys
from pathlib import Path
from typing import Any

from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError
from dlbench.plugins import Options, Plugin


def identity(plugin: Plugin, options: Options) -> dict[str, Any]:
    """Return the hash of the source file that holds the function, and the options.

    Files that the function reads and modules that it imports are not included: give such a function an option, such as
    a version, and change it when they change.

    Raises:
        UserError: The function has no source file, or cannot be called with its options.
    """
    _check_call(plugin, options)
    return {
        "function": plugin.name,
        "source": hashlib.sha256(_source_file(plugin).read_bytes()).hexdigest(),
        "options": options.model_dump(mode="json"),
    }


def prepare(plugin: Plugin, options: Options, writer: ArrayWriter) -> None:
    """Call the function and write what it returns.

    Raises:
        UserError: It does not return two or four arrays of matching lengths.
    """
    arrays = _returned(plugin.target(**options.model_dump()))
    writer.describe(source=f"{plugin.name} in {_source_file(plugin)}")
    writer.append(arrays[0], arrays[1])
    if len(arrays) == 4:
        writer.append(arrays[2], arrays[3], "validation")


def _returned(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list) or len(value) not in (2, 4):
        kind = f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__
        raise UserError(f"it returned {kind}", hint="return (x, y) or (x, y, validation_x, validation_y)")
    return tuple(value)


def _check_call(plugin: Plugin, options: Options) -> None:
    try:
        inspect.signature(plugin.target).bind(**options.model_dump())
    except (TypeError, ValueError) as error:
        raise UserError(
            f"data set {plugin.name!r} cannot be called: {error}",
            hint="its parameters must be keyword-only, after a `*`; each is then an option `dataset.<name>`",
        ) from error


def _source_file(plugin: Plugin) -> Path:
    function = inspect.unwrap(plugin.target)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        raise UserError(
            f"data set {plugin.name!r} has no source file that would identify its version",
            hint="name a function that is defined in a .py file",
        )
    return Path(file)
