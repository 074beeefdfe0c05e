"""Which files a user's function reads: its data is prepared again where one of them has changed.

What Python opens or lists is seen. What a library opens in C (HDF5, TensorFlow), another process or the network is not.
"""

import os
import stat
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dlbench
from dlbench.search_path import site_folders

# Size and time of change, in nanoseconds.
State = tuple[int, int]
# Where an entry keeps them among its notes, by path.
FILES_READ = "files_read"


@contextmanager
def read_files() -> Iterator[dict[str, State]]:
    """Collect files that are opened for reading, modules and listed folders, with their states.

    What is installed is left out, and so is what is gone at the end, such as a temporary file.
    """
    recorder = _Recorder()
    recorder.record_modules()
    sys.addaudithook(recorder.hook)  # cannot be removed
    states: dict[str, State] = {}
    try:
        yield states
    finally:
        recorder.is_on = False
    recorder.record_modules()
    for path, state in recorder.states.items():
        # Folders are also listed by imports, and dlbench writes its studies into the working folder.
        if path not in sys.path_importer_cache and os.path.exists(path):  # noqa: PTH110
            # JSON holds text alone: what has another name never compares as equal.
            states[path.encode("utf-8", "backslashreplace").decode()] = state


def changed_file(states: Mapping[str, Any]) -> str | None:
    """Return a file that has changed since `read_files`, or is gone; None where there is none."""
    return next((path for path, state in states.items() if _state(path) != tuple(state)), None)


class _Recorder:
    """Keeps the state of each file as it was when it was last opened."""

    def __init__(self) -> None:
        folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *site_folders()}
        folders |= {str(Path(dlbench.__file__).parent), "/proc", "/sys", "/dev"}
        self._installed = tuple(f"{folder}/" for folder in folders)
        self.is_on = True
        self.states: dict[str, State] = {}

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on or event not in ("open", "os.listdir", "os.scandir", "sqlite3.connect"):
            return
        is_read = event != "open" or not arguments[2] & (os.O_WRONLY | os.O_CREAT)
        if is_read and isinstance(arguments[0], str | bytes):
            self._record(os.path.abspath(os.fsdecode(arguments[0])))  # noqa: PTH100

    def record_modules(self) -> None:
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and os.path.abspath(file) not in self.states:  # noqa: PTH100
                self._record(os.path.abspath(file))  # noqa: PTH100

    def _record(self, path: str) -> None:
        if not path.startswith(self._installed) and not path.endswith(".pyc") and (state := _state(path)):
            self.states[path] = state


def _state(path: str) -> State | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    is_kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_size, status.st_mtime_ns) if is_kept else None
