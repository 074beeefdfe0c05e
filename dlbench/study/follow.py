"""Follow a job of a queue to its end, and show what it prints."""

import re
import threading
import time

from dlbench.errors import UserError
from dlbench.launch.submission import Job, JobStatus, Stage
from dlbench.study.runner import Watcher

_POLL_S = 0.25
# A cancelled job gets so long: dlbench in it ends its run and writes the rows.
_GRACE_S = 90.0
_REFUSED, _INTERRUPTED = 2, 130
# What the message begins with where dlbench refuses something.
_REFUSAL = re.compile(r"^dlbench: (.*)", re.MULTILINE | re.DOTALL)


class Detached(Exception):  # noqa: N818 - it says what it is
    """The job is no longer followed, and goes on."""


class Stop(threading.Event):
    """Set to end a study cleanly: the current run becomes a row.

    Attributes:
        is_hangup: Whether it was set because the terminal was lost: a job of a queue then goes on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_hangup = False

    def hang_up(self) -> None:
        """Set it because the terminal was lost; where it was set before, that reason stays."""
        self.is_hangup = self.is_hangup or not self.is_set()
        self.set()


def follow(job: Job, watcher: Watcher, stop: threading.Event) -> JobStatus:
    """Return how a job has ended; shows its states and what it prints.

    Args:
        job: The job.
        watcher: Gets each state and what the job prints, line by line.
        stop: Set to end the job cleanly.

    Raises:
        UserError: dlbench in the job refused to begin.
        Detached: `stop` was hung up. Every other failure on this side leaves the job running, too.
    """
    output = _Output(watcher)
    try:
        status = _wait(job, output, watcher, stop)
        time.sleep(_POLL_S)
        output.end(job)
    except KeyboardInterrupt:
        job.kill()
        raise
    except BaseException:
        job.detach()
        raise
    job.clean_up()
    if status.exit_code == _REFUSED:
        raise UserError(f"dlbench in the job {job.name} refused: {output.refusal()}")
    if status.exit_code == _INTERRUPTED and not stop.is_set():
        by = "by its queue (a time limit, a node that is down), or by another command"
        watcher.say(f"job {job.name} was asked to end before its runs were done: {by}")
    return status


def _wait(job: Job, output: "_Output", watcher: Watcher, stop: threading.Event) -> JobStatus:
    """Return how a job has ended; once `stop` is set it is cancelled, and killed where it does not end in time."""
    shown, kill_at = "", None
    while True:
        status = job.status()
        output.take(job)
        if status.text != shown:
            shown = status.text
            watcher.say(shown)
        if status.stage is Stage.ENDED:
            return status
        if isinstance(stop, Stop) and stop.is_hangup:
            raise Detached(f"job {job.name} goes on and completes the study; --resume shows what it has made")
        if not stop.is_set():
            stop.wait(_POLL_S)
            continue
        if kill_at is None:
            kill_at = time.monotonic() + _GRACE_S
            watcher.say(f"job {job.name} is asked to end")
            job.cancel()
        elif time.monotonic() > kill_at:
            kill_at = float("inf")
            job.kill()
        time.sleep(_POLL_S)


class _Output:
    """What a job prints, shown line by line."""

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

    def end(self, job: Job) -> None:
        """Take what is left, and show the last line, which has no end."""
        self.take(job)
        if self._rest:
            self._add(self._rest)

    def refusal(self) -> str:
        """Return the message of dlbench in the job where it refused something."""
        match = _REFUSAL.search("\n".join(self._lines))
        return match[1].strip() if match else "it says why above"

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._watcher.say(line)
