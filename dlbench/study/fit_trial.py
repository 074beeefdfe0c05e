"""One size of a batch in a process of its own: started as a worker would be, watched, and ended whatever happens."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from dlbench.errors import UserError
from dlbench.launch.layout import arrange
from dlbench.launch.plan import plan
from dlbench.launch.processes import end_all, leftovers
from dlbench.records.assignment import Assignment
from dlbench.records.largest import ANSWER, PROGRAM, Answer, Trial
from dlbench.records.memory import says_out_of_memory
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.largest import with_batch
from dlbench.scenario.run_spec import RunSpec
from dlbench.study.prepare import Prepared, Stopped

POLL_S = 0.05
USAGE = 2
SHOWN_LINES = 12
LONGEST_OUTPUT = 1 << 16
LONGEST_REASON = 500
# What tells of a replica alone, whatever the strategy of the run: nothing else decides what one worker needs.
_ALONE = {"workers": 1, "strategy": "single", "launcher": "local", "mode": None, "workers_per_host": None}
_ALONE |= {"algorithm": None, "driver": None, "collectives": None}
_OTHERS = ("strategy.", "launcher.")


@dataclass(frozen=True)
class Laboratory:
    """Where sizes are tried.

    Attributes:
        run: The run whose batch is looked for.
        cluster: This machine.
        data: Its prepared data set.
        memory_bytes: What a trial may take of the host's memory.
        stop: Set when the user ends dlbench.
    """

    run: RunSpec
    cluster: Cluster
    data: Prepared
    memory_bytes: int
    stop: threading.Event

    def attempt(self, batch_size: int) -> tuple[Trial, Answer | None]:
        """Try one size; there is no answer where the process ended without one.

        Raises:
            UserError: The run cannot be built or cannot make a step, for another reason than memory.
            Stopped: `stop` was set.
        """
        started = time.monotonic()
        with tempfile.TemporaryFile() as output:
            code = self._execute(self._assignment(batch_size), output)
            wall_time_s = round(time.monotonic() - started, 3)
            text = _tail(output)
        answer = _answer(text)
        if answer is not None:
            peak = answer.resident_peak_bytes
            trial = Trial(
                batch_size=batch_size,
                fits=answer.fits,
                reason=answer.reason,
                resident_peak_bytes=peak,
                wall_time_s=wall_time_s,
            )
            return trial, answer
        reason = self._why(code, text, batch_size)
        return Trial(
            batch_size=batch_size, fits=False, reason=reason, is_slow=code is None, wall_time_s=wall_time_s
        ), None

    def _assignment(self, batch_size: int) -> Assignment:
        settings = self.run.settings.model_copy(update=_ALONE)
        options = {key: value for key, value in self.run.options.items() if not key.startswith(_OTHERS)}
        run = self.run.model_copy(update={"settings": with_batch(settings, batch_size), "options": options})
        return Assignment(
            run=run,
            attempt=1,
            attempt_id=f"probe-{secrets.token_hex(8)}",
            layout=arrange(run, self.cluster),
            data_folder=str(self.data.folder),
            data_checksum=self.data.checksum,
        )

    def _execute(self, assignment: Assignment, output: IO[bytes]) -> int | None:
        """Run the process to its end; return its exit code, None where it took too long."""
        environment: Mapping[str, str] = plan(assignment, os.environ).env
        process = subprocess.Popen(
            [sys.executable, *PROGRAM, str(self.memory_bytes)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            return self._wait(process)
        finally:
            _end(process, assignment)

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        deadline = time.monotonic() + self.run.limits.startup_timeout_s
        while process.poll() is None:
            if self.stop.wait(POLL_S):
                raise Stopped
            if time.monotonic() > deadline:
                return None
        return process.returncode

    def _why(self, code: int | None, text: str, batch_size: int) -> str:
        """Return why a size does not fit whose process gave no answer.

        Raises:
            UserError: It is not for lack of memory or time.
        """
        if code is None:
            return f"took longer than startup_timeout_s ({self.run.limits.startup_timeout_s:g} s)"
        signs = [line for line in text.splitlines() if says_out_of_memory(line)]
        if signs:
            return signs[-1].strip()[:LONGEST_REASON]
        if code < 0:
            return f"ended by {signal.Signals(-code).name} without an answer, as programs do that cannot allocate"
        lines = "\n  ".join([line for line in text.splitlines() if line.strip()][-SHOWN_LINES:])
        if code == USAGE:
            raise UserError(f"batch_size: max cannot be found: {lines}")
        raise UserError(
            f"batch_size: max cannot be found: with a batch of {batch_size} a step fails "
            f"(exit code {code}), and not for lack of memory:\n  {lines}"
        )


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - LONGEST_OUTPUT))
    return output.read().decode(errors="replace")


def _answer(text: str) -> Answer | None:
    lines = [line for line in text.splitlines() if line.startswith(ANSWER)]
    return Answer.model_validate_json(lines[-1].removeprefix(ANSWER)) if lines else None


def _end(process: subprocess.Popen[bytes], assignment: Assignment) -> None:
    """End the process and whatever it started."""

    def find() -> list[int]:
        process.poll()
        return leftovers(assignment.attempt_id, session=process.pid)

    end_all(find, assignment.run.limits.grace_s)
    process.wait()
