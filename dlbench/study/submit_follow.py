"""Follow a job of a queue to its end, and hand on what it says."""

import re
import threading
import time

from dlbench.errors import UserError
from dlbench.launch.submission import Job, Sight, Stage
from dlbench.study.conduct import Watcher

_POLL_S = 0.25
# A job that was asked to end gets so long for it; dlbench in it ends the run at work and brings its rows home.
_GRACE_S = 90.0
_REFUSED, _INTERRUPTED = 2, 130
# What dlbench calls itself where it refuses something.
_REFUSAL = re.compile(r"^dlbench: (.*)", re.MULTILINE | re.DOTALL)


class Left(Exception):  # noqa: N818 - it says what it is
    """A job is followed no more, and goes on."""


class Stop(threading.Event):
    """Set to end a study in good order.

    Attributes:
        is_hangup: Whether it was set because nobody looks on any more: a job of a queue then goes on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_hangup = False

    def hang_up(self) -> None:
        """Set it because nobody looks on any more; who was asked to end before is still asked."""
        self.is_hangup = self.is_hangup or not self.is_set()
        self.set()


def follow(job: Job, watcher: Watcher, stop: threading.Event) -> Sight:
    """Return how a job has ended, once what it has made is here; says how it stands and what it prints.

    Args:
        job: The job.
        watcher: Is told.
        stop: Set to end the job in good order.

    Raises:
        UserError: dlbench in the job refused to begin.
        NotCollected: What it has made cannot be had; the job is left as it is.
        Left: `stop` was hung up. So is the job left to itself by every other mishap of ours.
    """
    printed = _Printed(watcher)
    try:
        sight = _to_its_end(job, printed, watcher, stop)
    except KeyboardInterrupt:
        job.kill()
        raise
    except BaseException:
        job.leave()
        raise
    job.collect()
    if sight.exit_code == _REFUSED:
        raise UserError(f"dlbench in the job {job.name} refused: {printed.refusal()}")
    if sight.exit_code == _INTERRUPTED and not stop.is_set():
        watcher.say(f"job {job.name} was asked to end before its runs were done: by its time limit, or by somebody")
    return sight


def _to_its_end(job: Job, printed: "_Printed", watcher: Watcher, stop: threading.Event) -> Sight:
    said, patience = "", _Patience(job, watcher)
    while True:
        sight = job.look()
        printed.take(job)
        if sight.told != said:
            said = sight.told
            watcher.say(said)
        if sight.stage is Stage.ENDED:
            time.sleep(_POLL_S)
            printed.take(job)
            printed.end()
            return sight
        if isinstance(stop, Stop) and stop.is_hangup:
            raise Left(f"job {job.name} goes on and completes the study; --resume shows what it has made")
        if stop.is_set():
            patience.ask()
            time.sleep(_POLL_S)
        else:
            stop.wait(_POLL_S)


class _Patience:
    """Asks a job to end, and ends it where it does not."""

    def __init__(self, job: Job, watcher: Watcher) -> None:
        self._job = job
        self._watcher = watcher
        self._until: float | None = None

    def ask(self) -> None:
        """Ask once, and end it at once when the time for it is over."""
        if self._until is None:
            self._until = time.monotonic() + _GRACE_S
            self._watcher.say(f"job {self._job.name} is asked to end")
            self._job.cancel()
        elif time.monotonic() > self._until:
            self._until = float("inf")
            self._job.kill()


class _Printed:
    """What a job prints, handed on line by line."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._rest = ""
        self._lines: list[str] = []

    def take(self, job: Job) -> None:
        """Take what it has printed."""
        for text in iter(job.output, ""):
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._add(line)

    def end(self) -> None:
        """Hand on what has no end of line."""
        if self._rest:
            self._add(self._rest)

    def refusal(self) -> str:
        """Return what dlbench said where it refused something."""
        found = _REFUSAL.search("\n".join(self._lines))
        return found[1].strip() if found else "it says why above"

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._watcher.say(line)
