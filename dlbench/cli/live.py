"""What is shown while a study runs: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from dlbench.launch.execute import Progress, WorkerProgress
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.run_spec import RunSpec

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

PLAIN_INTERVAL_S = 10.0
MAX_WORKERS_SHOWN = 16
UNKNOWN = "-"


@dataclass
class Course:
    """How far a study is; pure but for the clock it is given.

    Attributes:
        total: Runs asked for.
        done: Runs that are complete already or have ended since.
        waiting: Runs still to be launched.
    """

    clock: Callable[[], float] = time.monotonic
    total: int = 0
    done: int = 0
    waiting: list[RunSpec] = field(default_factory=list)
    current: RunSpec | None = None
    attempt: int = 0
    progress: Progress | None = None
    _started_at: float = 0.0
    _took: dict[str, list[float]] = field(default_factory=dict)

    def begin(self, todo: Sequence[RunSpec], done: int) -> None:
        """Note the runs that will be made."""
        self.total, self.done, self.waiting = done + len(todo), done, list(todo)

    def start(self, run: RunSpec, attempt: int) -> None:
        """Note that a run was launched."""
        self.waiting = [other for other in self.waiting if other.run_id != run.run_id]
        self.current, self.attempt, self.progress = run, attempt, None
        self._started_at = self.clock()

    def end(self, run: RunSpec, outcome: Outcome) -> None:
        """Note that a run has ended; only completed ones tell how long others will take."""
        if outcome.status is Status.COMPLETED:
            self._took.setdefault(run.fingerprint, []).append(outcome.wall_time_s)
        self.done += 1
        self.current, self.progress = None, None

    def time_left_s(self) -> float | None:
        """Return the time that the current and the waiting runs will take, from those that have ended; or None."""
        if not self._took:
            return None
        left = sum(self._expected_s(run) for run in self.waiting)
        if self.current is not None:
            left += max(0.0, self._expected_s(self.current) - (self.clock() - self._started_at))
        return left

    def _expected_s(self, run: RunSpec) -> float:
        own = self._took.get(run.fingerprint)
        return median(own) if own else fmean(median(times) for times in self._took.values())


def shown_time(seconds: float | None) -> str:
    """Return a duration such as `1 h 02 min`, `3 min 20 s`, `12 s`; `-` where it is unknown."""
    if seconds is None:
        return UNKNOWN
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def shown_rate(samples_per_s: float) -> str:
    """Return samples per second with three digits at least, and thousands apart."""
    return f"{samples_per_s:,.0f}" if samples_per_s >= 100 else f"{samples_per_s:.3g}"


def shown_run(run: RunSpec) -> str:
    """Return what tells a run from the others, in one line."""
    return f"{run.run_id}  {run.label}, repeat {run.repeat}"


def shown_end(outcome: Outcome, row: Mapping[str, Any]) -> str:
    """Return how a run ended, in one line."""
    parts = [f"{outcome.status} after {outcome.wall_time_s:.1f} s"]
    if row.get("samples_per_s") is not None:
        parts.append(f"{shown_rate(row['samples_per_s'])} samples/s")
    if row.get("validation_accuracy") is not None:
        parts.append(f"validation accuracy {row['validation_accuracy']:.4f}")
    if row.get("validation_loss") is not None:
        parts.append(f"loss {row['validation_loss']:.4f}")
    reason = outcome.reason.strip().split("\n")[0]
    return ", ".join(parts) + (f": {reason}" if reason not in ("", outcome.status) else "")


def worker_cells(worker: WorkerProgress) -> list[str]:
    """Return worker, phase, epoch, step, loss, accuracy and samples/s as text."""
    return [
        str(worker.rank),
        worker.phase or UNKNOWN,
        "extra" if worker.epoch == 0 and worker.step else _number(worker.epoch, "d"),  # extending the window
        _number(worker.step, "d"),
        _number(worker.loss, ".4f"),
        _number(worker.accuracy, ".4f"),
        UNKNOWN if worker.samples_per_s is None else shown_rate(worker.samples_per_s),
    ]


class PlainLines:
    """A line for each start and end of a run, and one about every ten seconds between."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._course = Course(clock)
        self._clock = clock
        self._said_at = 0.0

    def say(self, line: str) -> None:
        """Write a line."""
        self._write(line)

    def begin(self, folder: Path, todo: Sequence[RunSpec], done: int) -> None:
        """Write what will be made."""
        self._course.begin(todo, done)
        already = f", {done} of {self._course.total} are done already" if done else ""
        self._write(f"study {folder}: {len(todo)} run{'' if len(todo) == 1 else 's'} to make{already}")

    def start(self, run: RunSpec, attempt: int) -> None:
        """Write which run starts."""
        self._course.start(run, attempt)
        self._said_at = self._clock()
        again = f", attempt {attempt}" if attempt > 1 else ""
        self._write(f"[{self._course.done + 1}/{self._course.total}] {shown_run(run)}{again}")

    def progress(self, progress: Progress) -> None:
        """Write how far the workers are, now and then."""
        if self._clock() - self._said_at < PLAIN_INTERVAL_S:
            return
        self._said_at = self._clock()
        shown = [_in_words(worker) for worker in progress.workers[:MAX_WORKERS_SHOWN]]
        left = self._course.time_left_s()
        note = f" (about {shown_time(left)} left)" if left is not None else ""
        self._write(f"  {shown_time(progress.elapsed_s)}: {'; '.join(shown) or 'starting'}{note}")

    def end(self, run: RunSpec, outcome: Outcome, row: Mapping[str, Any]) -> None:
        """Write how a run ended."""
        self._course.end(run, outcome)
        self._write(f"  {shown_end(outcome, row)}")


class LiveTable:
    """A table of the current run's workers that is drawn anew as they get on; ended runs scroll by above it."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._course = Course()
        self._live: Live | None = None

    def __enter__(self) -> "LiveTable":
        from rich.live import Live

        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update("", refresh=True)
            self._live.stop()

    def say(self, line: str) -> None:
        """Print a line above the table."""
        from rich.text import Text

        self._console.print(Text(line), soft_wrap=True)

    def begin(self, folder: Path, todo: Sequence[RunSpec], done: int) -> None:
        """Print where the study is."""
        self._course.begin(todo, done)
        self.say(f"study {folder}")
        self._draw()

    def start(self, run: RunSpec, attempt: int) -> None:
        """Draw the run that starts."""
        self._course.start(run, attempt)
        self._draw()

    def progress(self, progress: Progress) -> None:
        """Draw how far the workers are."""
        self._course.progress = progress
        self._draw()

    def end(self, run: RunSpec, outcome: Outcome, row: Mapping[str, Any]) -> None:
        """Print how a run ended."""
        self._course.end(run, outcome)
        self.say(f"[{self._course.done}/{self._course.total}] {shown_run(run)}: {shown_end(outcome, row)}")
        self._draw()

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(drawn(self._course), refresh=True)


def drawn(course: Course) -> "RenderableType":
    """Return a study's course as something that rich draws; every name in it is text, never markup."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    left = shown_time(course.time_left_s())
    head = Text(f"{course.done}/{course.total} runs done, time left: {left}", style="bold")
    if course.current is None:
        return head
    elapsed = f", {shown_time(course.progress.elapsed_s)}" if course.progress else ""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("worker", "phase", "epoch", "step", "loss", "accuracy", "samples/s"):
        table.add_column(name, justify="left" if name == "phase" else "right")
    workers = course.progress.workers if course.progress else ()
    for worker in workers[:MAX_WORKERS_SHOWN]:
        table.add_row(*map(Text, worker_cells(worker)))
    more = len(workers) - MAX_WORKERS_SHOWN
    rest = [Text(f"and {more} more workers")] if more > 0 else []
    return Group(head, Text(f"{shown_run(course.current)}, attempt {course.attempt}{elapsed}"), table, *rest)


def _in_words(worker: WorkerProgress) -> str:
    rank, phase, epoch, step, loss, accuracy, rate = worker_cells(worker)
    values = (("epoch", epoch), ("step", step), ("loss", loss), ("accuracy", accuracy))
    known = [f"{name} {value}" for name, value in values if value != UNKNOWN]
    known += [f"{rate} samples/s"] if rate != UNKNOWN else []
    return " ".join([f"worker {rank} ({phase})", *known])


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)
