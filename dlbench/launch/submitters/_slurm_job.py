"""A job of Slurm, seen through squeue and, once that has forgotten it, sacct; its output and exit code are files."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from dlbench.launch.submission import JobStatus, Stage
from dlbench.launch.submitters._job import Tail, ask
from dlbench.records import files

_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"})
_ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
        *("REVOKED", "TIMEOUT"),
    }
)
_NOTHING = ("", "None")
_UNKNOWN_JOB = "invalid job id"
# Between two questions: short at first, then longer, for every one is work for Slurm's controller.
_FIRST_S, _LONGER, _LAST_S = 1.0, 1.3, 15.0
# Files of another host are seen here a little later.
_LAG_S = 10.0


class SlurmJob:
    """A job that was submitted to Slurm.

    Args:
        name: Its number.
        folder: Where its script writes its output and exit code.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, name: str, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._folder = folder
        self._clock = clock
        self._status = JobStatus(Stage.WAITING, f"job {name} is submitted")
        self._ask_at, self._pause_s = clock(), _FIRST_S
        self._over_since: float | None = None
        self._tail = Tail(folder / files.JOB_OUTPUT)

    def status(self) -> JobStatus:
        """Return how it stands; asks Slurm now and then, and sees at once when dlbench in the job has ended."""
        code = self._exit_code()
        if code is not None:
            return JobStatus(Stage.ENDED, f"job {self.name} has ended", code)
        if self._clock() >= self._ask_at:
            self._status = self._asked()
            self._pause_s = min(self._pause_s * _LONGER, _LAST_S)
            self._ask_at = self._clock() + self._pause_s
        return self._settled(self._status)

    def output(self) -> str:
        """Return what it has printed since the last call."""
        return self._tail.read()

    def cancel(self) -> None:
        """Take it out of the queue, or ask its shell to end, which asks dlbench."""
        ask("scancel", "--state=PENDING", self.name)
        ask("scancel", "--batch", "--signal=TERM", self.name)
        self._ask_at, self._pause_s = self._clock(), _FIRST_S

    def kill(self) -> None:
        """End it; Slurm sends SIGTERM, waits as long as it is set up to, and kills what is left."""
        ask("scancel", self.name)

    def detach(self) -> None:
        """Do nothing: its output is a file."""

    def clean_up(self) -> None:
        """Do nothing: Slurm forgets it by itself."""

    def _settled(self, status: JobStatus) -> JobStatus:
        """Return a job that has ended as over until its files must be here."""
        if status.stage is not Stage.ENDED:
            self._over_since = None
            return status
        if self._over_since is None:
            self._over_since = self._clock()
        if self._clock() - self._over_since < _LAG_S:
            return JobStatus(Stage.OVER, f"job {self.name} is over")
        return JobStatus(Stage.ENDED, f"{status.text}{self._silence()}")

    def _silence(self) -> str:
        """Return what is probably wrong where the job has written nothing."""
        if (self._folder / files.JOB_OUTPUT).exists():
            return ""
        return (
            f"; it wrote nothing into {self._folder}: the hosts of the job must see the study's folder, on a file "
            "system that they share with this machine"
        )

    def _asked(self) -> JobStatus:
        done = ask("squeue", "--noheader", "--states=all", f"--jobs={self.name}", "--format=%T|%r|%N")
        if done is None or (done.returncode and _UNKNOWN_JOB not in done.stderr.lower()):
            return JobStatus(self._status.stage, f"job {self.name}: Slurm does not answer; asked again until it does")
        state, _, details = done.stdout.strip().partition("|")
        reason, _, hosts = details.partition("|")
        return job_status(self.name, state, reason, hosts) if state else self._from_accounts()

    def _from_accounts(self) -> JobStatus:
        """Return how a job ended that squeue has forgotten."""
        done = ask("sacct", f"--jobs={self.name}", "--allocations", "--noheader", "--parsable2", "--format=State")
        state = done.stdout.split("\n")[0].partition(" ")[0] if done and not done.returncode else ""
        if state:
            return job_status(self.name, state, "", "")
        return JobStatus(Stage.ENDED, f"Slurm no longer knows job {self.name}, and dlbench in it has left no exit code")

    def _exit_code(self) -> int | None:
        # Listed anew: a file system over a network may remember that a file was not there.
        with contextlib.suppress(OSError):
            os.listdir(self._folder)  # noqa: PTH208 - the call itself is what is wanted
        try:
            return int((self._folder / files.EXIT_CODE).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None


def job_status(name: str, state: str, reason: str, hosts: str) -> JobStatus:
    """Return how a job stands, from the words of Slurm.

    Args:
        name: Its number.
        state: `PENDING`, `RUNNING`, ...
        reason: Why it is so; may be empty or `None`.
        hosts: Where it runs; may be empty.
    """
    because = "" if reason in _NOTHING else f" ({reason})"
    if state in _WAITING:
        return JobStatus(Stage.WAITING, f"job {name} waits: {state}{because}")
    if state in _ENDED:
        return JobStatus(Stage.ENDED, f"Slurm reports job {name}: {state}{because}")
    return JobStatus(Stage.RUNNING, f"job {name} runs{f' on {hosts}' if hosts else ''}{because}")
