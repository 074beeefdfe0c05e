"""`python -m dlbench.launch.spawn VARIABLE N -- program ...`: start N processes, each with its rank in VARIABLE.

The launcher `local` uses it for more than one process. It ends with the last of them and, as `mpirun` does, ends the
others when one fails, says which it was, and takes over its exit code. It imports nothing but the standard library:
it adds nothing to a run's start-up.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_GRACE_S = 2.0
_POLL_S = 0.02


def main(arguments: Sequence[str]) -> int:
    """Start the processes, wait for them, and return the exit code of the first that failed, else 0."""
    variable, count, separator, *program = arguments
    assert separator == "--"
    libc = ctypes.CDLL(None, use_errno=True)
    children = [_start(program, variable, rank, libc) for rank in range(int(count))]
    signal.signal(signal.SIGTERM, lambda *_: _signal(children, signal.SIGTERM))
    code = _wait(children)
    if code:
        _end(children)
    return code


def _start(program: list[str], variable: str, rank: int, libc: ctypes.CDLL) -> subprocess.Popen[bytes]:
    """Start one process that is killed if this one is gone; there is one thread here, so `preexec_fn` is safe."""
    return subprocess.Popen(
        program,
        env=os.environ | {variable: str(rank)},
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
    )


def _wait(children: list[subprocess.Popen[bytes]]) -> int:
    running = dict(enumerate(children))
    while running:
        for rank, child in list(running.items()):
            code = child.poll()
            if code is not None:
                del running[rank]
            if code:
                return report_end(rank, code)
        time.sleep(_POLL_S)
    return 0


def report_end(rank: int, code: int) -> int:
    """Say that a process failed, in the words that dlbench reads; return its exit code, as a shell gives it."""
    how = f"with exit code {code}" if code > 0 else f"on signal {-code}"
    print(f"dlbench: process rank {rank} ended {how}", file=sys.stderr, flush=True)  # noqa: T201
    return code if code > 0 else 128 - code


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    _signal(children, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and any(child.poll() is None for child in children):
        time.sleep(_POLL_S)
    _signal(children, signal.SIGKILL)
    for child in children:
        child.wait()


def _signal(children: list[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for child in children:
        if child.poll() is None:
            child.send_signal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
