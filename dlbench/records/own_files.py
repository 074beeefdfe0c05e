"""Files of this user's own among a host's temporary ones: where what has no place in a study is kept for a while."""

import os
import tempfile
from pathlib import Path


def own_folder() -> Path:
    """Return a folder of this user alone for temporary files, made if it is not there.

    Raises:
        OSError: It cannot be made.
    """
    folder = Path(tempfile.gettempdir()) / f"dlbench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        # Another user made it first, in a folder that all may write to: take one with a name that cannot be guessed.
        return Path(tempfile.mkdtemp(prefix="dlbench-"))
    return folder


def own_log(attempt_id: str, name: str) -> Path | None:
    """Return the path of a worker's log on a host that has not the attempt's folder; None where there cannot be one."""
    try:
        return own_folder() / f"{attempt_id}-{name}"
    except OSError:
        return None
