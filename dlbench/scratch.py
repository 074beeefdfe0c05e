"""Folders for what processes leave in temporary files and in shared memory, removed once no process holds them.

Launchers and libraries tidy up after themselves, unless they are killed: then session folders, segments of shared
memory and generated code stay behind. So launchers and workers get folders of their own for these. Each is locked while
it is in use, however its user ends; whoever comes next removes those that are not locked any more.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from dlbench.records.files import own_folder

_PREFIX = "scratch-"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108
# Segments of MPICH.
_MPICH = "mpich_shm_*"
# Where everything puts temporary files, and where Open MPI puts the segments that the processes of a host share: each
# tells the others where its own is.
_TEMPORARY, _SEGMENTS = "TMPDIR", "OMPI_MCA_btl_sm_backing_directory"


def use(environment: MutableMapping[str, str], *, temporary: bool) -> list[int]:
    """Set the variables that lead to separate folders; where there can be none they stay as they are.

    Args:
        environment: Where the variables are set.
        temporary: Whether temporary files go there too, and not shared memory alone.

    Returns:
        Descriptors that lock the folders; they stay open across `exec`.
    """
    places = {_SEGMENTS: _SHARED_MEMORY} | ({_TEMPORARY: Path(tempfile.gettempdir())} if temporary else {})
    held = []
    for variable, place in places.items():
        with contextlib.suppress(OSError):
            path, descriptor = _claim(place)
            environment[variable] = str(path)
            held.append(descriptor)
    return held


def sweep() -> None:
    """Remove the folders that no process uses any more, and segments of MPICH, which puts them elsewhere."""
    for place in (Path(tempfile.gettempdir()), _SHARED_MEMORY):
        with contextlib.suppress(OSError):
            for path in own_folder(place).glob(f"{_PREFIX}*"):
                _remove_unlocked(path)
    with contextlib.suppress(OSError):
        segments = [path for path in _SHARED_MEMORY.glob(_MPICH) if path.lstat().st_uid == os.getuid()]
        mapped = _maps() if segments else ""
        for path in segments:
            if str(path) not in mapped:
                path.unlink()


def _claim(place: Path) -> tuple[Path, int]:
    """Make a folder and return it with the descriptor that locks it."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=own_folder(place)))
        with contextlib.suppress(FileNotFoundError):  # another process swept before the lock was there
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                os.set_inheritable(descriptor, True)
                return path, descriptor
            os.close(descriptor)


def _maps() -> str:
    """Return what the processes of this user map; one that this user may not look into runs no MPI of theirs."""
    texts = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if process.stat().st_uid == os.getuid():
                texts.append((process / "maps").read_text(errors="replace"))
    return "".join(texts)


def _remove_unlocked(path: Path) -> None:
    with contextlib.suppress(OSError):  # it is in use, or gone
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)
