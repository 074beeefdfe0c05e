"""Where Python looks for modules: among what is installed, and in the working folder only for what the user named.

`python -m` and `python -c` put the working folder first: a `json.py` that lies there would run as the user, in every
command and on every host. `-P` leaves it out. An empty or relative entry of `PYTHONPATH` puts it back, so interpreters
are started without such entries.
"""

import contextlib
import importlib
import importlib.util
import os
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PATH_VARIABLE = "PYTHONPATH"
# Does for processes that a library starts what `-P` does for others.
_SAFE_VARIABLE = "PYTHONSAFEPATH"
# A line for POSIX shells that does what `inherited` does.
SHELL_LINE = (
    'PYTHONPATH=$(IFS=: kept=; set -f; for entry in ${PYTHONPATH-}; do case $entry in (/*) printf %s "$kept$entry"; '
    "kept=:;; esac; done)"
)
# Code that `exec` runs without a name imports for whoever runs it.
_IMPORT_SYSTEM = frozenset({"importlib", "_frozen_importlib", "_frozen_importlib_external", "runpy", ""})


def program(module: str) -> tuple[str, ...]:
    """Return the words that make an interpreter run a module, with none of the working folder in its place."""
    return ("-P", "-m", module)


def relative_entries(environment: Mapping[str, str]) -> list[str]:
    """Return the entries of `PYTHONPATH` that depend on the working folder; an empty one is that folder."""
    text = environment.get(PATH_VARIABLE)
    return [entry for entry in text.split(os.pathsep) if not entry.startswith("/")] if text else []


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that dlbench starts: `PYTHONPATH` without its relative entries."""
    if not relative_entries(environment):
        return dict(environment)
    kept = [entry for entry in environment[PATH_VARIABLE].split(os.pathsep) if entry.startswith("/")]
    return {**environment, PATH_VARIABLE: os.pathsep.join(kept)}


def site_folders() -> tuple[str, ...]:
    """Return the folders into which packages are installed: those of the environment, and the user's own if in use."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return (*site.getsitepackages(), *user)


@contextlib.contextmanager
def libraries_alone() -> Iterator[None]:
    """Leave the working folder out of the path of interpreters that a library starts."""
    before = {name: os.environ[name] for name in (PATH_VARIABLE, _SAFE_VARIABLE) if name in os.environ}
    os.environ.update(inherited(before) | {_SAFE_VARIABLE: "1"})
    try:
        yield
    finally:
        for name in (PATH_VARIABLE, _SAFE_VARIABLE):
            os.environ.pop(name, None)
        os.environ.update(before)


def import_named(name: str) -> ModuleType:
    """Import a module that the user named: an installed one, else one of the working folder.

    Such a module, and what it imports from beside it, may import further modules of that folder, then and later. No
    other module gets any from there.

    Raises:
        ImportError: There is no such module.
        Exception: Whatever the module raises.
    """
    find_named(name.partition(".")[0])
    return importlib.import_module(name)


def find_named(name: str) -> ModuleSpec | None:
    """Return where a module that the user named is; imports the packages around it, and not the module.

    Raises:
        ImportError: There is no package of the name before the last dot.
        ValueError: It is no name of a module.
    """
    finder = next((last for last in sys.meta_path if isinstance(last, _WorkingFolderFinder)), None)
    if finder is None:
        finder = _WorkingFolderFinder()
        sys.meta_path.append(finder)
    package = name.partition(".")[0]
    finder.admit(package, importlib.util.find_spec(package))
    return importlib.util.find_spec(name)


class _WorkingFolderFinder:
    """Finds a module of the working folder for this file, and for modules that were found or admitted before.

    It is the last finder: whatever is installed comes first. A library that tries an optional import, such as
    `brotli`, gets nothing from the folder.
    """

    def __init__(self) -> None:
        # By the first part of a module's name: the folder from which it may import.
        self._folders: dict[str, str] = {}

    def admit(self, package: str, spec: ModuleSpec | None) -> None:
        """Let a package import from the working folder if its own file lies there and is not installed there."""
        folder = _working_folder()
        if folder and spec is not None and spec.origin is not None and package not in self._folders:
            path = Path(spec.origin)
            if path.is_relative_to(folder) and not any(map(path.is_relative_to, site_folders())):
                self._folders[package] = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a module without a package of the working folder, as the import system asks for it."""
        if path is not None:  # within a package, whose folder is known
            return None
        importer = _importer()
        folder = _working_folder() if importer == __name__ else self._folders.get(importer.partition(".")[0])
        spec = PathFinder.find_spec(fullname, [folder]) if folder else None
        if spec is not None and folder:
            self._folders[fullname] = folder
        return spec


def _working_folder() -> str:
    """Return the working folder; empty if it is gone."""
    with contextlib.suppress(OSError):
        return str(Path.cwd())
    return ""


def _importer() -> str:
    """Return the name of the module whose code imports now."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _module_of(frame.f_globals).partition(".")[0] in _IMPORT_SYSTEM:
        # The code of a compiled module has no frame; this one runs it.
        if frame.f_code.co_name in ("create_module", "exec_module"):
            loading = frame.f_locals
            return str(loading["spec"].name if "spec" in loading else loading["module"].__name__)
        frame = frame.f_back
    return _module_of(frame.f_globals)


def _module_of(variables: Mapping[str, object]) -> str:
    return str(variables.get("__name__") or "")
