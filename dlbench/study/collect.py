"""The CSV files of a study, made from the journals of its attempts.

`runs.csv` has one row for each attempt and is replaced after every one. The other tables are derived from the
journals; they are replaced when what is new is more than an eighth of what they hold, and when the study is opened
or left, so that a study of 1,000 runs copies its steps a few times only, not 1,000 times. Attempts stand in the
order they were started in.
"""

import contextlib
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from dlbench.analysis import summary_tables
from dlbench.analysis.arms import measured
from dlbench.analysis.metrics.row import AttemptRecords, run_row, topology
from dlbench.analysis.metrics.warm_up import without_warm_up
from dlbench.errors import UserError, shown
from dlbench.records import files, parquet
from dlbench.records.assignment import Assignment
from dlbench.records.columns import (
    BATCH_CHANGES,
    FIELD,
    NODES,
    OCCASIONAL,
    STEP_PHASES,
    STEPS,
    TOPOLOGY,
    Column,
    names,
)
from dlbench.records.outcome import Outcome, Status, write_outcome
from dlbench.records.tables import cell, header, line, lines_of, narrowed, whole_cells, write_lines
from dlbench.scenario.check.warnings import MOST_CSV_BYTES
from dlbench.scenario.layout import Layout
from dlbench.scenario.metrics import BUILT_IN
from dlbench.scenario.scenario import StepTable
from dlbench.study.attempts import Attempt, attempts_of, damage
from dlbench.study.folder import Folder
from dlbench.telemetry.journal import Journal, Rows, read_journal

DERIVED = ("epochs", "steps", "sensors", "topology")
# The derived tables are replaced when this much of what they hold is new.
NEW_SHARE = 1 / 8
COPY_BYTES = 1 << 20
# No whole number of a table is so large.
BEYOND = 2**63
# `perf_counter` resolves nanoseconds: what a float says below one is no time.
TIME_DIGITS = 9


class Collector:
    """Keeps the CSV files of one study up to date with its attempts. Hold the study's lock.

    An attempt whose files are damaged has failed, whatever its outcome said: a resumed study repeats its run.

    Args:
        folder: The study.
        step_table: How the rows of steps are kept.
        say: Takes a line about that.

    Attributes:
        rows: The row of each attempt collected so far, in order.
        problem: Which table cannot be written, and why; empty while all can. Nothing is lost with it: the journals
            hold every row, and the next dlbench that continues the study makes the tables from them.
    """

    def __init__(
        self, folder: Folder, step_table: StepTable = StepTable.AUTO, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self.problem = ""
        self.know(folder)
        metrics = dict.fromkeys(name for run in folder.record.runs for name in run.metrics)
        self._metrics = tuple(name for name in metrics if name not in BUILT_IN)
        self._options = tuple(dict.fromkeys(key for run in folder.record.runs for key in run.options))
        self._lines: list[str] = []
        self._waiting: list[tuple[Attempt, Layout | None]] = []
        self._has_tables = False
        self._written_bytes = 0
        self._step_table, self._say = step_table, say

    def know(self, folder: Folder) -> None:
        """Take a record that has more runs; their metrics and options are those that it had."""
        self._folder = folder
        self._runs = {run.run_id: run for run in folder.record.runs}

    def rebuild(self) -> None:
        """Make all tables from every attempt that has ended; to be called first.

        Raises:
            OSError: The disk is full; the tables are as they were.
        """
        ended = [
            (attempt, outcome)
            for run_id in self._runs
            for attempt in attempts_of(self._folder.path, run_id)
            if (outcome := attempt.outcome()) is not None
        ]
        for attempt, outcome in sorted(ended, key=lambda pair: pair[1].started_at):
            self._take(attempt, outcome)
        self._write_runs()
        self.flush()

    def add(self, attempt: Attempt, outcome: Outcome) -> dict[str, Any]:
        """Add an attempt that has ended; return its row.

        Raises:
            OSError: The disk is full; the tables are as they were.
        """
        row = self._take(attempt, outcome)
        self._write_runs()
        if self._waiting_bytes() > NEW_SHARE * self._written_bytes:
            self.flush()
        return row

    def flush(self) -> None:
        """Bring the derived tables up to date.

        Raises:
            OSError: The disk is full; the tables are as they were.
        """
        if self._has_tables and not self._waiting:
            return
        with self._tolerant():
            begun = [name for name in OCCASIONAL if (self._folder.path / files.table(name)).exists()]
            with contextlib.ExitStack() as stack:
                opened = {table: stack.enter_context(self._continued(table)) for table in (*DERIVED, *begun)}
                for attempt, layout in self._waiting:
                    journal = read_journal(attempt.folder / files.JOURNAL)
                    places = () if layout is None else topology(layout, self._folder.record.cluster, journal)
                    lines = _lines(attempt, journal, places, self._metrics)
                    for table, lines_of_table in lines.items():
                        if table not in opened:
                            opened[table] = stack.enter_context(self._continued(table))
                        opened[table].writelines(lines_of_table)
            self._written_bytes += self._waiting_bytes()
            self._has_tables, self._waiting = True, []

    def finish(self) -> None:
        """Bring every table up to date, `summary.csv` and `arms.csv` too, in the form in which it stays.

        Raises:
            OSError: The disk is full; the tables are as they were.
        """
        self.flush()
        self._compact()
        with self._tolerant():
            for name, text in summary_tables.tables(measured(self.rows)).items():
                files.write_text(self._folder.path / name, text)

    def _compact(self) -> None:
        """Keep the rows of steps as Parquet where that was chosen, or where CSV is too large."""
        path = self._folder.path / files.table("steps")
        is_large = path.exists() and path.stat().st_size > MOST_CSV_BYTES
        if self._step_table is StepTable.CSV or not (is_large or self._step_table is StepTable.PARQUET):
            return
        if not parquet.is_installed():
            self._say("steps.csv has more than 50 MB; as steps.parquet it is a quarter of that: pip install pyarrow")
            return
        with self._tolerant():
            parquet.convert(path, "steps")

    @contextlib.contextmanager
    def _tolerant(self) -> Iterator[None]:
        """Note that a table cannot be written, and go on; without room nothing goes on."""
        try:
            yield
        except OSError as error:
            if error.errno in files.FULL or not self._folder.path.is_dir():
                raise
            name = Path(error.filename2 or error.filename or "").name or "a table"
            self.problem = f"{name} cannot be written: {error.strerror or error}"

    def _take(self, attempt: Attempt, outcome: Outcome) -> dict[str, Any]:
        try:
            assignment, journal = attempt.assignment(), read_journal(attempt.folder / files.JOURNAL)
            if outcome.status is Status.COMPLETED:
                ranks = {place.rank for place in assignment.layout.places} if assignment else {0}
                if missing := sorted(ranks - journal.ended):
                    where = str(attempt.folder / files.JOURNAL)
                    raise UserError(f"it lacks the last lines of worker {', '.join(map(str, missing))}", where=where)
            row = self._row(attempt, assignment, outcome, journal)
            self._waiting.append((attempt, assignment.layout if assignment else None))
        except (UserError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:
            # Whatever a journal holds fails its own run alone; the next runs are made.
            if outcome.status.is_final:
                outcome = outcome.model_copy(update={"status": Status.FAILED, "reason": damage(error)})
                write_outcome(attempt.folder, outcome)
            row = self._row(attempt, None, outcome, Journal())
        self.rows.append(row)
        self._lines.append(line(row.get(column) for column in (*names("runs"), *self._extra("runs"))))
        return row

    def _row(
        self, attempt: Attempt, assignment: Assignment | None, outcome: Outcome, journal: Journal
    ) -> dict[str, Any]:
        """Return the row of an attempt.

        Raises:
            OverflowError: A number of it is beyond what a table holds. Other errors come from what the journal holds.
        """
        records = AttemptRecords(
            self._folder.path.name,
            attempt.number,
            outcome,
            self._folder.machine,
            assignment.data_checksum if assignment else "",
            self._folder.record.cluster.prices,
            assignment.data_doubt if assignment else "",
        )
        row = run_row(self._runs[attempt.run_id], assignment.layout if assignment else None, records, journal)
        for name, value in row.items():
            limit = BEYOND if isinstance(value, int) else math.inf
            if isinstance(value, int | float) and abs(value) >= limit:
                raise OverflowError(f"{name} is {shown(value)}")
        return row

    def _waiting_bytes(self) -> int:
        """Return the size of the journals that the derived tables do not hold yet."""
        journals = [attempt.folder / files.JOURNAL for attempt, _ in self._waiting]
        return sum(path.stat().st_size for path in journals if path.exists())

    def _write_runs(self) -> None:
        with self._tolerant():
            write_lines(self._folder.path / files.table("runs"), "runs", self._lines, self._extra("runs"))

    @contextlib.contextmanager
    def _continued(self, table: str) -> Iterator[IO[str]]:
        """Open a new version of a table that begins with what this collector has written of it."""
        path = self._folder.path / files.table(table)
        with files.replacing(path) as file:
            if self._has_tables and path.exists():
                with path.open(encoding="utf-8", newline="") as before:
                    shutil.copyfileobj(before, file, COPY_BYTES)
            else:
                file.write(header(table, self._extra(table)))
            yield file
        (self._folder.path / files.compact_table(table)).unlink(missing_ok=True)

    def _extra(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table that depend on the scenario."""
        return {"runs": (*self._metrics, *self._options), "epochs": self._metrics}.get(table, ())


def _lines(
    attempt: Attempt, journal: Journal, places: Iterable[Mapping[str, Any]], metrics: Iterable[str]
) -> dict[str, Iterable[str]]:
    """Return one attempt's lines of the tables in `DERIVED`, and of those in `OCCASIONAL` that it has."""
    start = (attempt.run_id, attempt.number)
    # One process is one node, or simulates all.
    nodes = [
        (rank + place, node.model_dump())
        for rank, result in journal.results.items()
        for place, node in enumerate(result.nodes)
    ]
    occasional = {
        "nodes": [line((*start, number, *(node[column.name] for column in NODES[3:]))) for number, node in nodes],
        "links": [line((*start, number, *link)) for number, node in nodes for link in node["links"]],
        "staleness": [line((*start, *pair)) for result in journal.results.values() for pair in result.staleness],
        "batch_changes": [
            line((*start, *(getattr(change, column.name) for column in BATCH_CHANGES[2:])))
            for change in journal.batch_changes
        ],
    }
    journal, _ = without_warm_up(journal)
    epoch_columns = [*names("epochs")[2:], *metrics]
    # Those that came out of a checkpoint say themselves which attempt trained them.
    epochs = ({"trained_in_attempt": attempt.number, **row} for row in journal.epochs)
    return {
        "topology": (line((*start, *(row.get(column.name) for column in TOPOLOGY[2:]))) for row in places),
        "epochs": (line((*start, *(row.get(name) for name in epoch_columns))) for row in epochs),
        "steps": (
            text for worker, rows in journal.steps.items() for text in step_lines(attempt, worker, rows) if len(rows)
        ),
        "sensors": (line((*start, r.worker, r.at_s, r.sensor, r.quantity, r.value)) for r in journal.sensors),
        **{table: lines for table, lines in occasional.items() if lines},
    }


def step_lines(attempt: Attempt, worker: int, rows: Rows) -> Iterator[str]:
    """Yield one worker's step rows as lines of `steps.csv`, in large pieces."""
    start = [cell(attempt.run_id), str(attempt.number), str(worker)]
    return lines_of([*start, *(_step_column(column, rows[:, FIELD[column.name]]) for column in STEPS[3:])])


def _step_column(column: Column, values: Rows) -> Any:
    """Return one column of step rows as `lines_of` takes it, with no more digits than the clock and the loss have."""
    if column.name == "phase":
        return np.array(STEP_PHASES)[values.astype(np.int64)].tolist()
    if column.kind == "int":
        return whole_cells(values)
    return np.round(values, TIME_DIGITS) if column.unit == "s" else narrowed(values)
