"""A log per process: whatever it or a library prints, from C or from Python, lands in one file of its own."""

import os
import sys
from pathlib import Path

from dlbench.records.assignment import Assignment
from dlbench.records.files import own_log, worker_log


def redirect(assignment: Assignment, rank: int) -> Path | None:
    """Send this process's standard output and error to its log from here on, and return the log's path.

    The log lies in the attempt's folder, or among this host's temporary files where that folder is not shared; where
    neither can be written, which a full disk may do, output goes where the launcher sends it, and None is returned.
    """
    name = worker_log(rank)
    for path in (Path(assignment.log_folder) / name, own_log(assignment.attempt_id, name)):
        if path is not None and path.is_absolute() and path.parent.is_dir() and _try_redirect(path):
            return path
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
