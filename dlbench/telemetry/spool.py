"""Lines of a worker that are not yet acknowledged: in memory, and on disk where a long break needs more than that."""

import os
import tempfile
from collections import deque
from collections.abc import Iterator
from typing import IO

# Lines beyond this go to disk. On a healthy connection a fraction of it waits for its acknowledgement.
MEMORY_BYTES = 16 * 2**20
# Where the disk is full too, lines stay in memory up to this; then the worker ends with an error.
LAST_RESORT_BYTES = 256 * 2**20


class SpoolFull(Exception):  # noqa: N818 - it names a state, as `queue.Full` does
    """Neither memory nor disk can take another line."""


class Spool:
    """Numbered lines, from the first unacknowledged one on. Used by one thread.

    The file has no name: nothing is left of it when the process ends, however it ends.

    Args:
        memory_bytes: Lines beyond this go to the file.
        last_resort_bytes: Lines in memory where the file cannot take them.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES, last_resort_bytes: int = LAST_RESORT_BYTES) -> None:
        self.first = 1
        self._memory_bytes, self._last_resort_bytes = memory_bytes, last_resort_bytes
        self._lines: deque[bytes | tuple[int, int]] = deque()  # the line, or its (offset, length) in the file
        self._memory_used = self._num_on_disk = self._end = 0
        self._file: IO[bytes] | None = None

    @property
    def last(self) -> int:
        """Number of the last line ever added; 0 where there was none."""
        return self.first + len(self._lines) - 1

    def append(self, line: bytes) -> None:
        """Add the next line.

        Raises:
            SpoolFull: Neither memory nor disk can take it.
        """
        if self._memory_used + len(line) > self._memory_bytes:
            try:
                self._write(line)
            except OSError as error:
                if self._memory_used + len(line) > self._last_resort_bytes:
                    raise SpoolFull(f"rows that are not acknowledged cannot be kept: {error}") from error
            else:
                return
        self._memory_used += len(line)
        self._lines.append(line)

    def acknowledge(self, number: int) -> None:
        """Drop all lines up to and including this number."""
        while self._lines and self.first <= number:
            entry = self._lines.popleft()
            self.first += 1
            if isinstance(entry, bytes):
                self._memory_used -= len(entry)
            else:
                self._num_on_disk -= 1
        if self._file is not None and not self._num_on_disk:
            self._file.close()
            self._file, self._end = None, 0

    def lines_after(self, number: int) -> Iterator[bytes]:
        """Yield the unacknowledged lines after this number, oldest first."""
        for index in range(max(0, number + 1 - self.first), len(self._lines)):
            entry = self._lines[index]
            yield entry if isinstance(entry, bytes) else self._read(*entry)

    def close(self) -> None:
        """Drop every line."""
        self.acknowledge(self.last)

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open for long
        written = 0
        while written < len(line):
            written += os.pwrite(self._file.fileno(), line[written:], self._end + written)
        self._lines.append((self._end, len(line)))
        self._end += len(line)
        self._num_on_disk += 1

    def _read(self, offset: int, length: int) -> bytes:
        assert self._file is not None
        line = os.pread(self._file.fileno(), length, offset)
        if len(line) != length:
            raise OSError("the file of unacknowledged rows was cut short")
        return line
