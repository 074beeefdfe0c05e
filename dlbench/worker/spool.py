"""Lines on their way home that are not yet acknowledged: in a file, so that a long break costs no memory."""

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

# Acknowledged bytes at the file's head are cut off once there are so many.
COMPACT_BYTES = 16 * 2**20
# Where the disk is full, so many bytes are kept in memory instead; then the worker ends with an error.
MEMORY_BYTES = 256 * 2**20


class SpoolFull(Exception):  # noqa: N818 - it names a state, as `queue.Full` does
    """Neither the disk nor the memory set aside can take another line."""


class Spool:
    """Numbered lines from the first unacknowledged one on. Used by one thread.

    The file exists while there is something in it, and belongs to this process alone.

    Args:
        path: The file; its folder exists.
    """

    def __init__(self, path: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self.path = path
        self.first = 1
        self._lines: deque[tuple[int, int] | bytes] = deque()  # (offset, length) in the file, or the line itself
        self._file: int | None = None
        self._end = 0
        self._memory_limit = memory_bytes
        self._memory_used = 0

    def __len__(self) -> int:
        """Return the number of unacknowledged lines."""
        return len(self._lines)

    @property
    def last(self) -> int:
        """Number of the last line ever added; 0 where there was none."""
        return self.first + len(self._lines) - 1

    def append(self, line: bytes) -> None:
        """Add the next line.

        Raises:
            SpoolFull: The disk is full, and so is the memory set aside.
        """
        try:
            self._write(line)
        except OSError as error:
            if self._memory_used + len(line) > self._memory_limit:
                raise SpoolFull(f"cannot keep rows that are not home yet: {error}") from error
            self._memory_used += len(line)
            self._lines.append(line)
        else:
            self._lines.append((self._end, len(line)))
            self._end += len(line)

    def acknowledge(self, number: int) -> None:
        """Forget all lines up to and including this number."""
        while self._lines and self.first <= number:
            entry = self._lines.popleft()
            self._memory_used -= len(entry) if isinstance(entry, bytes) else 0
            self.first += 1
        if not self._lines:
            self.close()
        else:
            self._compact()

    def lines_after(self, number: int) -> Iterator[bytes]:
        """Yield the lines after this number, oldest first; acknowledged ones are gone."""
        for index in range(max(0, number + 1 - self.first), len(self._lines)):
            entry = self._lines[index]
            yield entry if isinstance(entry, bytes) else self._read(*entry)

    def close(self) -> None:
        """Remove the file; what is in it is forgotten."""
        self.first += len(self._lines)
        self._lines.clear()
        self._end = self._memory_used = 0
        if self._file is not None:
            os.close(self._file)
            self._file = None
            with contextlib.suppress(OSError):
                self.path.unlink()

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        written = 0
        while written < len(line):
            written += os.pwrite(self._file, line[written:], self._end + written)

    def _read(self, offset: int, length: int) -> bytes:
        assert self._file is not None
        line = os.pread(self._file, length, offset)
        if len(line) != length:
            raise OSError(f"{self.path} was cut short by someone else")
        return line

    def _compact(self) -> None:
        """Move what is left to the file's head once the part before it has grown, so that the file stays small."""
        offsets = [entry[0] for entry in self._lines if not isinstance(entry, bytes)]
        start = offsets[0] if offsets else self._end
        if self._file is None or start < COMPACT_BYTES or self._end - start > start:
            return
        rest = self._read(start, self._end - start)
        os.pwrite(self._file, rest, 0)
        os.ftruncate(self._file, len(rest))
        self._end = len(rest)
        moved = [entry if isinstance(entry, bytes) else (entry[0] - start, entry[1]) for entry in self._lines]
        self._lines = deque(moved)
