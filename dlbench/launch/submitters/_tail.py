"""What is new at the end of a file that another program writes."""

import codecs
from pathlib import Path

_MOST_BYTES = 1 << 20


class Tail:
    """Reads a file piece by piece, whole letters only; it need not be there, or within reach, yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self) -> str:
        """Return what was added since the last call, at most so much of it at once."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                found = file.read(_MOST_BYTES)
        except OSError:  # a file system over a network has hiccups: it is read on later
            return ""
        self._read_bytes += len(found)
        return self._decoder.decode(found)
