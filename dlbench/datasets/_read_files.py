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

State = tuple[int, int]
# Where an entry keeps them among its notes.
FILES_READ = "files_read"


@contextmanager
def read_files() -> Iterator[dict[str, State]]:
    """Collect files that are opened for reading, modules and listed folders: size and time of change by path.

    What is installed is left out, and so is what is gone at the end, such as a temporary file.
    """
    states: dict[str, State] = {}
    is_recording = True
    installed = _installed_folders()

    def record(path: Any) -> None:
        text = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  # called for each file
        if not text.startswith(installed) and not text.endswith(".pyc") and (state := _state(text)):
            states[text] = state

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not is_recording or event not in ("open", "os.listdir", "os.scandir", "sqlite3.connect"):
            return
        is_read = event != "open" or arguments[2] & os.O_ACCMODE == os.O_RDONLY
        if is_read and isinstance(arguments[0], str | bytes):
            record(arguments[0])

    def record_modules() -> None:
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str) and os.path.abspath(file) not in states:  # noqa: PTH100
                record(file)

    record_modules()
    sys.addaudithook(hook)  # cannot be removed
    try:
        yield states
    finally:
        is_recording = False
    record_modules()
    # Folders are also listed by imports, and dlbench writes its studies into the working folder.
    for path in [path for path in states if path in sys.path_importer_cache or not os.path.exists(path)]:  # noqa: PTH110
        del states[path]


def changed_file(states: Mapping[str, Any]) -> str | None:
    """Return a file that has changed since `read_files`, or is gone; None where there is none."""
    return next((path for path, state in states.items() if _state(path) != tuple(state)), None)


def _state(path: str) -> State | None:
    try:
        status = os.stat(path)  # noqa: PTH116  # of surrogates, too
    except (OSError, ValueError):
        return None
    is_kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_size, status.st_mtime_ns) if is_kept else None


def _installed_folders() -> tuple[str, ...]:
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *site_folders()}
    folders |= {str(Path(dlbench.__file__).parent), "/proc", "/sys", "/dev"}
    return tuple(f"{folder}/" for folder in folders)
