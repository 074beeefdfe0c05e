"""One batch size tried in its own process: started as a worker is, watched, and ended whatever happens."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import IO

from dlbench.errors import UserError
from dlbench.launch.layout import plan_layout
from dlbench.launch.plan import plan
from dlbench.launch.processes import end_all, leftovers
from dlbench.records.assignment import Assignment
from dlbench.records.outcome import says_out_of_memory
from dlbench.records.probe import ANSWER, PROGRAM, ProbeResult
from dlbench.scenario.cluster import Cluster
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Affects, Settings, option_prefixes_of, settings_of
from dlbench.study.prepare import Prepared, wait

_USAGE = 2
_SHOWN_LINES = 12
_LONGEST_OUTPUT = 1 << 16
_LONGEST_REASON = 500
# One replica alone, whatever the strategy of the run: nothing else decides what one worker needs.
_ALONE = {name: Settings.model_fields[name].default for name in settings_of(Affects.DISTRIBUTION)}
_ALONE |= {"strategy": "single", "launcher": "local"}
_OTHERS = option_prefixes_of(Affects.DISTRIBUTION)


@dataclass(frozen=True)
class Trial:
    """One size that was tried.

    Attributes:
        batch_size: Samples of one worker.
        fits: Whether the steps could be made.
        reason: Why not; empty where they could.
        is_slow: Whether it was ended because it took longer than `startup_timeout_s`.
        wall_time_s: From start to end of the process.
        answer: What the process found; None where it ended without an answer.
    """

    batch_size: int
    fits: bool
    reason: str
    is_slow: bool
    wall_time_s: float
    answer: ProbeResult | None = None


@dataclass(frozen=True)
class Trials:
    """Tries sizes of one run's batch.

    Attributes:
        run: The run.
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

    def attempt(self, batch_size: int) -> Trial:
        """Try one size.

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
            return Trial(batch_size, answer.fits, answer.reason, False, wall_time_s, answer)
        reason = why_not(code, text, batch_size, self.run.limits.startup_timeout_s)
        return Trial(batch_size, False, reason, code is None, wall_time_s)

    def _assignment(self, batch_size: int) -> Assignment:
        settings = self.run.settings.model_copy(update=_ALONE | {"batch_size": batch_size})
        options = {key: value for key, value in self.run.options.items() if not key.startswith(_OTHERS)}
        run = self.run.model_copy(update={"settings": settings, "options": options})
        return Assignment(
            run=run,
            attempt=1,
            attempt_id=f"probe-{secrets.token_hex(8)}",
            layout=plan_layout(run, self.cluster),
            data_folder=str(self.data.folder),
            data_checksum=self.data.checksum,
        )

    def _execute(self, assignment: Assignment, output: IO[bytes]) -> int | None:
        """Run the process to its end; return its exit code, None where it took too long."""
        process = subprocess.Popen(
            [sys.executable, *PROGRAM, str(self.memory_bytes)],
            env=plan(assignment, os.environ).env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            return wait(process, self.stop, self.run.limits.startup_timeout_s)
        finally:
            _end(process, assignment)


def why_not(code: int | None, text: str, batch_size: int, timeout_s: float) -> str:
    """Return why a size does not fit whose process gave no answer.

    Args:
        code: Exit code of the process; None where it took too long.
        text: What it printed.
        batch_size: The size.
        timeout_s: How long it was given.

    Raises:
        UserError: It failed, and not for lack of memory or time.
    """
    if code is None:
        return f"took longer than startup_timeout_s ({timeout_s:g} s)"
    printed = [line for line in text.splitlines() if line.strip()]
    signs = [line for line in printed if says_out_of_memory(line)]
    if signs:
        return signs[-1].strip()[:_LONGEST_REASON]
    if code < 0:
        return f"ended by {signal.Signals(-code).name} without an answer: probably a failed allocation"
    lines = "\n  ".join(printed[-_SHOWN_LINES:])
    if code == _USAGE:
        raise UserError(f"the largest batch cannot be found: {lines}")
    raise UserError(
        f"the largest batch cannot be found: with a batch of {batch_size} a step fails (exit code {code}), "
        f"and not for lack of memory:\n  {lines}"
    )


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _LONGEST_OUTPUT))
    return output.read().decode(errors="replace")


def _answer(text: str) -> ProbeResult | None:
    lines = [line for line in text.splitlines() if line.startswith(ANSWER)]
    return ProbeResult.model_validate_json(lines[-1].removeprefix(ANSWER)) if lines else None


def _end(process: subprocess.Popen[bytes], assignment: Assignment) -> None:
    """End the process and whatever it started."""

    def find() -> list[int]:
        process.poll()
        return leftovers(assignment.attempt_id, session=process.pid)

    end_all(find, assignment.run.limits.grace_s)
    process.wait()
