"""Results of a study: the arms, the answer, which runs failed and why, and where the files are."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Row, arms, can_extend, last_attempts, measured
from dlbench.analysis.formatting import counted
from dlbench.analysis.summary_tables import ARMS, SUMMARY
from dlbench.cli.fitted import fitted
from dlbench.records import files
from dlbench.records.columns import TABLES
from dlbench.records.outcome import Status
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS
from dlbench.scenario.run_spec import Phase, arm_name

if TYPE_CHECKING:
    from rich.console import Console

    from dlbench.study.folder import Folder

MAX_FAILURES = 20


def show_study(console: "Console", folder: "Folder", rows: Sequence[Row]) -> None:
    """Print the results of a study, from the rows of `runs.csv`, arms in the order of its scenario."""
    from dlbench.analysis.arm_table import reading_order
    from dlbench.study.folder import scenario_of

    order = reading_order(scenario_of(folder), folder.record.runs)
    show(console, folder.path, rows, order, answer(console, folder.path, rows))


def answer(console: "Console", path: Path, rows: Sequence[Row]) -> list[str]:
    """Return the lines of the answer of a study on disk; none where there is nothing to choose between."""
    rows = measured(rows)
    if len({arm_name(row["run_id"]) for row in rows}) < 2 and all(row.get("target_value") is None for row in rows):
        return []  # it needs no pandas either
    from dlbench.cli.tables import answer_lines
    from dlbench.report.answers import answers_of, metrics_of
    from dlbench.report.data import read

    data = read([path])
    return list(answer_lines(answers_of(data), metrics_of(data), console.width if console.is_terminal else None))


def show(
    console: "Console", study: Path, rows: Sequence[Row], order: Sequence[str] = (), answers: Iterable[str] = ()
) -> None:
    """Print the results of a study.

    Args:
        console: Prints them.
        study: Its folder.
        rows: Of `runs.csv`.
        order: The arms' names in the order in which they are shown.
        answers: The lines of its answer.
    """
    from rich.text import Text

    places_of = {name: place for place, name in enumerate(order)}
    lasts = last_attempts(rows)
    results = measured(lasts)
    completed = (arm for arm in arms(results) if arm.completed)
    ordered = sorted(completed, key=lambda arm: places_of.get(arm.name, len(order)))
    notes: list[str] = []
    if ordered:
        table, drawing, left_out = fitted(ordered, console.width)
        console.print(Text(f"Results. {table.title}:"), drawing)
        notes += (*table.notes, *left_out)
    for line in [
        *notes,
        *hints(results),
        *failures(unexpected(lasts), study),
        *places(study, has_results=bool(results) or not lasts),
    ]:
        console.print(Text(line), soft_wrap=not console.is_terminal)
    # Last, so that the last line is the command that would tell most next.
    for line in answers:
        console.print(Text(line, no_wrap=True), soft_wrap=True)


def unexpected(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of which a failure counts: a candidate that a search has found to diverge is none."""
    return [row for row in rows if not (row.get("phase") == Phase.TUNE and row["status"] == Status.DIVERGED)]


def hints(rows: Iterable[Row]) -> list[str]:
    """Say why a rate does not count, once for each reason, and what would help."""
    short = [row for row in rows if row["status"] == Status.COMPLETED and row["samples_per_s"] is None]
    timed = [row for row in short if row["timed_window_s"] is not None]
    lines = []
    if timed:
        longest = max(timed, key=lambda row: row["timed_window_s"])
        lines.append(
            f"{counted(len(timed), 'run')} without steady samples/s: the timed window was at most "
            f"{longest['timed_window_s']:.2g} s and {longest['timed_steps']} steps; a rate needs "
            f"{MIN_TIMED_STEPS} steps and {MIN_TIMED_S:g} s. {_longer(timed)}"
        )
    if untimed := [row for row in short if row["timed_window_s"] is None]:
        lines.append(
            f"{counted(len(untimed), 'run')} without steady samples/s: no timed window was opened. {_longer(untimed)}"
        )
    return lines


def _longer(rows: Sequence[Row]) -> str:
    """Say what makes a timed window longer."""
    if all(map(can_extend, rows)):
        return "`extend_window: true` in `base` steps on until it is long enough"
    return "More steps make it longer"


def failures(rows: Iterable[Row], study: Path) -> list[str]:
    """Name the runs that are not completed, each with its status, reason and logs, and the command that shows them."""
    failed = [row for row in rows if row["status"] != Status.COMPLETED]
    if not failed:
        return []
    lines = [f"{counted(len(failed), 'run')} not completed:"]
    for row in failed[:MAX_FAILURES]:
        reason = (row["reason"] or "").strip().split("\n")[0]
        why = f": {reason}" if reason not in ("", row["status"]) else ""
        lines.append(f"  {row['run_id']} (attempt {row['attempt']}): {row['status']}{why}")
        if files.attempt_folder(study, row["run_id"], row["attempt"]).is_dir():  # a published study has none
            lines += [f"    {line}" for line in where_logs_are(study, row["run_id"], row["attempt"])]
    if len(failed) > MAX_FAILURES:
        lines.append(f"  ... and {len(failed) - MAX_FAILURES} more: see the column `reason`")
    return lines


def where_logs_are(study: Path, run_id: str, attempt: int) -> list[str]:
    """Return where the logs of an attempt are, and the command that shows them."""
    folder = files.attempt_folder(study, run_id, attempt)
    return [f"logs: {folder}", f"shown by: dlbench logs {run_id} --study {shlex.quote(str(study))}"]


def places(study: Path, *, has_results: bool = True) -> list[str]:
    """Say where the files are, and the command for the report."""
    paths = (study / SUMMARY, study / ARMS, *(files.table_path(study, name) for name in TABLES))
    tables = ", ".join(path.name for path in paths if path.exists())
    quoted = shlex.quote(str(study))
    report = [f"charts, evidence and all doubts: dlbench report {quoted}"] * has_results
    return [f"rows: {tables} in {study}", *report]
