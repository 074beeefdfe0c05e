"""What jobs of all queues share: asking the queue's own commands, and reading what a job prints."""

import codecs
import subprocess
from collections.abc import Mapping
from pathlib import Path

_ANSWER_S = 60.0
_MAX_BYTES = 1 << 20


def ask(
    *argv: str, timeout_s: float = _ANSWER_S, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str] | None":
    """Run a command and return what it printed; None where it cannot be run or does not end."""
    try:
        return subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=timeout_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


class Tail:
    """Reads what is appended to a file, whole letters only; the file need not be there, or within reach, yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def read(self) -> str:
        """Return what was added since the last call, at most 1 MiB at once."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                piece = file.read(_MAX_BYTES)
        except OSError:  # a file system over a network has hiccups: it is read on later
            return ""
        self._read_bytes += len(piece)
        return self._decoder.decode(piece)
