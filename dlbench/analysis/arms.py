"""Repeats joined to arms: medians with intervals, efficiency against the base line, and what can be told apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlbench.analysis.intervals import Interval, median_interval, ratio_interval
from dlbench.records.outcome import Status
from dlbench.scenario.settings import OPTION_PREFIXES

Row = Mapping[str, Any]

METRICS = ("samples_per_s", "validation_accuracy", "validation_loss", "train_time_s")

TASK = ("model", "dataset", "command")

# An arm is compared with a base line that is its equal in all of these; with one worker there is nothing to divide,
# so neither `batch_scope` nor `divide` is among them.
EQUAL = (
    "model",
    "dataset",
    "dataset_checksum",
    "train_samples",
    "trainer",
    "command",
    "batch_size",
    "cores_per_worker",
    "optimizer",
    "momentum",
    "precision",
    "jit_compile",
)
EQUAL_OPTIONS = tuple(f"{prefix}." for prefix in OPTION_PREFIXES if prefix in ("model", "dataset", "trainer"))


@dataclass(frozen=True)
class Arm:
    """All completed repeats of one point of the matrix.

    Attributes:
        name: run_id without the repeat.
        label: What tells it from the study's others.
        n: Completed repeats.
        workers: Number of replicas.
        baseline: Whether dlbench added it.
        task: Model and data set, or command: only arms that share them compete.
        batch_scope: What the batch size counted.
        emulated: Reasons why it is not real hardware at work, joined by `;`.
        metrics: Median and interval of each of METRICS; None where no repeat has it.
        efficiency: Rate of one worker / rate of the base line; None where there is none to compare with.
    """

    name: str
    label: str
    n: int
    workers: int
    baseline: bool
    task: tuple[str, ...]
    batch_scope: str | None
    emulated: str
    metrics: Mapping[str, Interval | None]
    efficiency: Interval | None


def last_attempts(rows: Iterable[Row]) -> list[Row]:
    """Return the row of each run's last attempt, in the order of the runs' first ones."""
    found: dict[str, Row] = {}
    for row in rows:
        known = found.get(row["run_id"])
        if known is None or row["attempt"] > known["attempt"]:
            found[row["run_id"]] = row
    return list(found.values())


def arms(rows: Iterable[Row]) -> list[Arm]:
    """Return the arms of a study with at least one completed run, from the rows of `runs.csv`."""
    completed = [row for row in last_attempts(rows) if row["status"] == Status.COMPLETED]
    groups: dict[str, list[Row]] = {}
    for row in completed:
        groups.setdefault(arm_name(row["run_id"]), []).append(row)
    return [_arm(name, group, completed) for name, group in groups.items()]


def arm_name(run_id: str) -> str:
    """Return what the repeats of an arm share of their run_id."""
    return run_id.rsplit("-r", 1)[0]


def not_apart(all_arms: Sequence[Arm], best: Arm, metric: str) -> list[Arm]:
    """Return the arms whose repeats do not tell a metric of theirs from the best one's."""
    first = best.metrics[metric]
    if first is None:
        return []
    others = [arm for arm in all_arms if arm is not best]
    return [arm for arm in others if (found := arm.metrics[metric]) is not None and not first.can_be_told_from(found)]


def _arm(name: str, rows: list[Row], completed: list[Row]) -> Arm:
    first = rows[0]
    return Arm(
        name=name,
        label=first["label"],
        n=len(rows),
        workers=first["workers"],
        baseline=bool(first["baseline"]),
        task=tuple(first[key] for key in TASK if first[key]),
        batch_scope=first["batch_scope"],
        emulated=first["emulated"] or "",
        metrics={metric: _interval(rows, metric) for metric in METRICS},
        efficiency=_efficiency(rows, completed),
    )


def _interval(rows: list[Row], metric: str) -> Interval | None:
    values = [float(row[metric]) for row in rows if row[metric] is not None]
    return median_interval(values) if values else None


def _efficiency(rows: list[Row], completed: list[Row]) -> Interval | None:
    """Return an arm's rate per worker / its base line's; emulated and real rows are never compared."""
    first = rows[0]
    if first["workers"] == 1 and first["strategy"] == "single":
        return None
    base_rows = [row for row in completed if _is_base_line(row, first)]
    rates, base = (
        [float(row["samples_per_s_per_worker"]) for row in group if row["samples_per_s_per_worker"]]
        for group in (rows, base_rows)
    )
    return ratio_interval(rates, base) if rates and base else None


def _is_base_line(row: Row, arm: Row) -> bool:
    if row["workers"] != 1 or row["strategy"] != "single" or bool(row["emulated"]) != bool(arm["emulated"]):
        return False
    options = {key for key in (*row, *arm) if key.startswith(EQUAL_OPTIONS)}
    return all(row.get(column) == arm.get(column) for column in (*EQUAL, *options))
