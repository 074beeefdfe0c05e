"""The logs of an attempt: kept small while they grow, and read for the line that says what went wrong."""

import contextlib
import os
import re
from pathlib import Path

from dlbench.records.memory import says_out_of_memory

LIMIT_BYTES = 16 * 2**20
HEAD_BYTES = 4 * 2**20
TAIL_BYTES = 2**20
_READ_BYTES = 2**18

# What launchers and libraries print around the one line that matters.
_NOISE = re.compile(
    r"^(-{5,}|={5,}|\*{5,}|$)"
    r"|^(prterun|mpirun|prted|orterun)\b"
    r"|^(Primary job|Process name:|Exit code:|per user-direction|thus causing|The first process|signal \d+ \()"
    r"|^\[[\w.-]+:\d+\]"
    r"|^(Local host|Local PID|Peer host|NOTE:|WARNING:|INFO:)"
    r"|^dlbench: process rank"
    r"|^(Current|Extension modules|Thread 0x|Stack \()"
    r"|^during handling of|^The above exception"
    r"|^\W*$",
    re.IGNORECASE,
)
_FATAL = re.compile(r"^(Fatal Python error|Bus error|Segmentation fault|Illegal instruction|.*: error while loading)")
_RANK_EXIT = (
    re.compile(r"process rank (?P<rank>\d+) .*?(?:exited on\s+signal|ended on signal) (?P<signal>\d+)", re.DOTALL),
    re.compile(r"process rank (?P<rank>\d+) ended with exit code (?P<code>\d+)"),
    re.compile(r"Process name: \[[^\]]*,(?P<rank>\d+)\]\s+Exit code:\s+(?P<code>\d+)"),
    # Without MPI_Finalize: Open MPI calls it abnormal although the process itself ended with 0.
    re.compile(r"process rank (?P<rank>\d+) with PID [^,]*? exiting\s+improperly"),
    re.compile(r"^Process (?P<rank>\d+) exit with status code (?P<code>\d+)\.", re.MULTILINE),  # horovodrun
    re.compile(r"MPI_ABORT was invoked on rank (?P<rank>\d+).*?Errorcode: (?P<code>\d+)", re.DOTALL),
)
# What Open MPI prints once its daemon on another host is gone; 255 is ssh's word for a connection that ended.
_LOST_HOST = (
    re.compile(r"lost communication with a remote daemon.*?Remote daemon:[^\n]* on node (?P<host>\S+)", re.DOTALL),
    re.compile(r"daemon failed to report back.*?Remote host: +(?P<host>\S+)\s+Daemon exit status: +255", re.DOTALL),
)


class LogBounds:
    """Keeps every log of a folder below a limit, in bytes: the head stays, the newest lines stay, the middle goes.

    Writers open their logs for appending, so that cutting a file under them is safe.
    """

    def __init__(self, folder: Path, limit: int = LIMIT_BYTES, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._folder, self._limit, self._head, self._tail = folder, limit, head, tail
        self._dropped: dict[Path, int] = {}

    def enforce(self) -> None:
        """Cut the logs that have grown past the limit."""
        for path in self._folder.glob("*.log"):
            with contextlib.suppress(OSError):
                if path.stat().st_size > self._limit:
                    self._cut(path)

    def _cut(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(descriptor).st_size
            tail = os.pread(descriptor, self._tail, size - self._tail)
            self._dropped[path] = self._dropped.get(path, 0) + size - self._head - len(tail)
            os.ftruncate(descriptor, self._head)
            note = f"\n[dlbench: about {self._dropped[path]:,} bytes of this log were dropped here]\n"
            os.write(descriptor, note.encode() + tail)
        finally:
            os.close(descriptor)


def telling_line(path: Path) -> str:
    """Return the line of a log that says best what went wrong, or "" where there is none.

    A fatal error (what says that memory ran out before it, as its cause) or the last line of the last traceback, else
    the last line that is no launcher's noise.
    """
    lines = [line.rstrip() for line in _end_of(path).splitlines()]
    fatal = [line for line in lines if _FATAL.match(line)]
    if fatal:
        return next((line for line in lines if says_out_of_memory(line)), fatal[-1])
    return _last_exception(lines) or _last_meaningful(lines)


def lost_host(path: Path) -> str:
    """Return the name of the host that Open MPI says it has lost, or "" where it says so of none."""
    text = _end_of(path)
    found = next((match for pattern in _LOST_HOST if (match := pattern.search(text))), None)
    return found["host"] if found else ""


def rank_exit(path: Path) -> tuple[int, str, int] | None:
    """Return (rank, "exit code" or "signal", number) of the process that its launcher says failed first, or None."""
    text = _end_of(path)
    found = [match for match in (pattern.search(text) for pattern in _RANK_EXIT) if match]
    if not found:
        return None
    first = min(found, key=lambda match: match.start()).groupdict()
    kind = "signal" if "signal" in first else "exit code"
    return int(first["rank"]), kind, int(first.get("signal") or first.get("code") or 0)


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _READ_BYTES))
            return file.read(_READ_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _last_exception(lines: list[str]) -> str:
    starts = [index for index, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    for line in lines[starts[-1] + 1 :] if starts else []:
        if line and not line[0].isspace():
            return line
    return ""


def _last_meaningful(lines: list[str]) -> str:
    return next((line.strip() for line in reversed(lines) if not _NOISE.match(line.strip())), "")
