"""Signals that end a command cleanly."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlbench.study.follow import Stop

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stop_on_signals(stop: "Stop") -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP set `stop`; a second Ctrl-C ends dlbench at once.

    SIGHUP, which a lost terminal sends, leaves a job of a queue alone. A signal that the shell has us ignore, such as
    SIGHUP under nohup, stays ignored.
    """

    def ask(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            stop.hang_up()
        else:
            stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.getsignal(number) for number in ENDING}
    caught = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in caught:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)
