"""The logs of an attempt: kept small while they grow, and read for the line that says what went wrong."""

import contextlib
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from dlbench.records.outcome import says_out_of_memory, telling_part

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
    r"|^dlbench: (process rank|the Ray node of)"
    r"|^=   [A-Z]|^This typically refers to a problem|^Please see the FAQ page"  # Hydra
    r"|^\[(mpiexec|proxy:[\d:]+)@"
    r"|^(Current|Extension modules|Thread 0x|Stack \()|^File \"[^\n]*\", line \d+ in "  # a dump of stacks
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
    re.compile(
        r"^Root Cause \(first observed failure\):\n.*?^  rank +: (?P<rank>\d+) .*?"
        r"^  exitcode +: (?:-(?P<signal>\d+)|(?P<code>\d+)) ",
        re.DOTALL | re.MULTILINE,
    ),  # torchrun
    re.compile(r"MPI_ABORT was invoked on rank (?P<rank>\d+).*?Errorcode: (?P<code>\d+)", re.DOTALL),
    re.compile(
        r"^Abort\((?P<code>\d+)\) on node (?P<rank>\d+) [^\n]*application called MPI_Abort", re.MULTILINE
    ),  # MPICH
)
# Hydra names a process that a signal ended by its number, and of one that has exited it says nothing. That of MPICH
# prints the signal as an exit code, too.
_PID_EXIT = re.compile(
    r"BAD TERMINATION[^\n]*\n=\s+(?:RANK \d+ )?PID (?P<pid>\d+) RUNNING AT [^\n]*\n"
    r"=\s+(?:EXIT CODE: (?P<code>\d+)|KILLED BY SIGNAL: (?P<signal>\d+))"
)
_EXIT_STRING = re.compile(r"EXIT STRING: [^\n]*\(signal (?P<signal>\d+)\)")
# What Open MPI prints once its daemon on another host is gone, and ssh under MPICH, which names no host where it was
# just sending.
_MISSING_HOST = (
    re.compile(r"lost communication with a remote daemon.*?Remote daemon:[^\n]* on node (?P<host>\S+)", re.DOTALL),
    re.compile(r"^Connection to (?P<host>\S+) closed by remote host\.", re.MULTILINE),
    re.compile(r"^dlbench: the Ray node of (?P<host>\S+) is gone$", re.MULTILINE),
    re.compile(r"^Timeout, server (?P<host>\S+) not responding", re.MULTILINE),
    re.compile(r"^Connection (?:closed|reset) by (?P<host>\S+) port \d+", re.MULTILINE),
    re.compile(r"^Read from remote host (?P<host>\S+): Connection reset", re.MULTILINE),
    re.compile(
        r"daemon failed to report back.*?Remote host: +(?P<host>\S+)\s+Daemon exit status: +(?P<code>\d+)", re.DOTALL
    ),
    re.compile(r"^client_loop: send disconnect: (?:Broken pipe|Connection reset)(?P<host>)", re.MULTILINE),
)
# ssh's exit code for a connection that ended.
_SSH_FAILED = 255
# What it prints around that: general advice. What ssh itself says, such as that a key is wrong, stands before it.
_ADVICE = re.compile(
    r"^-{20,}\n(?:A daemon failed to report back|PRTE has lost communication|An MPI communication peer process has)"
    r".*?^-{20,}\n",
    re.DOTALL | re.MULTILINE,
)
# What torch.distributed prints before each line of a traceback.
_RANK = re.compile(r"^\[rank\d+\]:[ \t]?", re.MULTILINE)
# The last line of a traceback whose exception has no text; and lines of its frames that are none of a source.
_NO_TEXT = re.compile(r"[\w.]*(Error|Exception|Interrupt|Exit|Warning|Iteration|Timeout|Empty|Full)")
_NO_SOURCE = re.compile(r"\s*(File |\[Previous line)")
# What Open MPI prints where two processes have no transport between them.
_UNREACHABLE = re.compile(
    r"unable to reach each other.*?Process 1 \([^\n]*\) is on host: (?P<one>[^\n]+)\n"
    r"\s*Process 2 \([^\n]*\) is on host: (?P<other>[^\n]+)\n",
    re.DOTALL,
)
# What Open MPI prints for a process that it ends because the connection to another broke.
_LOST_A_PEER = re.compile(r"An error occurred in Socket closed\s*\n[^\n]*reported by process \[\d+,(?P<rank>\d+)\]")


class LogBounds:
    """Keeps every log of a folder below a limit, in bytes: the head stays, the newest lines stay, the middle goes.

    Writers open their logs for appending, so that cutting a file under them is safe.
    """

    def __init__(self, folder: Path, limit: int = LIMIT_BYTES, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._folder, self._limit, self._head, self._tail = folder, limit, head, tail
        self._dropped: dict[Path, int] = {}

    def enforce(self) -> None:
        """Cut the logs that have grown past the limit."""
        with contextlib.suppress(OSError):  # no descriptor is left to look with
            for path in self._folder.glob("*.log"):
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


@dataclass(frozen=True)
class ProcessExit:
    """How a process ended: its rank, None where that is unknown, and its exit code, negative: ended by that signal."""

    rank: int | None
    code: int


@dataclass(frozen=True)
class MissingHost:
    """A host that a launcher has lost, or could not start on: then with the exit code of its daemon there.

    `address` is how the launcher calls it, "" where it does not name it.
    """

    address: str
    exit_code: int | None = None


@dataclass(frozen=True)
class LauncherLog:
    """What the log of a launcher says of an attempt that failed.

    Attributes:
        first_exit: The process that failed first.
        missing_host: A host without which it could not go on.
        unreachable: Hosts between which MPI has found no route, such as "node1 and node2", or "".
        over_a_peer: Ranks of processes that were ended because the connection to another broke.
        line: Its telling line.
    """

    first_exit: ProcessExit | None = None
    missing_host: MissingHost | None = None
    unreachable: str = ""
    over_a_peer: frozenset[int] = frozenset()
    line: str = ""


def read_launcher_log(path: Path, ranks: Mapping[int, int] | None = None) -> LauncherLog:
    """Read the log of a launcher; `ranks` has the rank of each process, by its number."""
    text = _end_of(path)
    pair = _UNREACHABLE.search(text)
    missing = next((match for pattern in _MISSING_HOST if (match := pattern.search(text))), None)
    code = int(missing.groupdict().get("code") or _SSH_FAILED) if missing else _SSH_FAILED
    return LauncherLog(
        first_exit=_first_exit(text, ranks or {}),
        missing_host=missing and MissingHost(missing["host"], None if code == _SSH_FAILED else code),
        unreachable=f"{pair['one'].strip()} and {pair['other'].strip()}" if pair else "",
        over_a_peer=frozenset(int(match["rank"]) for match in _LOST_A_PEER.finditer(text)),
        line=_telling_line(text),
    )


def telling_line(path: Path) -> str:
    """Return the line of a log that says best what went wrong, or "" where there is none.

    A fatal error with what C++ says of it (what says that memory ran out before it, as its cause), that dlbench was not
    reached, or the last line of the last traceback, with its source line where the exception has no text, else the last
    line that is no launcher's noise.
    """
    return _telling_line(_end_of(path))


def says_crash(line: str) -> bool:
    """Whether a telling line is that of a process which crashed."""
    return bool(_FATAL.match(line))


def _telling_line(text: str) -> str:
    lines = [line.rstrip() for line in _RANK.sub("", _ADVICE.sub("", text)).splitlines()]
    fatal = [line for line in lines if _FATAL.match(line)]
    if fatal:
        thrown = [line.removeprefix("  what():").strip() for line in lines if line.startswith("  what():")]
        return next((line for line in lines if says_out_of_memory(line)), ": ".join([fatal[-1], *thrown[-1:]]))
    # What follows are the stacks of its threads.
    if ending := [line for line in lines if line.startswith("dlbench: no connection to dlbench")]:
        return ending[-1]
    tracebacks = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    after_last = lines[tracebacks[-1] + 1 :] if tracebacks else []
    exception = list(dropwhile(lambda line: not line or line[0].isspace(), after_last))
    if exception and _NO_TEXT.fullmatch(exception[0]):  # its source line says more
        frames = [it for it in after_last[: len(after_last) - len(exception)] if not _NO_SOURCE.match(it)]
        exception[0] += next((f": {line.strip()}" for line in reversed(frames) if not _NOISE.match(line.strip())), "")
    meaningful = (line.strip() for line in reversed(lines) if not _NOISE.match(line.strip()))
    return telling_part("\n".join(exception)) or next(meaningful, "")


def _first_exit(text: str, ranks: Mapping[int, int]) -> ProcessExit | None:
    """Return the process that its launcher says failed first.

    Its rank is None where the launcher says how it ended and cannot be believed about which it was.
    """
    exits = [match for match in (pattern.search(text) for pattern in _RANK_EXIT) if match]
    if not exits:
        return _pid_exit(text, ranks)
    first = min(exits, key=lambda match: match.start()).groupdict()
    code = -_signal(first["signal"]) if first.get("signal") else int(first.get("code") or 0)
    return ProcessExit(int(first["rank"]), code)


def _pid_exit(text: str, ranks: Mapping[int, int]) -> ProcessExit | None:
    """Return what Hydra says of the process that failed; Intel MPI's names those that it has ended itself, too.

    That of MPICH names one alone, which may be one that it has ended itself over the first, by SIGKILL.
    """
    matches = [match for match in _PID_EXIT.finditer(text) if int(match["pid"]) in ranks]
    if len(matches) != 1:
        return None
    exit_match = matches[0]
    rank, code = ranks[int(exit_match["pid"])], int(exit_match["code"] or 0)
    if exit_match["signal"]:
        return ProcessExit(rank, -_signal(exit_match["signal"]))
    named = _EXIT_STRING.search(text, exit_match.end())
    if not named:
        return ProcessExit(rank, code)
    number = _signal(named["signal"])
    return ProcessExit(rank if code == number != signal.SIGKILL else None, -number)


def _signal(text: str) -> int:
    """Return the number of a signal, which some launchers print as the exit code that a shell would have."""
    return int(text) % 128


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _READ_BYTES))
            return file.read(_READ_BYTES).decode(errors="replace")
    except OSError:
        return ""
