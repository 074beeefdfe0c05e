"""A hundred faults, drawn at random: right status and reason, nothing left, nothing lost, and `--resume` completes."""

import os
import random
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from dlbench.launch.logs import LIMIT_BYTES
from dlbench.records.outcome import Outcome
from tests.functional.faults.expected import HANGS, SPOKEN, expected
from tests.functional.faults.fault import FAULT, KINDS, MEMORY_GROUPS, PHASES, STEPPING, Fault
from tests.functional.faults.study import AttemptFolder, Shape, Study

NUM_FAULTS = int(os.environ.get("DLBENCH_TEST_FAULTS", "100"))
SEED = int(os.environ.get("DLBENCH_TEST_SEED", "1"))
AT_ONCE = 2
# Two studies at once on a shared machine press each other's time limits now and then. So few wrong rows are struck
# once more, alone, and printed again; a defect shows there, too.
MOST_STRUCK_AGAIN = 3
ALGORITHMS = ("auto", "ring", "recursive-doubling", "rabenseifner", "own-ring")
# Ends that nobody has to wait for: the launcher sees them, or dlbench does after its patience of 2 s; and 1 s of grace.
QUICK = ("raise", "sysexit0", "exit0", "kill", "segfault", "memory", "oom")
LONGEST_END_S = 8.0
# Time limits of the studies on a machine that has nothing else to do; on another they grow with its slowness.
STARTUP_TIMEOUT_S, STALL_TIMEOUT_S = 6.0, 2.5
# Only these are waited for; what else strikes is not to come near a limit, and its limits are so many times as long.
WAITED_FOR = (*HANGS, "stop")
FAR = 8.0
# A run of two workers on such a machine.
USUAL_RUN_S = 1.0

# The kernel counts its kills for the whole machine: another study's SIGKILL would be taken for one.
KERNEL = threading.Lock()


@dataclass
class Report:
    """What came of one fault."""

    fault: Fault
    shape: Shape
    outcome: Outcome | None = None
    end_s: float | None = None
    complaints: list[str] = field(default_factory=list)

    def line(self) -> str:
        fault, shape, outcome = self.fault, self.shape, self.outcome
        end = "-" if self.end_s is None else f"{self.end_s:.1f}"
        where = f"worker {fault.rank} of {shape.workers} {shape.algorithm or 'single'}"
        what = f"{fault.kind:9} {fault.phase:9} step {fault.step:3} {where:34} {end:>5} s"
        said = f"{outcome.status:13} {outcome.reason[:150]}" if outcome else "no outcome"
        return f"{what}  {said}" + "".join(f"\n    WRONG: {complaint}" for complaint in self.complaints)


def draw(number: int, slowness: float) -> list[tuple[Fault, Shape]]:
    """Draw faults: every kind in every phase before any comes again; the rest by chance alone."""
    rng = random.Random(SEED)
    cells: list[tuple[str, str]] = []
    while len(cells) < number:
        cells += rng.sample([(kind, phase) for kind in kinds() for phase in PHASES], len(kinds()) * len(PHASES))
    return [_drawn(kind, phase, rng, slowness) for kind, phase in cells[:number]]


def kinds() -> list[str]:
    """Return the kinds that this machine can be struck by."""
    return [kind for kind in KINDS if kind != "oom" or os.access(MEMORY_GROUPS, os.W_OK)]


def _drawn(kind: str, phase: str, rng: random.Random, slowness: float) -> tuple[Fault, Shape]:
    workers = rng.choice((1, 2, 2, 3))
    is_single = workers == 1 and rng.random() < 0.7
    algorithm = "" if is_single else rng.choice(ALGORITHMS)
    times = slowness * (1 if kind in WAITED_FOR else FAR)
    limits = (round(STARTUP_TIMEOUT_S * times, 1), round(STALL_TIMEOUT_S * times, 1))
    shape = Shape(workers, algorithm, startup_timeout_s=limits[0], stall_timeout_s=limits[1])
    return Fault(kind, phase, rng.randrange(workers), rng.randint(2, shape.steps), rng.randrange(2)), shape


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.timeout(2400)
def test_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slowness = measure_slowness(tmp_path / "whole")
    drawn = draw(NUM_FAULTS, slowness)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reports = list(pool.map(lambda entry: examine(tmp_path / str(entry[0]), *entry[1]), enumerate(drawn)))
    with capsys.disabled():
        print(f"\ntime limits are {slowness:.1f} times the usual ones")  # noqa: T201
        print("\n".join(report.line() for report in reports))  # noqa: T201
        print("\n" + table(reports))  # noqa: T201
    assert len(reports) == NUM_FAULTS
    wrong = [report for report in reports if report.complaints]
    assert len(wrong) <= MOST_STRUCK_AGAIN, [report.line() for report in wrong]
    again = [examine(tmp_path / f"again {place}", report.fault, report.shape) for place, report in enumerate(wrong)]
    with capsys.disabled():
        print("\n".join(f"struck again, alone: {report.line()}" for report in again))  # noqa: T201
    assert not [report.line() for report in again if report.complaints]


def measure_slowness(folder: Path) -> float:
    """Return how much slower than usual this machine is now, by a study that nothing strikes."""
    study = Study(folder, Shape(3, "auto", startup_timeout_s=120, stall_timeout_s=120))
    assert study.run() == 0, study.output
    return max(1.0, *(attempt.outcome.wall_time_s / USUAL_RUN_S for attempt in study.attempts()))


def examine(folder: Path, fault: Fault, shape: Shape) -> Report:
    """Let one fault strike, and look at everything it must not have done."""
    report, study = Report(fault, shape), Study(folder, shape)
    try:
        with KERNEL if fault.kind in ("kill", "oom") else nullcontext():
            code = study.run(variables={FAULT: fault.text()})
        report.complaints += struck(study, report, code)
        if not report.complaints and code:
            report.complaints += resumed(study)
    except Exception as error:  # noqa: BLE001 - one study that is broken must not hide the other ninety-nine
        report.complaints.append(f"{type(error).__name__}: {error}\n{study.output[-2000:]}")
    finally:
        study.clean_up()
        sweep_groups()
    if not report.complaints:
        shutil.rmtree(folder)
    return report


def struck(study: Study, report: Report, code: int) -> Iterator[str]:
    """Yield what is wrong after the fault."""
    fault = report.fault
    rows = study.rows("runs")
    if left := study.left_running():
        yield f"processes {left} are still running"
    if [row["repeat"] for row in rows] != ["0", "1"]:
        yield f"runs.csv has rows of the repeats {[row['repeat'] for row in rows]}"
        return
    other = rows[1 - fault.repeat]
    if other["status"] != "completed":
        yield f"the other run is {other['status']} ({other['reason']})"
    attempt = next(attempt for attempt in study.attempts() if attempt.key[0] == rows[fault.repeat]["run_id"])
    report.outcome, report.end_s = attempt.outcome, end_s(attempt, fault)
    yield from about_outcome(report, rows[fault.repeat], code)
    yield from about_logs(report, attempt)
    yield from about_rows(report, attempt)
    yield from study.lost_rows()


def about_outcome(report: Report, row: dict[str, str], code: int) -> Iterator[str]:
    fault, outcome = report.fault, report.outcome
    assert outcome is not None
    if complaint := expected(fault, report.shape).complaint(outcome.status, outcome.reason):
        yield complaint
    if (row["status"], row["reason"]) != (outcome.status, outcome.reason):
        yield f"its row is {row['status']!r}, {row['reason']!r}"
    if code != (0 if outcome.status == "completed" else 1):
        yield f"dlbench ended with exit code {code}"
    if fault.kind in QUICK and outcome.status != "completed" and not is_quick(report):
        yield f"it took {report.end_s} s from the fault to the outcome"


def is_quick(report: Report) -> bool:
    """Whether the end came soon after the fault, for the machine as it is."""
    slowness = report.shape.stall_timeout_s / (FAR * STALL_TIMEOUT_S)
    return report.end_s is not None and report.end_s <= LONGEST_END_S * slowness


def about_logs(report: Report, attempt: AttemptFolder) -> Iterator[str]:
    """The fault did strike; a hang has left its stack; no log is without bounds."""
    log = attempt.log(report.fault.rank)
    if "struck by" not in log:
        yield "the fault did not strike"
    if report.fault.kind in HANGS and f"in _{report.fault.kind}" not in log:
        yield "the stack of the worker that hangs is not in its log"
    if size := sum(path.stat().st_size for path in attempt.path.glob("*.log") if path.stat().st_size > LIMIT_BYTES):
        yield f"a log of {size:,} bytes is kept"


def about_rows(report: Report, attempt: AttemptFolder) -> Iterator[str]:
    """A worker that can speak brings home every step that it ended."""
    fault = report.fault
    if fault.kind in SPOKEN and fault.phase in STEPPING:
        last = (1 if fault.phase == "first" else fault.step) - 1
        home = len(attempt.steps().get(fault.rank, ()))
        if home != last:
            yield f"{home} steps of the struck worker came home, it had ended {last}"


def end_s(attempt: AttemptFolder, fault: Fault) -> float | None:
    """Return the seconds from the fault to the outcome."""
    found = re.search(r"struck by .* at ([\d.]+)", attempt.log(fault.rank)[:1_000_000])
    begun = datetime.fromisoformat(attempt.outcome.started_at).timestamp()
    return begun + attempt.outcome.wall_time_s - float(found[1]) if found else None


def resumed(study: Study) -> Iterator[str]:
    """Continue without the fault, and yield what is wrong then."""
    before = study.rows("runs")
    code = study.run("--resume")
    if code != 0:
        yield f"--resume ended with exit code {code}: {study.output[-1000:]}"
    if left := study.left_running():
        yield f"processes {left} are still running after --resume"
    rows = study.rows("runs")
    old = [row for row in rows if row in before]
    new = [row for row in rows if row not in before]
    if old != before or [(row["attempt"], row["status"]) for row in new] != [("2", "completed")]:
        yield f"after --resume the rows are {[(row['run_id'], row['attempt'], row['status']) for row in rows]}"
    yield from study.lost_rows()


def sweep_groups() -> None:
    """Remove the control groups of processes that the kernel has killed."""
    for group in MEMORY_GROUPS.glob("faults-*"):
        if not (group / "cgroup.procs").read_text().split():
            group.rmdir()


def table(reports: list[Report]) -> str:
    """Return kinds x phases: how many faults there were, and of which how many came out wrong."""
    counts: Counter[tuple[str, str]] = Counter((r.fault.kind, r.fault.phase) for r in reports)
    wrong: Counter[tuple[str, str]] = Counter((r.fault.kind, r.fault.phase) for r in reports if r.complaints)
    lines = [f"{'':9} " + " ".join(f"{phase:>9}" for phase in PHASES)]
    for kind in KINDS:
        cells = [f"{counts[kind, p]}" + f" ({wrong[kind, p]} wrong)" * bool(wrong[kind, p]) for p in PHASES]
        lines.append(f"{kind:9} " + " ".join(f"{cell:>9}" for cell in cells))
    statuses = Counter(str(r.outcome.status) if r.outcome else "no outcome" for r in reports)
    told = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    return "\n".join([*lines, f"{len(reports)} faults: {told}; {sum(wrong.values())} came out wrong"])
