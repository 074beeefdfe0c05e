"""Asking a queue's own commands."""

import subprocess

_ANSWER_S = 60.0


def ask(*argv: str, timeout_s: float = _ANSWER_S) -> "subprocess.CompletedProcess[str] | None":
    """Run a command and return what it said; None where it cannot be run or does not end."""
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout_s,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
