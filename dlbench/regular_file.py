"""Files that a user names or another has written: regular ones alone, so that nothing waits for a pipe."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import IO, Any


def open_regular(path: Path) -> IO[bytes]:
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


def read_regular(path: Path, most_bytes: int = -1) -> bytes:
    """Return what a file holds, of a longer one so many bytes.

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
