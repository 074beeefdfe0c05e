"""A study struck again and again: each attempt by the next fault, while dlbench makes run after run."""

import re
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dlbench.telemetry.journal import read_journal
from tests.functional.host_faults.kinds import KINDS, Kind, Struck, kill
from tests.functional.host_faults.study import HostStudy, describe, wait_until_ended
from tests.functional.studies import AttemptFolder

_POLL_S = 0.03
# A run that is not struck takes some three seconds on hosts that share two cores.
LONGEST_ATTEMPT_S = 120.0
# What must end by itself is given twice its time limit, and some seconds.
PATIENCE_S = 15.0
MOST_RESUMES = 4
# Of the launcher's log, where something is wrong.
SHOWN = 1500


@dataclass(frozen=True)
class Fault:
    """What strikes which worker, and when.

    Attributes:
        kind: One of `KINDS`.
        rank: The worker.
        after: So many rows of all workers are received; 0: as soon as the run is launched.
        start_s: In place of that: so many seconds after dlbench was started, or after the fault before, whatever it
            does then. For dlbench itself.
    """

    kind: str
    rank: int = 1
    after: int = 30
    start_s: float | None = None


@dataclass
class Report:
    """What one fault led to, and what is wrong about it."""

    fault: Fault
    attempt: AttemptFolder | None = None
    moment: str = ""
    status: str = ""
    reason: str = ""
    end_s: float | None = None
    received_before: int = 0
    acknowledged: int = 0
    kept: int = 0
    launcher_log: str = ""
    left: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def line(self) -> str:
        end = "-" if self.end_s is None else f"{self.end_s:.1f}"
        what = f"{self.fault.kind:14} worker {self.fault.rank}  {self.moment:28} {end:>5} s"
        rows = f"{self.acknowledged:4} rows received, {self.kept:4} kept, {len(self.left)} left"
        ended = f"{self.status:13} {self.reason[:150]}"
        wrong = "".join(f"\n    WRONG: {complaint}" for complaint in self.complaints)
        return f"{what}  {rows}  {ended}{wrong}" + (f"\n{self.launcher_log}" if wrong else "")


class Striker:
    """Makes a study, strikes it, and starts dlbench again where that has ended because of a fault.

    Args:
        study: The study, not begun.
        faults: What strikes, in this order; one for each attempt.
        say: Takes the line of each fault.
    """

    def __init__(self, study: HostStudy, faults: Iterable[Fault], say: Callable[[str], object]) -> None:
        self.reports: list[Report] = []
        self._study, self._faults, self._say = study, deque(faults), say
        self._seen: set[tuple[str, str]] = set()

    def run(self) -> list[Report]:
        """Let every fault strike, complete the study, and return a report of each."""
        while self._faults:
            num_left = len(self._faults)
            self._make(self._strike_all)
            assert len(self._faults) < num_left, f"no run is left to be struck\n{self._study.output[-3000:]}"
        for _ in range(MOST_RESUMES):
            if self._make(lambda process: process.wait(10 * LONGEST_ATTEMPT_S)) == 0:
                break
        for report in self.reports:
            self._examine(report)
            self._say(report.line())
        return self.reports

    def _make(self, follow: Callable[[subprocess.Popen[bytes]], object]) -> int:
        """Start dlbench, follow it to its end, and return its exit code; nothing may be left then."""
        process = self._study.start(*self._resuming())
        try:
            follow(process)
            code = process.wait(10 * LONGEST_ATTEMPT_S)
        finally:
            process.kill()
            process.wait()
        if (left := self._study.still_running(self._patience_s)) and self.reports:
            self.reports[-1].left += left
        return code

    def _resuming(self) -> list[str]:
        """Return the option that continues the study; what is no study yet is removed, as its user would."""
        if any(self._study.folder.glob("studies/*/study.json")):
            return ["--resume"]
        for half_made in self._study.folder.glob("studies/*"):
            shutil.rmtree(half_made)
        return []

    def _strike_all(self, process: subprocess.Popen[bytes]) -> None:
        while self._faults and process.poll() is None:
            if self._faults[0].start_s is not None:
                self._kill_at_any_moment(self._faults.popleft(), process)
            elif (attempt := self._next_attempt(process)) is not None:
                report = Report(self._faults.popleft(), attempt)
                self.reports.append(report)
                self._strike(report, Struck(self._study, attempt, report.fault.rank), process)

    def _kill_at_any_moment(self, fault: Fault, process: subprocess.Popen[bytes]) -> None:
        report = Report(fault, moment=f"{fault.start_s:.1f} s after the last")
        self.reports.append(report)
        time.sleep(fault.start_s or 0.0)
        before, begun = self._study.of_runs(), time.monotonic()
        while process.poll() is None:  # it may still be the program that starts it
            kill(self._study)
            time.sleep(_POLL_S)
        left = wait_until_ended(before, self._patience_s)
        report.end_s, report.left = time.monotonic() - begun, [describe(process) for process in left]
        new = [attempt for attempt in self._study.attempts() if attempt.key not in self._seen]
        self._seen |= {attempt.key for attempt in new}
        struck = [attempt for attempt in new if not _has_ended(attempt) and _is_launched(attempt)]
        report.attempt = struck[-1] if struck else None

    def _strike(self, report: Report, struck: Struck, process: subprocess.Popen[bytes]) -> None:
        kind, fault = KINDS[report.fault.kind], report.fault
        if not self._wait(lambda: _is_due(struck.attempt, fault.after), process) or _has_ended(struck.attempt):
            report.complaints.append("it came too late")
            return
        report.moment = "before the launch" if kind.is_ahead else _moment(struck.attempt)
        before, begun = self._study.of_runs(), time.monotonic()
        report.received_before = 0 if kind.is_ahead else struck.attempt.num_rows()
        kind.strike(struck)
        try:
            if kind.is_ahead:
                self._wait(lambda: _has_ended(struck.attempt), process)
                report.attempt, begun = self._next_attempt(process), time.monotonic()
            if kind.outlives:
                on_host = before & self._study.of_runs(struck.host)
                report.left += map(describe, wait_until_ended(on_host, self._patience_s))
            else:
                self._see_the_end(report, kind, process)
        finally:
            kind.undo(struck)
        self._see_the_end(report, kind, process)
        report.end_s = time.monotonic() - begun
        report.left += map(describe, wait_until_ended(before, self._patience_s))
        if kind.ends_dlbench:  # no dlbench was there to end the run
            report.end_s = time.monotonic() - begun

    def _see_the_end(self, report: Report, kind: Kind, process: subprocess.Popen[bytes]) -> None:
        attempt = report.attempt
        if kind.ends_dlbench:
            process.wait(LONGEST_ATTEMPT_S)
        elif attempt is not None:
            self._wait(lambda: _has_ended(attempt), process)

    def _next_attempt(self, process: subprocess.Popen[bytes]) -> AttemptFolder | None:
        """Wait for an attempt that was not seen yet; None where dlbench ends before."""
        found: list[AttemptFolder] = []

        def is_there() -> bool:
            found[:] = [attempt for attempt in self._study.attempts() if attempt.key not in self._seen]
            return any(map(_is_launched, found))

        if not self._wait(is_there, process):
            return None
        self._seen.add(found[0].key)
        return found[0]

    def _wait(self, is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
        """Wait while dlbench is there; return whether the condition holds."""
        deadline = time.monotonic() + LONGEST_ATTEMPT_S
        while not (found := is_so()) and process.poll() is None:
            assert time.monotonic() < deadline, self._study.output[-3000:]
            time.sleep(_POLL_S)
        return found or is_so()

    @property
    def _patience_s(self) -> float:
        return 2 * self._study.shape.orphan_timeout_s + PATIENCE_S

    def _examine(self, report: Report) -> None:
        """Compare what a fault led to with what it must lead to."""
        kind, attempt = KINDS[report.fault.kind], report.attempt
        if attempt is None:
            if report.fault.start_s is None:
                report.complaints.append("nothing was launched after it")
            report.complaints += [f"left running: {line}" for line in report.left]
            return
        report.status, report.reason = str(attempt.outcome.status), attempt.outcome.reason
        log = attempt.path / "launcher.log"
        report.launcher_log = log.read_text(errors="replace")[-SHOWN:] if log.exists() else ""
        report.acknowledged = attempt.num_rows()
        report.kept = len(self._rows_of(attempt))
        report.complaints += self._wrong(report, kind, Struck(self._study, attempt, report.fault.rank))

    def _wrong(self, report: Report, kind: Kind, struck: Struck) -> Iterator[str]:
        if report.status not in kind.status.split("|"):
            yield f"is {report.status}, not {kind.status}"
        elif not re.fullmatch(kind.pattern(struck), report.reason, re.DOTALL):
            yield f"reason is {report.reason!r}"
        if report.left:
            yield f"left running: {'; '.join(report.left)}"
        if report.end_s is not None and report.end_s > (
            longest_s := kind.longest_end_s(self._study.shape, report.status)
        ):
            yield f"it ended after {report.end_s:.1f} s, not {longest_s:.0f} s"
        if report.acknowledged < report.received_before:
            yield f"{report.received_before} rows were in the journal, {report.acknowledged} are left"
        if report.kept != report.acknowledged:
            yield f"{report.acknowledged} rows are in the journal, {report.kept} in steps.csv"

    def _rows_of(self, attempt: AttemptFolder) -> list[dict[str, str]]:
        return [row for row in self._steps if (row["run_id"], row["attempt"]) == attempt.key]

    @property
    def _steps(self) -> list[dict[str, str]]:
        if not hasattr(self, "_read"):
            self._read = self._study.rows("steps")
        return self._read


def incomplete(study: HostStudy) -> list[str]:
    """Return what of a study that must be complete is not, and rows that are lost."""
    last = {row["run_id"]: row["status"] for row in sorted(study.rows("runs"), key=lambda row: int(row["attempt"]))}
    wrong = [f"{run}: {status}" for run, status in last.items() if status != "completed"]
    if len(last) != study.shape.repeats:
        wrong.append(f"{len(last)} of {study.shape.repeats} runs were made")
    return [*wrong, *study.lost_rows(), *(f"left running: {line}" for line in study.still_running())]


def _is_due(attempt: AttemptFolder, after: int) -> bool:
    return _has_ended(attempt) or attempt.num_rows() >= after


def _is_launched(attempt: AttemptFolder) -> bool:
    return (attempt.path / "plan.json").exists()


def _has_ended(attempt: AttemptFolder) -> bool:
    return (attempt.path / "outcome.json").exists()


def _moment(attempt: AttemptFolder) -> str:
    """Describe how far an attempt is."""
    rows = {worker: len(found) for worker, found in read_journal(attempt.path / "journal.jsonl").steps.items()}
    return f"steps {' '.join(str(rows[worker]) for worker in sorted(rows))}" if rows else "launched"
