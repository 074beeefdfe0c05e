"""The cache's disk: locks between processes, errors that a user can fix."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from dlbench.errors import UserError
from dlbench.records.files import open_lock, write_holder

ELSEWHERE = "set DLBENCH_CACHE to a writable folder on a disk with room"

# Receives one line about the progress.
Say = Callable[[str], None]


@contextlib.contextmanager
def disk_errors(path: Path | str) -> Iterator[None]:
    """Turn the failure of a file operation in the cache into a `UserError`.

    Raises:
        UserError: The disk is full, the folder is read-only, or the like.
    """
    try:
        yield
    except OSError as error:
        what = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "cannot write"
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UserError(f"cache of data sets: {what}: {error.filename or path}: {reason}", hint=ELSEWHERE) from error


@contextlib.contextmanager
def locked(path: Path, purpose: str, say: Say) -> Iterator[None]:
    """Hold a POSIX record lock on a file, which is made; wait while another process holds it.

    Such a lock ends with the process that holds it, however that ends, and a child forked by a user's own function
    does not inherit it: nothing that a killed process leaves behind can block the next one.

    Args:
        path: The lock file; while locked it holds the process id.
        purpose: What the other process does, for the line that is passed to `say` before waiting.
        say: Receives that line.

    Raises:
        UserError: The file cannot be written.
    """
    with contextlib.ExitStack() as stack:
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = open_lock(path)
            stack.callback(os.close, descriptor)
            if not try_lock(descriptor):
                holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                say(f"waiting for process {holder if holder.isdecimal() else '?'}, which {purpose}")
                fcntl.lockf(descriptor, fcntl.LOCK_EX)
            write_holder(descriptor, str(os.getpid()))
        yield


def try_lock(descriptor: int) -> bool:
    """Lock an open file if no other process holds its lock; return whether it is locked now."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
