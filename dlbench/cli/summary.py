"""Results of a study: the arms, what cannot be told apart, which runs failed and why, and where the files are."""

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlbench.analysis.arms import UNSTEADY, Arm, Row, arms, last_attempts
from dlbench.analysis.statistics.intervals import Interval
from dlbench.cli.live import shown_rate
from dlbench.cli.tables import drawn
from dlbench.records import files
from dlbench.records.columns import TABLES
from dlbench.records.outcome import Status
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Column heading, metric, and how its values are written.
RATE = "samples/s"
SHOWN: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    (RATE, "samples_per_s", shown_rate),
    ("validation accuracy", "validation_accuracy", "{:.4f}".format),
    ("validation loss", "validation_loss", "{:.4f}".format),
    ("training s", "train_time_s", "{:.2f}".format),
)
# What `batch_scope` holds fixed, by the name that papers give the comparison.
SCALING = {"per-worker": "each worker (weak scaling)", "global": "all workers (strong scaling)"}
MAX_FAILURES = 20
UNKNOWN = "-"


def show(console: "Console", study: Path, rows: Sequence[Row], order: Sequence[str] = ()) -> None:
    """Print the results of a study, from the rows of `runs.csv`, the arms in this order of their names."""
    from rich.text import Text

    places_of = {name: place for place, name in enumerate(order)}
    lasts = last_attempts(rows)
    completed = (arm for arm in arms(lasts) if arm.completed)
    found = sorted(completed, key=lambda arm: places_of.get(arm.name, len(order)))
    if found:
        console.print(_table(found))
    for line in [*meanings(found), *answer(lasts, study), *hints(lasts), *failures(lasts), *places(study)]:
        console.print(Text(line), soft_wrap=True)


def shown_interval(interval: Interval | None, written: Callable[[float], str]) -> str:
    """Return a median with its interval, such as `12.3 [12.0, 12.9]`."""
    if interval is None:
        return UNKNOWN
    if interval.low is None or interval.high is None:
        return written(interval.value)
    return f"{written(interval.value)} [{written(interval.low)}, {written(interval.high)}]"


def meanings(found: Sequence[Arm]) -> list[str]:
    """Say what efficiency compares, which word means two things in weak and in strong scaling, and what is marked."""
    lines = []
    if scopes := {arm.batch_scope for arm in found if arm.efficiency and arm.batch_scope}:
        held = "; ".join(f"of {SCALING[scope]}" for scope in sorted(scopes))
        lines.append(f"efficiency: samples/s of one worker / samples/s of its base line, at the same batch size {held}")
    if any(arm.unsteady for arm in found):
        lines.append(f"{UNSTEADY.strip()}: not steady in some repeats; `warmup_detected` and `rate_drift` say which")
    return lines


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
            f"{_runs(len(timed))} without samples/s: the timed window was at most {longest['timed_window_s']:.2g} s "
            f"and {longest['timed_steps']} steps; a rate needs {MIN_TIMED_STEPS} steps and {MIN_TIMED_S:g} s. "
            "`extend_window: true` in `base` steps on until it has them"
        )
    if len(short) > len(timed):
        lines.append(
            f"{_runs(len(short) - len(timed))} without samples/s: no timed window was opened; "
            "`extend_window: true` in `base` steps on until there is one"
        )
    return lines


def failures(rows: Iterable[Row]) -> list[str]:
    """Name the runs that are not completed, each with its status and reason."""
    failed = [row for row in rows if row["status"] != Status.COMPLETED]
    if not failed:
        return []
    lines = [f"{_runs(len(failed))} not completed:"]
    for row in failed[:MAX_FAILURES]:
        reason = (row["reason"] or "").strip().split("\n")[0]
        why = f": {reason}" if reason not in ("", row["status"]) else ""
        lines.append(f"  {row['run_id']} (attempt {row['attempt']}): {row['status']}{why}")
    if len(failed) > MAX_FAILURES:
        lines.append(f"  ... and {len(failed) - MAX_FAILURES} more: see the column `reason`")
    return lines


def places(study: Path) -> list[str]:
    """Say where the files are."""
    tables = ", ".join(files.table(name) for name in TABLES)
    return [f"rows: {tables} in {study}", f"logs: {study / files.RUNS_FOLDER}/<run>/<attempt>/"]


def _table(found: Sequence[Arm]) -> "Table":
    columns = ["arm", "n", *(heading for heading, _, _ in SHOWN)]
    columns += ["efficiency"] if any(arm.efficiency for arm in found) else []
    columns += ["emulated"] if any(arm.emulated for arm in found) else []

    def row(arm: Arm) -> list[str]:
        metrics = {heading: shown_interval(arm.metrics[metric], written) for heading, metric, written in SHOWN}
        efficiency = shown_interval(arm.efficiency, "{:.2f}".format)
        others = {"n": str(arm.n), "efficiency": efficiency, "emulated": arm.emulated.replace(";", ", ")}
        if arm.unsteady:
            metrics[RATE] += UNSTEADY
        cells = {"arm": arm.label, **metrics, **others}
        return [cells[column] for column in columns]

    return drawn(_title(found), columns, map(row, found), right=set(columns) - {"arm", "emulated"})


def _title(found: Sequence[Arm]) -> str:
    shown = [interval for arm in found for interval in (*arm.metrics.values(), arm.efficiency)]
    repeated = [interval for interval in shown if interval and interval.coverage]
    if not repeated:
        return "Results (one repeat: no intervals)"
    lowest = math.floor(100 * min(interval.coverage or 0.0 for interval in repeated))
    return f"Results: median [interval that covers at least {lowest}%] of n repeats"


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
