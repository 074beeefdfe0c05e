"""Results of a study: the arms, the answer, which runs failed and why, and where the files are."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench.analysis.arm_table import MARGINS, ArmTable, arm_table, in_order
from dlbench.analysis.arms import (
    Arm,
    Row,
    arms,
    can_extend,
    is_imported,
    last_attempts,
    measured,
    reported,
    reports_no_steps,
    window_needed,
)
from dlbench.analysis.formatting import counted
from dlbench.analysis.groups import written_name
from dlbench.analysis.summary_tables import ARMS, LEADING, SUMMARY
from dlbench.cli.tables import drawn, width
from dlbench.records import files
from dlbench.records.columns import TABLES
from dlbench.records.outcome import Status
from dlbench.scenario.metrics import BUILT_IN, QUALITY
from dlbench.scenario.run_spec import Phase

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dlbench.study.folder import Folder

MAX_FAILURES = 20
UNKNOWN = "-"
# The columns behind those of settings begin with it.
REPEATS = "n"
# Measures in the order in which they are left out.
DISPENSABLE = (
    "validation loss",
    "efficiency",
    "steady samples/s",
    "n",
    "reached",
    *(BUILT_IN[name].title for name in QUALITY[:2]),
)
# Between two columns, and at both sides.
_GAP, _EDGES = 2, 2
# Headings of at most this width stay in one line.
_SHORT = 8


def show_study(console: "Console", path: Path, rows: Sequence[Row], folder: "Folder | None") -> None:
    """Print the results of a study, from the rows of `runs.csv`, arms in the order of its scenario if it has one."""
    from dlbench.analysis.arm_table import reading_order
    from dlbench.study.folder import scenario_of

    order = reading_order(scenario_of(folder), folder.record.runs) if folder else ()
    show(console, path, rows, order, answer(console, path, rows))


def answer(console: "Console", path: Path, rows: Sequence[Row]) -> list[str]:
    """Return the lines of the answer of a study on disk; none where it has no run, or its only arm failed."""
    results = arms(measured(rows))
    if len(results) < 2 and not any(arm.completed for arm in results):
        return []  # it needs no pandas either
    from dlbench.cli.tables import answer_lines
    from dlbench.report.answers import answers_of
    from dlbench.report.data import read

    data = read([path])
    return list(answer_lines(answers_of(data), data.metrics, console))


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
    completed = in_order([arm for arm in arms(results) if arm.completed])
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
    completed = [row for row in rows if row["status"] == Status.COMPLETED]
    short = [row for row in completed if row["samples_per_s"] is None and not is_imported(row)]
    silent = [row for row in short if reports_no_steps(row)]
    timed = [row for row in short if row["timed_window_s"] is not None]
    lines = []
    if timed:
        longest = max(timed, key=lambda row: row["timed_window_s"])
        lines.append(
            f"{counted(len(timed), 'run')} without steady samples/s: the timed window was at most "
            f"{longest['timed_window_s']:.2g} s and {longest['timed_steps']} steps; a rate needs "
            f"{window_needed(timed)}. {_longer(timed)}"
        )
    if bare := [row for row in silent if row["train_time_s"] is None]:
        lines.append(
            f"{counted(len(bare), 'run')} without training time and samples/s: the script reports no steps. `metrics` "
            "in the scenario takes `train_time_s` and `samples_per_s` from what it prints or writes, and a few lines "
            "report every step (docs/own-code.md)"
        )
    if notes := list(dict.fromkeys(str(row["stated_note"]) for row in completed if row.get("stated_note"))):
        lines.append(f"not found in what the script printed or wrote: {'; '.join(notes)}")
    if notes := list(dict.fromkeys(str(row["script_note"]) for row in completed if row.get("script_note"))):
        lines.append(f"to be doubted: {'; '.join(notes)}")
    if untimed := [row for row in short if row["timed_window_s"] is None and row not in silent]:
        lines.append(
            f"{counted(len(untimed), 'run')} without steady samples/s: no timed window was opened. {_longer(untimed)}"
        )
    return lines


def _longer(rows: Sequence[Row]) -> str:
    """Say what makes a timed window longer."""
    if all(map(can_extend, rows)):
        return "`extend_window: true` in `base` steps on until it is long enough"
    # Without a barrier all steps are warm-up.
    if all(row.get("command") and 1 < (row["steps"] or 0) == row.get("warmup_steps") for row in rows):
        return "The script gave dlbench no `barrier`, which opens it (docs/own-code.md)"
    return "More steps make it longer"


def failures(rows: Iterable[Row], study: Path) -> list[str]:
    """Name the runs that are not completed, each with its status, reason and logs, and the command that shows them."""
    failed = [row for row in rows if row["status"] != Status.COMPLETED]
    if not failed:
        return []
    lines = [f"{counted(len(failed), 'run')} not completed:"]
    for row in failed[:MAX_FAILURES]:
        why = why_it_ended(row["reason"], row["status"])
        lines.append(f"  {row['run_id']} (attempt {row['attempt']}): {row['status']}{why}")
        if files.attempt_folder(study, row["run_id"], row["attempt"]).is_dir():  # a published study has none
            lines += [f"    {line}" for line in where_logs_are(study, row["run_id"], row["attempt"])]
    if len(failed) > MAX_FAILURES:
        lines.append(f"  ... and {len(failed) - MAX_FAILURES} more: see the column `reason`")
    return lines


def why_it_ended(reason: str | None, status: str) -> str:
    """Return the first line of a run's reason behind a colon; empty where it says no more than the status."""
    first = (reason or "").strip().split("\n")[0]
    return f": {first}" if first not in ("", status) else ""


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


def fitted(found: Sequence[Arm], columns: int) -> tuple[ArmTable, "Table", tuple[str, ...]]:
    """Return the table of arms, the same as drawn on a terminal of this many columns, and notes on what is left out.

    Where it is too wide, numbers get narrower first, then columns are left out: those in which all arms are equal, then
    measures, then settings. No word is broken.
    """
    table = arm_table(found)
    heads = {heading: heading for heading in table.columns}
    if _width(table, heads) > columns:
        heads = {heading: _in_lines(heading) for heading in table.columns}
    if _width(table, heads) > columns:
        table = arm_table(found, MARGINS)
    equal = [heading for heading, cells in table.columns.items() if len(found) > 1 and len(set(cells)) == 1]
    left_out = []
    of_scripts = [name.replace("_", " ") for name in reported([row for arm in found for row in arm.completed])]
    for heading in dict.fromkeys((*equal, *of_scripts[::-1], *DISPENSABLE, *_settings(table))):
        if heading in heads and _width(table, heads) > columns:
            del heads[heading]
            left_out.append(heading)
    alike = ", ".join(f"{heading} {table.columns[heading][0]}" for heading in left_out if heading in equal)
    differing = ", ".join(heading for heading in left_out if heading not in equal)
    notes = (alike and f"equal in all arms: {alike}", differing and f"too wide for this terminal: {differing}")
    right = {head for heading, head in heads.items() if heading not in table.texts}
    columns_shown = (
        [cell or ("" if heading in table.texts else UNKNOWN) for cell in table.columns[heading]] for heading in heads
    )
    drawing = drawn("", list(heads.values()), zip(*columns_shown, strict=True), right)
    return table, drawing, tuple(filter(None, notes))


def _settings(table: ArmTable) -> list[str]:
    """Return the columns of settings but one in the order in which they are left out: what readers look for last."""
    headings = list(table.columns)
    of_settings = headings[: headings.index(REPEATS)]
    leading = [heading for heading in map(written_name, LEADING) if heading in of_settings]
    return [*leading, *(heading for heading in of_settings if heading not in leading)][:0:-1]


def _width(table: ArmTable, heads: Mapping[str, str]) -> int:
    """Return how wide some columns of a table are when they are drawn, by heading, each with what is written there."""
    widths = [max(map(width, (*head.split("\n"), *table.columns[heading]))) for heading, head in heads.items()]
    return sum(widths) + _GAP * (len(widths) - 1) + _EDGES


def _in_lines(heading: str) -> str:
    """Return a heading with line ends between its words: after spaces, points and underscores."""
    lines = [""]
    for word in re.findall(r"[^ ._]+[ ._]?", heading):
        if lines[-1] and len(lines[-1] + word.rstrip()) > _SHORT:
            lines.append("")
        lines[-1] += word
    return "\n".join(line.rstrip() for line in lines)
