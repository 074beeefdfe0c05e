"""Results of a study: the arms, what cannot be told apart, which runs failed and why, and where the files are."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench.analysis.arm_table import ArmTable, arm_table
from dlbench.analysis.arms import Row, arms, last_attempts
from dlbench.analysis.formatting import counted
from dlbench.cli.tables import drawn
from dlbench.records import files
from dlbench.records.columns import TABLES
from dlbench.records.outcome import Status
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MAX_FAILURES = 20
UNKNOWN = "-"


def show(console: "Console", study: Path, rows: Sequence[Row], order: Sequence[str] = ()) -> None:
    """Print the results of a study, from the rows of `runs.csv`, the arms in this order of their names."""
    from rich.text import Text

    places_of = {name: place for place, name in enumerate(order)}
    lasts = last_attempts(rows)
    completed = (arm for arm in arms(lasts) if arm.completed)
    found = sorted(completed, key=lambda arm: places_of.get(arm.name, len(order)))
    notes: tuple[str, ...] = ()
    if found:
        arms_shown = arm_table(found)
        console.print(Text(f"Results. {arms_shown.title}:"), _drawn(arms_shown))
        notes = arms_shown.notes
    for line in [*notes, *answer(lasts, study), *hints(lasts), *failures(lasts), *places(study)]:
        console.print(Text(line), soft_wrap=True)


def answer(rows: Sequence[Row], study: Path) -> list[str]:
    """Return what to use, in the sentences of the report, and where it says why; nothing where nothing is said."""
    from dlbench.analysis.answer.answers import answers
    from dlbench.analysis.groups import frame

    if not rows:
        return []
    lines = [statement.text for statement in answers(frame(rows)) if statement.kind == "use"]
    return [*lines, f"evidence and warnings: dlbench report {shlex.quote(str(study))}"] if lines else []


def hints(rows: Iterable[Row]) -> list[str]:
    """Say why a rate is empty, once for each reason, and what would fill it."""
    short = [row for row in rows if row["status"] == Status.COMPLETED and row["samples_per_s"] is None]
    timed = [row for row in short if row["timed_window_s"] is not None]
    lines = []
    if timed:
        longest = max(timed, key=lambda row: row["timed_window_s"])
        lines.append(
            f"{counted(len(timed), 'run')} without steady samples/s: the timed window was at most "
            f"{longest['timed_window_s']:.2g} s and {longest['timed_steps']} steps; a rate needs "
            f"{MIN_TIMED_STEPS} steps and {MIN_TIMED_S:g} s. `extend_window: true` in `base` steps on until it has them"
        )
    if len(short) > len(timed):
        lines.append(
            f"{counted(len(short) - len(timed), 'run')} without steady samples/s: no timed window was opened; "
            "`extend_window: true` in `base` steps on until there is one"
        )
    return lines


def failures(rows: Iterable[Row]) -> list[str]:
    """Name the runs that are not completed, each with its status and reason."""
    failed = [row for row in rows if row["status"] != Status.COMPLETED]
    if not failed:
        return []
    lines = [f"{counted(len(failed), 'run')} not completed:"]
    for row in failed[:MAX_FAILURES]:
        reason = (row["reason"] or "").strip().split("\n")[0]
        why = f": {reason}" if reason not in ("", row["status"]) else ""
        lines.append(f"  {row['run_id']} (attempt {row['attempt']}): {row['status']}{why}")
    if len(failed) > MAX_FAILURES:
        lines.append(f"  ... and {len(failed) - MAX_FAILURES} more: see the column `reason`")
    return lines


def places(study: Path) -> list[str]:
    """Say where the files are."""
    tables = ", ".join(name for name in map(files.table, TABLES) if (study / name).exists())
    return [f"rows: {tables} in {study}", f"logs: {study / files.RUNS_FOLDER}/<run>/<attempt>/"]


def _drawn(table: ArmTable) -> "Table":
    texts = {"arm", "emulated"}
    rows = [
        [cell or ("" if heading in texts else UNKNOWN) for heading, cell in zip(table.headings, row, strict=True)]
        for row in table.rows
    ]
    return drawn("", table.headings, rows, right=set(table.headings) - texts)
