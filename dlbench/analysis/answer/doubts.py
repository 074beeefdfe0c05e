"""What speaks against trusting an answer, what could change it most first, each with the number of runs it is of."""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from dlbench.analysis.answer.answer import Doubt
from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.arms import Arm, Row, can_extend
from dlbench.analysis.claims.claim_check import EQUAL_WORK
from dlbench.analysis.formatting import counted, listed, one_line, percent
from dlbench.analysis.judge import ENOUGH_REPEATS
from dlbench.records.outcome import Status
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS
from dlbench.scenario.settings import Input

# From this share on, CPU time that the hypervisor took is as large as half the differences that are called real.
MUCH_STEAL = 0.01
# More than that of a core, taken by other programs, shows in the times of a worker on it.
MUCH_LOAD = 0.5
# Of a mean of whole numbers.
_ROUNDING = 1e-6
# A share of the timed window that may decide between arms.
MUCH_BOOKKEEPING = 0.1
# A first step, with its compilation, that is so much of the training says little about a longer one.
MUCH_FIRST_STEP = 0.2


def doubts(group: ComparisonGroup, *, is_rate: bool, is_learned: bool) -> tuple[Doubt, ...]:
    """Return the doubts about a group's answer, the heaviest first.

    Args:
        group: Its arms.
        is_rate: Whether throughput decides.
        is_learned: Whether a score or a target does.
    """
    arms, rows = group.arms, [row for arm in group.completed for row in arm.completed]
    weighed = [
        (95, _other_batches(arms)),
        (90, _data(group)),
        (85, f"not representative hardware ({group.emulated})" if group.emulated else ""),
        (80, _not_tuned(group) if is_learned else ""),
        (75, _load(rows)),
        (70, _repeats(arms)),
        (65, not_completed([row for arm in arms for row in arm.rows])),
        (60, _unsteady(arms) if is_rate else ""),
        (55, _samples(group)),
        (50, _steal(rows)),
        (45, _devices(rows)),
        (40, _unbound(rows)),
        (35, _first_step(rows)),
        (30, _one_machine(rows)),
        (25, _dropped(rows)),
        (20, _synthetic(rows)),
        (15, _bookkeeping(rows)),
        (10, _unsteady(arms) if not is_rate else ""),
        (5, _window(rows)),
    ]
    return tuple(Doubt(text=text, weight=weight) for weight, text in weighed if text)


def _other_batches(arms: Sequence[Arm]) -> str:
    """Say that steps of a script did not have the samples that its arm is called after."""
    found = [
        f"{arm.title}: {size:.4g} samples, not {arm.first['batch_size_per_worker']:.4g}"
        for arm in arms
        for size in [next(filter(None, map(unlike_batch, arm.completed)), None)]
        if size is not None
    ]
    return f"steps have other batches than `batch_size` says: {listed(found, 2, '; ')}" if found else ""


def unlike_batch(row: Row) -> float | None:
    """Return the samples of a worker's step where these cannot be those of the scenario's batch size.

    A last step of an epoch may be smaller; a mean above the batch, or below half of it, is none of that.
    """
    asked, seen, steps = row.get("batch_size_per_worker"), row.get("samples_seen"), row.get("steps")
    if row.get("command") is None or not asked or not seen or not steps:
        return None
    size = float(seen) / (float(steps) * float(row["workers"]))
    return size if size > (1 + _ROUNDING) * asked or size < asked / 2 else None


def _data(group: ComparisonGroup) -> str:
    return "runs read different data (`dataset_checksum`)" if len(_distinct(group, "dataset_checksum")) > 1 else ""


def _not_tuned(group: ComparisonGroup) -> str:
    """Say that one learning rate served arms of which each may have a best one of its own."""
    varying = [
        words
        for column, words in (("batch_size_global", "batch size"), ("strategy", "strategy"), ("optimizer", "optimizer"))
        if len({arm.first.get(column) for arm in group.completed if not (column == "strategy" and arm.is_alone)}) > 1
    ]
    if not varying or len(_distinct(group, "learning_rate_base")) != 1:
        return ""
    return f"the learning rate was not tuned for each {' and '.join(varying[:2])}"


def _load(rows: Sequence[Row]) -> str:
    busy = [float(row["other_cpu_cores"]) for row in rows if row.get("other_cpu_cores") is not None]
    much = [cores for cores in busy if cores >= MUCH_LOAD]
    if not much:
        return ""
    return f"other programs kept {max(much):.1f} cores busy in {len(much)} of {counted(len(busy), 'run')}"


def _repeats(arms: Sequence[Arm]) -> str:
    most = max((arm.n for arm in arms), default=0)
    if most == 1:
        return "one run of each arm says nothing of chance"
    return f"{most} runs of each arm show little (`repeats: 5`)" if 0 < most < ENOUGH_REPEATS else ""


def not_completed(rows: Sequence[Row]) -> str:
    """Say how many of some runs did not complete, and how they ended; empty where all did."""
    failed = Counter(str(row["status"]) for row in rows if row["status"] != Status.COMPLETED)
    how = ", ".join(f"{count} {status}" for status, count in failed.most_common())
    return f"{failed.total()} of {counted(len(rows), 'run')} did not complete: {how}" if failed else ""


def _unsteady(arms: Sequence[Arm]) -> str:
    count, total = sum(arm.unsteady for arm in arms), sum(arm.n for arm in arms)
    return f"throughput was not steady in {count} of {counted(total, 'run')} (~)" if count else ""


def _samples(group: ComparisonGroup) -> str:
    """Say that training times are of unequal work where the number of epochs is no reason for it."""
    seen = [arm.samples_seen for arm in group.completed if arm.samples_seen]
    is_axis = len(_distinct(group, "epochs")) > 1
    if is_axis or not seen or max(seen) <= (1 + EQUAL_WORK) * min(seen):
        return ""
    return f"training times are of unequal work: {min(seen):,} to {max(seen):,} samples"


def _steal(rows: Sequence[Row]) -> str:
    shares = [float(row["steal_fraction"]) for row in rows if row.get("steal_fraction") is not None]
    much = sum(share >= MUCH_STEAL for share in shares)
    runs = counted(len(shares), "run")
    return f"the hypervisor took up to {percent(max(shares))} of the CPU time, in {much} of {runs}" if much else ""


def _devices(rows: Sequence[Row]) -> str:
    names = sorted({one_line(row["device_name"]) for row in rows if row.get("device_name")})
    return f"runs were on different devices: {listed(names, separator='; ')}" if len(names) > 1 else ""


def _unbound(rows: Sequence[Row]) -> str:
    number = sum(row.get("cores_enforced") == "none" for row in rows)
    return f"workers were not bound to cores in {number} of {counted(len(rows), 'run')}" if number else ""


def _first_step(rows: Sequence[Row]) -> str:
    times = [(row.get("first_step_s"), row.get("train_time_s")) for row in rows]
    shares = [float(first) / float(whole) for first, whole in times if first is not None and whole]
    if not shares or median(shares) < MUCH_FIRST_STEP:
        return ""
    return f"the first step, compilation included, is {percent(median(shares))} of the training time"


def _one_machine(rows: Sequence[Row]) -> str:
    several = [row for row in rows if (row.get("hosts") or 0) > 1 and row.get("machines")]
    shared = sum(row["machines"] < row["hosts"] for row in several)
    return f"hosts were one machine in {shared} of {counted(len(several), 'run')}: no network card" if shared else ""


def _dropped(rows: Sequence[Row]) -> str:
    dropped = [
        (row["samples_dropped"], row["samples_seen"])
        for row in rows
        if row.get("samples_dropped") and row.get("samples_seen")
    ]
    if not dropped:
        return ""
    most = max(out / (seen + out) for out, seen in dropped)
    return f"up to {percent(most)} of the samples were left out (`remainder: train` trains them)"


def _synthetic(rows: Sequence[Row]) -> str:
    number = sum(row.get("input") == Input.SYNTHETIC for row in rows)
    return (
        f"{number} of {counted(len(rows), 'run')} trained on random numbers: their scores mean nothing"
        if number
        else ""
    )


def _bookkeeping(rows: Sequence[Row]) -> str:
    """Say that what lies between steps is a large part of the timed window: of steps of microseconds."""
    times = [(row.get("bookkeeping_time_s"), row.get("timed_window_s")) for row in rows]
    shares = [float(own) / float(whole) for own, whole in times if own is not None and whole]
    much = sum(share >= MUCH_BOOKKEEPING for share in shares)
    if not much:
        return ""
    runs = counted(len(shares), "run")
    return f"dlbench itself took up to {percent(max(shares))} of the timed window in {much} of {runs}"


def _window(rows: Sequence[Row]) -> str:
    without = [row for row in rows if row.get("samples_per_s") is None]
    remedy = "`extend_window: true`" if all(map(can_extend, without)) else "more steps"
    needs = f"it needs {MIN_TIMED_STEPS} steps and {MIN_TIMED_S:g} s: {remedy}"
    return f"{len(without)} of {counted(len(rows), 'run')} have no steady throughput ({needs})" if without else ""


def _distinct(group: ComparisonGroup, column: str) -> set[Any]:
    return {row.get(column) for arm in group.completed for row in arm.completed} - {None}
