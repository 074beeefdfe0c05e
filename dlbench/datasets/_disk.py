"""The disk's own failures, said so that a user can mend them."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from dlbench.errors import UserError

ELSEWHERE = "set DLBENCH_CACHE to a folder on a disk with room that you may write to"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def disk_errors(path: Path | str) -> Iterator[None]:
    """Turn the failure of a file operation in the cache into a `UserError`.

    Raises:
        UserError: The disk is full, the folder is read-only, or the like.
    """
    try:
        yield
    except OSError as error:
        what = "the disk is full" if error.errno in FULL else "cannot write"
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UserError(f"cache of data sets: {what}: {error.filename or path}: {reason}", hint=ELSEWHERE) from error


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, text: str) -> None:
    """Write a text file and force it to disk."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
