"""The table of arms that the terminal and `report.md` both show: the same columns, numbers, marks and notes.

What decides between arms comes first: the time to the target, where there is one, and the training time. Then what came
of it, and last the rate in the timed window, which decides nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dlbench.analysis.arms import TIME_TO_TARGET, UNSTEADY, Arm
from dlbench.analysis.formatting import SCORE, SHARE, Unit, number
from dlbench.analysis.statistics.intervals import Interval

EFFICIENCY = "efficiency"
RATE = "samples_per_s"
# Metric, heading, and how values are written.
COLUMNS = (
    (TIME_TO_TARGET, "time to target, s", Unit(number)),
    ("train_time_s", "training time, s", Unit(number)),
    ("validation_accuracy", "validation accuracy", SCORE),
    ("validation_loss", "validation loss", SCORE),
    (EFFICIENCY, "efficiency", SHARE),
    (RATE, "steady samples/s", Unit(number)),
)
# What `batch_scope` holds fixed, by the name that papers give the comparison.
SCALING = {"per-worker": "each worker (weak scaling)", "global": "all workers (strong scaling)"}
# What stands behind a rate, and what that means.
EXTENDED = " *"
NOTES = {
    EXTENDED: "steps after training were timed too (`extend_window`); they are in no training time",
    UNSTEADY: "not steady; `warmup_detected` and `rate_drift` say in which repeats",
}


@dataclass(frozen=True)
class ArmTable:
    """Arms in rows.

    Attributes:
        title: What stands in the cells.
        headings: Of the columns.
        rows: Cells as plain text; empty where nothing is known.
        notes: What efficiency compares, and what marks mean.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def arm_table(found: Sequence[Arm]) -> ArmTable:
    """Return the table of arms with completed runs; measures that no arm has are left out."""
    known = {arm: _measured(arm) for arm in found}
    shown = [column for column in COLUMNS if any(own[column[0]] for own in known.values())]
    emulated = ("emulated",) if any(arm.emulated for arm in found) else ()
    rows = []
    for arm, own in known.items():
        cells = [_cell(own[metric], unit) + (marks(arm) if metric == RATE else "") for metric, _, unit in shown]
        rows.append((arm.label, str(arm.n), *cells, *(arm.emulated.replace(";", ", ") for _ in emulated)))
    headings = ("arm", "n", *(heading for _, heading, _ in shown), *emulated)
    return ArmTable(_title(list(known.values())), headings, tuple(rows), _notes(found))


def _measured(arm: Arm) -> dict[str, Interval | None]:
    return {TIME_TO_TARGET: arm.time_to_target, **arm.metrics, EFFICIENCY: arm.efficiency}


def _cell(interval: Interval | None, unit: Unit) -> str:
    if interval is None:
        return ""
    return "not reached" if math.isinf(interval.value) else unit.with_ends(interval)


def marks(arm: Arm) -> str:
    """Return the marks behind an arm's rate."""
    return EXTENDED * arm.is_extended + UNSTEADY * bool(arm.unsteady) if arm.metrics[RATE] else ""


def _title(known: Sequence[dict[str, Interval | None]]) -> str:
    covered = [interval.coverage for own in known for interval in own.values() if interval and interval.coverage]
    if not covered:
        return "One completed repeat of each arm: nothing is known of chance"
    return f"Median [interval that covers at least {math.floor(100 * min(covered))}%] of n completed repeats"


def _notes(found: Sequence[Arm]) -> tuple[str, ...]:
    notes = []
    if scopes := {arm.batch_scope for arm in found if arm.efficiency and arm.batch_scope}:
        held = "; ".join(f"of {SCALING[scope]}" for scope in sorted(scopes))
        text = "steady samples/s of one worker / steady samples/s of its base line"
        notes.append(f"efficiency: {text}, at the same batch size {held}")
    return (*notes, *mark_notes(found))


def mark_notes(found: Sequence[Arm]) -> tuple[str, ...]:
    """Say what the marks of these arms mean."""
    marked = "".join(map(marks, found))
    return tuple(f"{mark.strip()}: {text}" for mark, text in NOTES.items() if mark in marked)
