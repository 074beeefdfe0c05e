"""A log per process: whatever it or a library prints, from C or from Python, lands in one file of its own."""

import os
import sys
import tempfile
from pathlib import Path

from dlbench.records.assignment import Assignment
from dlbench.records.files import worker_log


def own_folder() -> Path:
    """Return a folder of this user alone for temporary files, made if it is not there.

    Raises:
        OSError: It cannot be made.
    """
    folder = Path(tempfile.gettempdir()) / f"dlbench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        # Somebody else made it first, in a folder that all may write to: take one that nobody could foresee.
        return Path(tempfile.mkdtemp(prefix="dlbench-"))
    return folder


def log_folder(assignment: Assignment) -> Path:
    """Return the folder for this process's log: the attempt's, or one of this host where that is not shared."""
    folder = Path(assignment.log_folder)
    if assignment.log_folder and folder.is_dir():
        return folder
    return own_folder()


def redirect(assignment: Assignment, rank: int) -> Path:
    """Send this process's standard output and error to its log from here on, and return the log's path."""
    folder = log_folder(assignment)
    named = worker_log(rank)
    path = folder / (named if str(folder) == assignment.log_folder else f"{assignment.attempt_id}-{named}")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        # Python buffers what is no terminal; a process that is killed would lose the lines that say why.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return path
