"""What is shown while a study runs: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arm_table import short_rate
from dlbench.analysis.formatting import accuracy, duration, number, quantity
from dlbench.cli.summary import where_logs_are, why_it_ended
from dlbench.cli.tables import drawn
from dlbench.launch.execute import Progress
from dlbench.records.outcome import Outcome, Status
from dlbench.scenario.metrics import BUILT_IN, QUALITY
from dlbench.scenario.run_spec import RunSpec
from dlbench.study.budget import Durations
from dlbench.study.runner import Watcher
from dlbench.telemetry.attempt_session import WorkerView

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PLAIN_INTERVAL_S = 10.0
MAX_WORKERS_SHOWN = 16
UNKNOWN = "-"
# The loss is that of a worker's last step on its own samples; the accuracy that of the last evaluation.
_COLUMNS = ("worker", "phase", "epoch", "step", "step loss", "validation accuracy", "samples/s now")


def shown_run(run: RunSpec) -> str:
    """Return what identifies a run, in one line."""
    return f"{run.run_id}  {run.label}, repeat {run.repeat}"


def shown_end(outcome: Outcome, row: Mapping[str, Any]) -> str:
    """Return how a run ended, in one line."""
    parts = [f"{outcome.status} after {outcome.wall_time_s:.1f} s"]
    if row.get("samples_per_s") is not None:
        parts.append(f"{number(row['samples_per_s'])} samples/s")
    elif rate := short_rate([row]):
        parts.append(f"samples: {rate}")
    scores = (BUILT_IN[column] for column in QUALITY if row.get(column) is not None)
    parts += [f"{metric.title} {quantity(metric, row[metric.column])}" for metric in scores]
    return ", ".join(parts) + why_it_ended(outcome.reason, outcome.status)


def worker_cells(worker: WorkerView) -> list[str]:
    """Return worker, phase, epoch, step, loss, accuracy and samples/s as text."""
    return [
        str(worker.rank),
        worker.phase or UNKNOWN,
        "extra" if worker.epoch == 0 and worker.step else _number(worker.epoch),  # extending the window
        _number(worker.step),
        _number(worker.loss),
        _number(worker.accuracy, accuracy),
        _number(worker.samples_per_s),
    ]


class Display(Watcher):
    """Counts the runs of a study and estimates the time left.

    Attributes:
        total: Runs asked for.
        done: Runs that are complete already or have ended since.
        folder: The study.
        current: The run that was launched last, until it ends.
        attempt: Its attempt.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = self.done = 0
        self.folder = Path()
        self.current: RunSpec | None = None
        self.clock = clock
        self.attempt = 0
        self._waiting: list[RunSpec] = []
        self._started_at = 0.0
        self._durations = Durations()

    def begin(self, folder: Path, todo: Sequence[RunSpec], done: int, durations: Durations) -> None:
        """Note the runs that will be made."""
        self.folder, self._durations = folder, durations
        self.total, self.done, self._waiting = done + len(todo), done, list(todo)

    def start(self, run: RunSpec, attempt: int) -> None:
        """Note that a run was launched."""
        self._waiting.remove(run)
        self.current, self.attempt, self._started_at = run, attempt, self.clock()

    def end(self, run: RunSpec, outcome: Outcome, row: Mapping[str, Any]) -> None:
        """Note that a run has ended."""
        self.done += 1
        self.current = None

    def logs(self, run: RunSpec, outcome: Outcome) -> list[str]:
        """Return where the logs of a run are that has not completed."""
        if outcome.status is Status.COMPLETED:
            return []
        return where_logs_are(self.folder, run.run_id, self.attempt)

    def time_left_s(self) -> float | None:
        """Return the time that the current and the waiting runs will take; None where no run has completed."""
        left = self._durations.total_s(self._waiting)
        if left is None or self.current is None:
            return left
        expected = self._durations.expected_s(self.current) or 0.0
        # What is late may be as late again: the time left then grows.
        return left + abs(expected - (self.clock() - self._started_at))


class PlainLines(Display):
    """A line for each start and end of a run, and one about every ten seconds between."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._write = write
        self._written_at = 0.0

    def say(self, line: str) -> None:
        """Write a line."""
        self._write(line)

    def begin(self, folder: Path, todo: Sequence[RunSpec], done: int, durations: Durations) -> None:
        """Write what will be made."""
        is_first = self.folder != folder
        super().begin(folder, todo, done, durations)
        runs = f"{len(todo)}{' more' * (not is_first)} run{'' if len(todo) == 1 else 's'}"
        already = f", {done} of {self.total} are done already" if done and is_first else ""
        self._write(f"study {folder}: {runs} to make{already}" if is_first else runs)

    def start(self, run: RunSpec, attempt: int) -> None:
        """Write which run starts."""
        super().start(run, attempt)
        self._written_at = self.clock()
        again = f", attempt {attempt}" if attempt > 1 else ""
        self._write(f"[{self.done + 1}/{self.total}] {shown_run(run)}{again}")

    def progress(self, progress: Progress) -> None:
        """Write how far the workers are, every ten seconds."""
        if self.clock() - self._written_at < PLAIN_INTERVAL_S:
            return
        self._written_at = self.clock()
        workers = [_in_words(worker) for worker in progress.workers[:MAX_WORKERS_SHOWN]]
        left = self.time_left_s()
        note = f" (about {duration(left)} left)" if left is not None else ""
        self._write(f"  {duration(progress.elapsed_s)}: {'; '.join(workers) or 'starting'}{note}")

    def end(self, run: RunSpec, outcome: Outcome, row: Mapping[str, Any]) -> None:
        """Write how a run ended."""
        super().end(run, outcome, row)
        for line in (shown_end(outcome, row), *self.logs(run, outcome)):
            self._write(f"  {line}")


class LiveTable(Display):
    """A table of the current run's workers that is drawn again as they advance; ended runs scroll by above it."""

    def __init__(self, console: "Console") -> None:
        from rich.live import Live

        super().__init__()
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update("", refresh=True)
        self._live.stop()

    def say(self, line: str) -> None:
        """Print a line above the table; it is text, never markup."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, folder: Path, todo: Sequence[RunSpec], done: int, durations: Durations) -> None:
        """Print where the study is."""
        if self.folder != folder:
            self.say(f"study {folder}")
        super().begin(folder, todo, done, durations)
        self._draw()

    def start(self, run: RunSpec, attempt: int) -> None:
        """Draw the run that starts."""
        super().start(run, attempt)
        self._draw()

    def progress(self, progress: Progress) -> None:
        """Draw how far the workers are."""
        self._draw(progress)

    def end(self, run: RunSpec, outcome: Outcome, row: Mapping[str, Any]) -> None:
        """Print how a run ended."""
        super().end(run, outcome, row)
        self.say(f"[{self.done}/{self.total}] {shown_run(run)}: {shown_end(outcome, row)}")
        for line in self.logs(run, outcome):
            self.say(f"  {line}")
        self._draw()

    def _draw(self, progress: Progress | None = None) -> None:
        self._live.update(self._picture(progress), refresh=True)

    def _picture(self, progress: Progress | None) -> "RenderableType":
        """Return how the study stands as something that rich draws; every name in it is text, never markup."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        head = Table.grid(padding=(0, 1))
        left = duration(self.time_left_s()) or UNKNOWN
        bar = ProgressBar(self.total, self.done, width=30)
        head.add_row(bar, Text(f"{self.done}/{self.total} runs done, time left: {left}", style="bold"))
        if self.current is None:
            return head
        elapsed = f", {duration(progress.elapsed_s)}" if progress else ""
        title = Text(f"{shown_run(self.current)}, attempt {self.attempt}{elapsed}")
        workers = progress.workers if progress else ()
        rows = map(worker_cells, workers[:MAX_WORKERS_SHOWN])
        table = drawn("", _COLUMNS, rows, right=set(_COLUMNS) - {"phase"})
        more = len(workers) - MAX_WORKERS_SHOWN
        return Group(head, title, table, *([Text(f"and {more} more workers")] if more > 0 else []))


def _in_words(worker: WorkerView) -> str:
    rank, phase, epoch, step, loss, accuracy, rate = worker_cells(worker)
    values = (("epoch", epoch), ("step", step), ("step loss", loss), ("validation accuracy", accuracy))
    words = [f"{name} {value}" for name, value in values if value != UNKNOWN]
    words += [f"{rate} samples/s now"] if rate != UNKNOWN else []
    return " ".join([f"worker {rank} ({phase})", *words])


def _number(value: float | None, written: Callable[[float], str] = number) -> str:
    return UNKNOWN if value is None else written(value)
