"""Only regular files are read and replaced: nothing waits for a pipe, and no device or link is replaced."""

import errno
import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; a link to one is followed.

    Raises:
        OSError: It cannot be opened, or is a folder, a pipe, a socket or a device.
    """
    # Without waiting: a pipe would until someone writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


# By the letter that `ls -l` shows.
_KINDS = {"d": "a folder", "p": "a pipe", "s": "a socket", "c": "a device", "b": "a device", "-": "a file"}


def require_kind(path: Path, kind: int = stat.S_IFREG) -> None:
    """Refuse to write where something of another kind lies; a link is not followed, links among its parents are.

    Args:
        path: What is to be written; it may be absent.
        kind: `stat.S_IFREG` or `stat.S_IFDIR`.

    Raises:
        OSError: Something else is there, or it cannot be examined.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_IFMT(mode) == kind:
        return
    what = f"a link to {path.readlink()}" if stat.S_ISLNK(mode) else _KINDS[stat.filemode(mode)[0]]
    allowed = "into folders and new ones" if kind == stat.S_IFDIR else "to regular files and new ones"
    raise FileExistsError(errno.EEXIST, f"it is {what}; dlbench writes only {allowed}", str(path))


def is_file(path: Path | str) -> bool:
    """Whether a word is the path of a file; one that cannot be examined, or is too long for a path, is not."""
    return os.path.isfile(path)  # noqa: PTH113 - `Path.is_file` fails for such a word


def read_regular(path: Path, most_bytes: int = -1) -> bytes:
    """Return what a file holds, of a longer one the first bytes.

    Raises:
        OSError: See `open_regular`.
    """
    with open_regular(path) as file:
        return file.read(most_bytes)


def read_json(path: Path) -> Any:
    """Return what a file of JSON says.

    Raises:
        OSError: See `open_regular`.
        ValueError: It is no JSON in UTF-8, or is nested too deep.
    """
    try:
        return json.loads(read_regular(path))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
