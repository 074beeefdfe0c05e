"""Which files a user's function reads: its data is prepared again where one of them has changed.

What Python opens or lists is seen. What a library opens in C (HDF5, TensorFlow), another process or the network is not.
"""

import hashlib
import os
import stat
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import dlbench
from dlbench.datasets._format import fingerprint
from dlbench.search_path import site_folders

# Size and time of change in nanoseconds; of a module its size and hash, of a folder those of the names in it.
State = tuple[int, int | str]
# Where an entry keeps them among its notes, by path.
FILES_READ = "files_read"
_LISTINGS = ("os.listdir", "os.scandir")
_EVENTS = ("open", "os.rename", "sqlite3.connect", *_LISTINGS)


class FileRecorder:
    """Keeps the state of files that are opened for reading, of modules and of listed folders, each when it is opened.

    A context manager that may be entered again. What is installed is left out, and what this process has written.
    """

    def __init__(self) -> None:
        folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *site_folders()}
        folders |= {str(Path(dlbench.__file__).parent), "/proc", "/sys", "/dev"}
        self._installed = tuple(f"{folder}/" for folder in folders)
        self._written: set[str] = set()
        self._states: dict[str, State] = {}

    def __enter__(self) -> Self:
        self._record_modules()
        _install_hook()
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _entered.remove(self)
        self._record_modules()

    def states(self) -> dict[str, State]:
        """Return the states by path, without what is gone, such as a temporary file."""
        return {
            # JSON holds text alone: what has another name never compares as equal.
            path.encode("utf-8", "backslashreplace").decode(): state
            for path, state in self._states.items()
            # dlbench writes its studies into the working folder.
            if path != os.getcwd() and os.path.exists(path)  # noqa: PTH109, PTH110
        }

    def saw(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take what an event of Python's says of a file."""
        try:
            path = os.fsdecode(arguments[event == "os.rename"])
            if event == "sqlite3.connect" and path.startswith("file:"):
                path = unquote(urlsplit(path).path)
        except (TypeError, ValueError):  # a file that is open already, no address
            return
        path = os.path.abspath(path)  # noqa: PTH100
        if event == "os.rename" or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_CREAT)):
            self._written.add(path)
            self._states.pop(path, None)
        elif path not in self._written:
            self._record(path)

    def _record_modules(self) -> None:
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or file.startswith(self._installed):
                continue
            if os.path.abspath(file) not in self._states:  # noqa: PTH100
                self._record(os.path.abspath(file))  # noqa: PTH100

    def _record(self, path: str) -> None:
        if not path.startswith(self._installed) and not path.endswith(".pyc") and (state := _state(path)):
            self._states[path] = state


_entered: list[FileRecorder] = []


@cache
def _install_hook() -> None:
    """Have Python tell those that are entered of files; a hook cannot be removed, and each slows all that follows."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _entered or event not in _EVENTS:
        return
    caller = sys._getframe(1).f_code.co_filename
    if caller != __file__ and not (event in _LISTINGS and caller.startswith("<frozen importlib")):
        for recorder in _entered:
            recorder.saw(event, arguments)


def changed_file(states: Mapping[str, Any]) -> str | None:
    """Return a file that has changed since it was recorded, or is gone; None where there is none."""
    return next((path for path, state in states.items() if _state(path) != tuple(state)), None)


def _state(path: str) -> State | None:
    try:
        status = os.stat(path)  # noqa: PTH116
        if stat.S_ISDIR(status.st_mode):
            names = sorted(os.listdir(path))  # noqa: PTH208
            return len(names), fingerprint(names)
        if stat.S_ISREG(status.st_mode) and path.endswith(".py"):
            with open(path, "rb") as file:  # noqa: PTH123
                return status.st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None
