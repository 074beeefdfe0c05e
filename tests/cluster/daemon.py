"""What a host's first process starts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Daemon:
    """One program that goes on running.

    Attributes:
        argv: Its command, which stays in the foreground.
        log: The file for what it prints.
        sign: A file that is there once others may be started; None where none has to wait.
    """

    argv: tuple[str, ...]
    log: str
    sign: str | None = None
