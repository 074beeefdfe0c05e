"""A full disk ends a study with one clear message; what is on disk by then stays, and `--resume` completes the rest."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dlbench.errors import UserError

# A study with less room than this could not take in one more run's rows.
ROOM_BYTES = 1 << 20


class DiskFull(UserError):  # noqa: N818 - it says what it is
    """There is no room left where the study lies."""


@contextlib.contextmanager
def telling_a_full_disk(study: Path) -> Iterator[None]:
    """Turn "no space left" and "quota exceeded" into `DiskFull`.

    Raises:
        DiskFull: The disk, or the user's share of it, is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DiskFull(
            f"the disk under {study} is full ({error.strerror}); no row that came home is lost",
            hint=f"make room, then continue with: dlbench run --study {str(study)!r}",
        ) from error


def must_have_room(study: Path) -> None:
    """Fail where no more rows would fit: the runs to come would fail one after the other.

    Raises:
        OSError: There is no room, with the error of the file system.
    """
    with tempfile.TemporaryFile(dir=study) as file:
        os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
