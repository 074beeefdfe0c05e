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


def redirect(assignment: Assignment, rank: int) -> Path | None:
    """Send this process's standard output and error to its log from here on, and return the log's path.

    The log lies in the attempt's folder, or among this host's temporary files where that folder is not shared; where
    neither can be written, which a full disk may do, output goes where the launcher sends it, and None is returned.
    """
    name = worker_log(rank)
    for path in (Path(assignment.log_folder) / name, own_file(f"{assignment.attempt_id}-{name}")):
        if path is not None and path.is_absolute() and path.parent.is_dir() and _try_redirect(path):
            return path
    return None


def own_file(name: str) -> Path | None:
    """Return the path of a file among this user's own temporary ones, or None where there cannot be one."""
    try:
        return own_folder() / name
    except OSError:
        return None


def _try_redirect(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError:
        return False
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        # Python buffers what is no terminal; a process that is killed would lose the lines that say why.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return True
