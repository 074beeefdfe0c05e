"""Text that the kernel makes anew at each reading, from a file that stays open."""

import os
from pathlib import Path

PROC = Path("/proc")
_LARGEST = 1 << 20


class KernelFile:
    """One file of /proc or /sys, opened once and read from its start again and again."""

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self, size: int = _LARGEST) -> bytes:
        """Return up to `size` bytes as the kernel has them now.

        Raises:
            OSError: The file can no longer be read, or is closed.
        """
        if self._descriptor is None:
            raise OSError("the file is closed")
        return os.pread(self._descriptor, size, 0)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def is_readable(path: Path) -> bool:
    """Whether this process may read the file."""
    return os.access(path, os.R_OK)
