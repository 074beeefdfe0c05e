"""`dlbench show`: the results of a study, of one that is still running, too."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlbench.cli import options, tables
from dlbench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from dlbench.analysis.arms import Row
    from dlbench.study.folder import Folder

# Between two looks at a study that is running.
LOOK_S = 2.0


@click.command("show")
@options.study
@options.studies
@click.option("--watch", is_flag=True, help="Show it again whenever a run ends, until all have.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(study: Path | None, studies: Path, watch: bool, as_json: bool) -> None:
    """Show the results of STUDY, by default of the newest, also while another dlbench runs it."""
    from dlbench.study.folder import newest

    if watch and as_json:
        raise UserError("--watch shows a table", hint="for a program, call --json again")
    folder = _opened(study) if study else newest(studies)
    path = folder.path if folder else Path(study or ".")
    if as_json:
        click.echo(json.dumps(content(path, folder), indent=2, ensure_ascii=False))
        return
    console = tables.console()
    seen: int | None = None
    while True:
        # Asked before the rows are read: the last row may be written in between.
        goes_on = watch and folder is not None and _goes_on(folder)
        rows = rows_of(path)
        if seen != len(rows):
            seen = len(rows)
            if watch and console.is_terminal:
                console.clear()
            _show(console, path, folder, rows)
            sys.stdout.flush()
        if not goes_on:
            return
        time.sleep(LOOK_S)


def _opened(path: Path) -> "Folder | None":
    """Open a study; None where a published one has its rows, and no record of what was asked for."""
    from dlbench.records import files
    from dlbench.study.folder import open_study

    is_published = not (path / files.STUDY).exists() and (path / files.table("runs")).exists()
    return None if is_published else open_study(path)


def rows_of(study: Path) -> "list[Row]":
    """Return the rows of a study's `runs.csv` by column, unknown values as None; none before a run has ended.

    Raises:
        UserError: Runs have ended, and it is absent or damaged.
    """
    from dlbench.analysis.arms import records
    from dlbench.records import files
    from dlbench.records.columns import names
    from dlbench.records.tables import read_table
    from dlbench.study.lock import is_held

    path = study / files.table("runs")
    has_ended = (study / files.RUNS_FOLDER).glob(f"*/*/{files.OUTCOME}")
    if not path.exists() and (is_held(study) or not any(has_ended)):
        return []
    return [dict.fromkeys(names("runs")) | row for row in records(read_table(path))]


def content(path: Path, folder: "Folder | None") -> dict[str, Any]:
    """Return what a study shows as JSON has it: counts of runs, arms with medians and intervals, and the answer."""
    from dlbench.analysis.arms import arms, last_attempts, measured
    from dlbench.cli.summary import unexpected
    from dlbench.records.outcome import Status
    from dlbench.report.answers import answers_of
    from dlbench.report.data import read
    from dlbench.report.exporters.json import arm_document

    lasts = last_attempts(rows_of(path))
    results = measured(lasts)
    return {
        "study": str(path),
        "runs": len(folder.record.runs) if folder else len(lasts),
        "completed": sum(row["status"] == Status.COMPLETED for row in lasts),
        "failed": {row["run_id"]: row["reason"] for row in unexpected(lasts) if row["status"] != Status.COMPLETED},
        "arms": [arm_document(arm).model_dump() for arm in arms(results) if arm.completed],
        "answers": answers_of(read([path])).model_dump(mode="json")["answers"] if results else [],
    }


def _show(console: "Console", path: Path, folder: "Folder | None", rows: "Sequence[Row]") -> None:
    from dlbench.cli.summary import show_study
    from dlbench.records.tables import remedy
    from dlbench.study.attempts import attempts_of, statuses
    from dlbench.study.lock import is_held

    if folder is not None:
        status_of = statuses(folder, rows)
        waiting = [name for name, status in status_of.items() if status is None]
        click.echo(f"study {path}: {len(status_of) - len(waiting)} of {len(status_of)} runs have ended")
        for name in waiting:
            if attempts_of(path, name):
                click.echo(f"  no outcome yet, so running or killed: {name}")
        num_lost = len(set(status_of) - set(waiting) - {row["run_id"] for row in rows})
        if num_lost and not is_held(path):
            click.echo(f"  ended without a row in runs.csv: {num_lost}; {remedy(path)}")
    show_study(console, path, rows, folder)


def _goes_on(folder: "Folder") -> bool:
    """Return whether rows may still come: a dlbench is running in the study, or a job of it waits in a queue."""
    from dlbench.records import files
    from dlbench.study.attempts import statuses
    from dlbench.study.lock import is_held

    if is_held(folder.path):
        return True
    in_queue = (folder.path / files.SUBMISSIONS_FOLDER).exists()
    return in_queue and None in statuses(folder, rows_of(folder.path)).values()
