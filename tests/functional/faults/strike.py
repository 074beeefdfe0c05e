"""Let faults strike a study, one run each, continue it without them, and return everything that is wrong."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from dlbench.launch.logs import LIMIT_BYTES
from dlbench.records.outcome import Outcome
from tests.functional.faults.expected import HANGS, REPORTED, expected
from tests.functional.faults.fault import FAULT, KINDS, MEMORY_GROUPS, STEPPING, Fault, as_text
from tests.functional.faults.study import Shape, Study
from tests.functional.studies import AttemptFolder

# Ends that need no time limit: the launcher sees them, or dlbench does after waiting for 2 s and 1 s of grace.
QUICK = ("raise", "sysexit0", "exit0", "kill", "segfault", "memory", "oom")
# Faults that end at a time limit, which is short for them; no other fault may come near a limit.
WAITED_FOR = (*HANGS, "stop")
SHORT = {"startup_timeout_s": 12.0, "stall_timeout_s": 5.0}
LONG = {"startup_timeout_s": 60.0, "stall_timeout_s": 40.0}


@dataclass
class Report:
    """What one fault led to, and what is wrong about it."""

    fault: Fault
    shape: Shape
    outcome: Outcome | None = None
    end_s: float | None = None
    complaints: list[str] = field(default_factory=list)

    def line(self) -> str:
        fault, shape, outcome = self.fault, self.shape, self.outcome
        end = "-" if self.end_s is None else f"{self.end_s:.1f}"
        where = f"worker {fault.rank} of {shape.workers} {shape.algorithm or 'single'}"
        what = f"{fault.kind:9} {fault.phase:10} step {fault.step:3} {where:34} {end:>5} s"
        ended = f"{outcome.status:13} {outcome.reason[:150]}" if outcome else "no outcome"
        return f"{what}  {ended}" + "".join(f"\n    WRONG: {complaint}" for complaint in self.complaints)


def kinds() -> list[str]:
    """Return the kinds of faults that are possible on this machine."""
    return [kind for kind in KINDS if kind != "oom" or os.access(MEMORY_GROUPS, os.W_OK)]


def examine(folder: Path, shape: Shape, faults: Sequence[Fault]) -> list[Report]:
    """Make a study in which fault i strikes run i and none strikes the last run; then continue it without faults.

    Args:
        folder: Where the study is made; removed where nothing is wrong.
        shape: What is trained; its number of repeats is set here.
        faults: At most one for each run; their repeats are set here.

    Returns:
        One report for each fault. What is wrong with the study as a whole is a complaint of the first.
    """
    placed = [replace_repeat(fault, number) for number, fault in enumerate(faults)]
    shape = Shape(**{**vars(shape), "repeats": len(placed) + 1})
    reports, study = [Report(fault, shape) for fault in placed], Study(folder, shape)
    try:
        code = study.run(variables={FAULT: as_text(placed)}, timeout_s=60.0 * shape.repeats)
        reports[0].complaints += about_study(study, reports, code)
        reports[0].complaints += resumed(study)
    except Exception as error:  # noqa: BLE001 - the reports of the other studies are wanted, too
        reports[0].complaints.append(f"{type(error).__name__}: {error}\n{study.output[-2000:]}")
    finally:
        study.clean_up()
        _remove_empty_groups()
    if not any(report.complaints for report in reports):
        shutil.rmtree(folder)
    return reports


def replace_repeat(fault: Fault, repeat: int) -> Fault:
    """Return the same fault in another run."""
    return Fault(fault.kind, fault.phase, fault.rank, fault.step, repeat)


def about_study(study: Study, reports: Sequence[Report], code: int) -> Iterator[str]:
    """Fill in the reports; yield what is wrong with the study as a whole."""
    rows = study.rows("runs")
    if left := study.left_running():
        yield f"processes {left} are still running"
    if files := study.left_files():
        yield f"temporary files are left: {files}"
    if [int(row["repeat"]) for row in rows] != list(range(len(reports) + 1)):
        yield f"runs.csv has rows of the repeats {[row['repeat'] for row in rows]}"
        return
    if rows[-1]["status"] != "completed":
        yield f"the run without a fault is {rows[-1]['status']} ({rows[-1]['reason']})"
    if code != (0 if {row["status"] for row in rows} == {"completed"} else 1):
        yield f"dlbench ended with exit code {code}"
    folders = {attempt.key[0]: attempt for attempt in study.attempts()}
    for report, row in zip(reports, rows, strict=False):
        attempt = folders[row["run_id"]]
        report.outcome, report.end_s = attempt.outcome, end_s(attempt, report.fault)
        report.complaints += [*about_outcome(report, row), *about_log(report, attempt), *about_rows(report, attempt)]
    yield from study.lost_rows()


def about_outcome(report: Report, row: dict[str, str]) -> Iterator[str]:
    """Yield what is wrong with status and reason."""
    fault, outcome = report.fault, report.outcome
    assert outcome is not None
    if complaint := expected(fault, report.shape).complaint(outcome.status, outcome.reason):
        yield complaint
    if (row["status"], row["reason"]) != (outcome.status, outcome.reason):
        yield f"its row is {row['status']!r}, {row['reason']!r}"
    is_quick = fault.kind in QUICK and outcome.status != "completed"
    if is_quick and (report.end_s is None or report.end_s >= report.shape.stall_timeout_s):
        yield f"it took {report.end_s} s from the fault to the outcome"


def about_log(report: Report, attempt: AttemptFolder) -> Iterator[str]:
    """Yield what the logs lack: the fault strikes; a hang leaves its stack; every log is bounded."""
    log = attempt.log(report.fault.rank)
    if "struck by" not in log:
        yield "the fault did not strike"
    if report.fault.kind in HANGS and f"in _{report.fault.kind}" not in log:
        yield "the stack of the worker that hangs is not in its log"
    if size := sum(path.stat().st_size for path in attempt.path.glob("*.log") if path.stat().st_size > LIMIT_BYTES):
        yield f"a log of {size:,} bytes is kept"


def about_rows(report: Report, attempt: AttemptFolder) -> Iterator[str]:
    """Yield which steps are lost of a worker that could still send its rows."""
    fault = report.fault
    if fault.kind in REPORTED and fault.phase in STEPPING:
        last = (1 if fault.phase == "first" else fault.step) - 1
        received = len(attempt.steps().get(fault.rank, ()))
        if received != last:
            yield f"{received} steps of the struck worker were received, it had completed {last}"


def end_s(attempt: AttemptFolder, fault: Fault) -> float | None:
    """Return the seconds from the fault to the outcome; None where the fault did not strike."""
    found = re.search(r"struck by .* at ([\d.]+)", attempt.log(fault.rank)[:1_000_000])
    begun = datetime.fromisoformat(attempt.outcome.started_at).timestamp()
    return begun + attempt.outcome.wall_time_s - float(found[1]) if found else None


def resumed(study: Study) -> Iterator[str]:
    """Continue without faults, and yield what is wrong then."""
    before = study.rows("runs")
    code = study.run("--resume", timeout_s=30.0 * len(before))
    if code != 0:
        yield f"--resume ended with exit code {code}: {study.output[-1000:]}"
    if left := study.left_running():
        yield f"processes {left} are still running after --resume"
    if files := study.left_files():
        yield f"temporary files are left after --resume: {files}"
    rows = study.rows("runs")
    if [row for row in rows if row in before] != before:
        yield "--resume changed rows of attempts that had ended"
    new = [(row["run_id"], row["attempt"], row["status"]) for row in rows if row not in before]
    again = [row["run_id"] for row in before if row["status"] != "completed"]
    if sorted(new) != sorted((run_id, "2", "completed") for run_id in again):
        yield f"after --resume the new rows are {new}"
    yield from study.lost_rows()


def _remove_empty_groups() -> None:
    """Remove the control groups of processes that the kernel has killed."""
    for group in MEMORY_GROUPS.glob("faults-*"):
        if not (group / "cgroup.procs").read_text().split():
            group.rmdir()
