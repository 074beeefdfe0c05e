"""One dlbench in one study at a time: a lock on the file `lock` that the kernel gives back, however its holder ends."""

import contextlib
import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from dlbench.errors import UserError
from dlbench.records import files


@contextlib.contextmanager
def locked(study: Path) -> Iterator[None]:
    """Hold the study's lock while the block runs.

    Raises:
        UserError: Another dlbench holds it, or the file system has no locks.
    """
    # Processes started while it is held do not inherit the descriptor (PEP 446), so none of them keeps the lock.
    try:
        descriptor = files.open_lock(study / files.LOCK)
    except OSError as error:
        if not study.is_dir() or error.errno in files.FULL:
            raise
        path, is_read_only = study / files.LOCK, error.errno in (errno.EROFS, errno.EACCES)
        hint = "copy it into a folder that can be written, and name the copy" * is_read_only
        raise UserError(f"{study} cannot be locked: {error.strerror}", hint=hint, where=str(path)) from error
    try:
        _acquire(descriptor, study)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname()[:64], "started_at": started_at}
        files.write_holder(descriptor, json.dumps(holder))
        yield
        files.write_holder(descriptor, "")
    finally:
        os.close(descriptor)


def is_held(study: Path) -> bool:
    """Return whether a dlbench is running in a study; where locks cannot be asked for, that it is not."""
    try:
        descriptor = os.open(study / files.LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


def _acquire(descriptor: int, study: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = "the holder is not recorded"
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            recorded = json.loads(os.pread(descriptor, 4096, 0))
            holder = f"process {recorded['pid']} on {recorded['host']}, since {recorded['started_at']}"
        raise UserError(
            f"another dlbench is running in {study}: {holder}",
            hint="wait for it, end it, or start another study without --resume and --study",
        ) from None
    except OSError as error:
        raise UserError(
            f"{study} cannot be locked: {error.strerror}",
            hint="put the study on a file system with locks, by --output",
        ) from error
