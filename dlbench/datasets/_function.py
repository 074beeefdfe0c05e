"""A user's own `package.module:function` as a data set."""

import hashlib
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlbench.datasets._writer import ArrayWriter
from dlbench.errors import UserError
from dlbench.plugins import Options, Plugin


@dataclass(frozen=True)
class FunctionDataset:
    """The functions of a data set file, made from one that returns arrays."""

    plugin: Plugin

    def identity(self, options: Options) -> dict[str, Any]:
        """Return the hash of the source file that holds the function, and the options.

        Files that the function reads and modules that it imports are not included: give such a function an option,
        such as a version, and change it when they change.

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
        }

    def prepare(self, options: Options, writer: ArrayWriter) -> None:
        """Call the function and write what it returns.

        Raises:
            UserError: It does not return two or four arrays of matching lengths.
        """
        arrays = self.plugin.target(**options.model_dump())
        if not isinstance(arrays, tuple | list) or len(arrays) not in (2, 4):
            returned = f"{len(arrays)} values" if isinstance(arrays, tuple | list) else type(arrays).__name__
            raise UserError(f"it returned {returned}", hint="return (x, y) or (x, y, validation_x, validation_y)")
        writer.describe(source=f"{self.plugin.name} in {self._source_file()}")
        writer.append(arrays[0], arrays[1])
        if len(arrays) == 4:
            writer.append(arrays[2], arrays[3], "validation")

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
