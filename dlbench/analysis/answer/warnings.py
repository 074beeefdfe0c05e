"""What an answer rests on, and warnings against trusting it, each once with the number of runs it applies to."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import floor
from statistics import median
from typing import Any

from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.arms import MOST_DRIFT, Arm, Row, can_extend, has_drifted
from dlbench.analysis.compare.judgement import SIGNIFICANCE, can_differ
from dlbench.analysis.formatting import Statement, counted, listed, one_line, percent
from dlbench.analysis.statistics.intervals import LEVEL, order_statistic_coverage
from dlbench.records.outcome import Status
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS
from dlbench.scenario.settings import Input

# From this share on, CPU time that the hypervisor took is as large as half the differences that are called real.
MUCH_STEAL = 0.01
# Of a mean of whole numbers.
_ROUNDING = 1e-6
# A share of the timed window that may decide between arms.
MUCH_BOOKKEEPING = 0.1
# A first step, with its compilation, that is so much of the training says little about a longer one.
MUCH_FIRST_STEP = 0.2


def evidence(found: Sequence[ComparisonGroup]) -> Iterator[Statement]:
    """Say how many runs on what hardware the answer rests on, and what the brackets mean."""
    arms = [arm for group in found for arm in group.completed]
    rows = [row for arm in arms for row in arm.completed]
    repeats = [arm.n for arm in arms]
    each = f"{min(repeats)}" if min(repeats) == max(repeats) else f"{min(repeats)} to {max(repeats)}"
    devices = listed(_device_names(rows), separator="; ")
    hosts = max((int(row["hosts"]) for row in rows if row.get("hosts")), default=0)
    place = f", on {devices}" if devices else ""
    place += f", {counted(hosts, 'host')} at most" if hosts > 1 else ""
    runs = counted(len(rows), "completed run")
    yield Statement(f"This rests on {runs}: {counted(len(arms), 'arm')} of {each} each{place}.", "why")
    if repeated := [count for count in repeats if count > 1]:
        yield Statement(f"Numbers are medians; {_brackets(min(repeated))}.", "why")
    if len(arms) > 1 and can_differ(max(repeats), max(repeats)):
        yield Statement(
            "What is ahead or behind is judged over all arms together, each measure by itself: wrong in at most "
            f"{percent(SIGNIFICANCE)} of studies. Ratios to the best have intervals that hold together.",
            "why",
        )


def _brackets(fewest: int) -> str:
    # Rounded down, so that nothing claims more than it covers; 100 x 0.95 itself may lie a little below 95.
    share = floor(100 * min(LEVEL, order_statistic_coverage(fewest, 1)) + 1e-9)
    return f"each interval in brackets, by itself, covers the true value with a probability of at least {share}%"


def warnings(found: Sequence[ComparisonGroup]) -> Iterator[Statement]:
    """Yield what speaks against trusting the answer."""
    arms = [arm for group in found for arm in group.arms]
    completed = [row for arm in arms for row in arm.completed]
    lines = [_other_batches(arms), _repeats(arms), _failed(arms), _unsteady(arms)]
    lines += [line(completed) for line in _ABOUT_RUNS] if completed else []
    lines += [line(group) for group in found for line in (_samples, _data, _learning_rate)]
    for line in dict.fromkeys(filter(None, lines)):
        yield Statement(line, "warning")


def _other_batches(arms: Sequence[Arm]) -> str:
    """Say that steps of a script did not have the samples that its arm is called after."""
    found = {arm: size for arm in arms if (size := _unlike_batch(arm.completed)) is not None}
    if not found:
        return ""
    each = (
        f"{arm.title}: {size:.4g} samples, not {arm.first['batch_size_per_worker']:.4g}" for arm, size in found.items()
    )
    which = counted(len(found), "arm")
    return (
        f"Steps of {which} did not have the samples that `batch_size` asks of a worker: arms are not what they are "
        f"called. Does the script read it? {listed(each, separator='; ')}."
    )


def _unlike_batch(rows: Sequence[Row]) -> float | None:
    """Return the samples of a worker's step where these cannot be those of the scenario's batch size.

    A last step of an epoch may be smaller; a mean above the batch, or below half of it, is none of that.
    """
    for row in rows:
        asked, seen, steps = row.get("batch_size_per_worker"), row.get("samples_seen"), row.get("steps")
        if row.get("command") is not None and asked and seen and steps:
            size = float(seen) / (float(steps) * float(row["workers"]))
            if size > (1 + _ROUNDING) * asked or size < asked / 2:
                return size
    return None


def _failed(arms: Sequence[Arm]) -> str:
    rows = [row for arm in arms for row in arm.rows]
    failed = Counter(str(row["status"]) for row in rows if row["status"] != Status.COMPLETED)
    if not failed:
        return ""
    how = ", ".join(f"{count} {status}" for status, count in failed.most_common())
    text = f"{failed.total()} of {counted(len(rows), 'run')} did not complete ({how}) and are in no number here."
    none = [arm.title for arm in arms if not arm.completed]
    return f"{text} No run completed of: {listed(none, separator='; ')}." if none else text


def _repeats(arms: Sequence[Arm]) -> str:
    """Say that repeats are too few for any test."""
    most = max((arm.n for arm in arms), default=0)
    if most == 0 or can_differ(most, most):
        return ""
    if most == 1:
        return "One run of each arm: how much of any difference is chance is unknown (`repeats: 5` or more shows it)."
    return f"{most} runs of each arm are too few for any test of a difference (`repeats: 5` or more is enough)."


def _unsteady(arms: Sequence[Arm]) -> str:
    """Say in how many runs throughput depends on when it was measured, and of which arms they are."""
    found = [arm for arm in arms if arm.unsteady]
    if not found:
        return ""
    rows = [row for arm in arms for row in arm.completed]
    unsettled = sum(row.get("warmup_detected") is not None and not row["warmup_detected"] for row in rows)
    why = {
        "step times had not settled when the timed window began": unsettled,
        f"the rate changed by more than {percent(MOST_DRIFT)} within the window": sum(map(has_drifted, rows)),
    }
    reasons = (f"{text} ({counted(count, 'run')})" for text, count in why.items() if count)
    return (
        f"In {sum(arm.unsteady for arm in found)} of {counted(len(rows), 'run')} throughput was not steady (~): "
        f"{', '.join(reasons)}. "
        f"{listed([f'{arm.title}: {arm.unsteady} of {arm.n}' for arm in found], separator='; ')}."
    )


def _window(rows: Sequence[Row]) -> str:
    without = [row for row in rows if row.get("samples_per_s") is None]
    if not without:
        return ""
    remedy = "`extend_window: true` brings it" if all(map(can_extend, without)) else "more steps bring it"
    return (
        f"{len(without)} of {counted(len(rows), 'run')} have no steady throughput: it needs a timed window of "
        f"{MIN_TIMED_STEPS} steps and {MIN_TIMED_S:g} s ({remedy})."
    )


def _steal(rows: Sequence[Row]) -> str:
    shares = [float(row["steal_fraction"]) for row in rows if row.get("steal_fraction") is not None]
    if not shares or max(shares) < MUCH_STEAL:
        return ""
    much = sum(share >= MUCH_STEAL for share in shares)
    return (
        f"The hypervisor took up to {percent(max(shares))} of the CPU time of a run, and {percent(MUCH_STEAL)} or more "
        f"in {much} of {counted(len(shares), 'run')}."
    )


def _first_step(rows: Sequence[Row]) -> str:
    shares = [
        float(row["first_step_s"]) / float(row["train_time_s"])
        for row in rows
        if row.get("first_step_s") is not None and row.get("train_time_s")
    ]
    if not shares or median(shares) < MUCH_FIRST_STEP:
        return ""
    return (
        f"The first step, compilation included, is {percent(median(shares))} of the training time at the median: "
        "longer training may rank the arms differently."
    )


def _bookkeeping(rows: Sequence[Row]) -> str:
    """Say that what lies between steps is a large part of the timed window: of steps of microseconds."""
    shares = [
        float(row["bookkeeping_time_s"]) / float(row["timed_window_s"])
        for row in rows
        if row.get("bookkeeping_time_s") is not None and row.get("timed_window_s")
    ]
    much = sum(share >= MUCH_BOOKKEEPING for share in shares)
    if not much:
        return ""
    return (
        f"In {much} of {counted(len(shares), 'run')} dlbench itself took {percent(MUCH_BOOKKEEPING)} or more of the "
        f"timed window, up to {percent(max(shares))} (`bookkeeping_time_s`): a bare loop makes such short steps faster."
    )


def _synthetic(rows: Sequence[Row]) -> str:
    number = sum(row.get("input") == Input.SYNTHETIC for row in rows)
    if not number:
        return ""
    return (
        f"{number} of {counted(len(rows), 'run')} trained on random numbers (`input: synthetic`): their losses and "
        "accuracies mean nothing and are left out."
    )


def _dropped(rows: Sequence[Row]) -> str:
    """Say that samples were left out: arms of larger batches then train on fewer."""
    shares = [row["samples_dropped"] / (row["samples_seen"] + row["samples_dropped"]) for row in rows if _drops(row)]
    if not shares:
        return ""
    return (
        f"{len(shares)} of {counted(len(rows), 'run')} left out samples that fill no global batch, up to "
        f"{percent(max(shares))} of each epoch (`remainder: train` trains them)."
    )


def _drops(row: Row) -> bool:
    return bool(row.get("samples_dropped")) and row.get("samples_seen") is not None


def _unbound(rows: Sequence[Row]) -> str:
    number = sum(row.get("cores_enforced") == "none" for row in rows)
    if not number:
        return ""
    return f"In {number} of {counted(len(rows), 'run')} workers were not bound to cores: arms may differ in them."


def _devices(rows: Sequence[Row]) -> str:
    names = _device_names(rows)
    if len(names) < 2:
        return ""
    return f"Runs were on different devices ({listed(names, separator='; ')}): differences may be theirs."


def _device_names(rows: Sequence[Row]) -> list[str]:
    return sorted({one_line(row["device_name"]) for row in rows if row.get("device_name")})


def _one_machine(rows: Sequence[Row]) -> str:
    """Say that hosts were containers on one kernel: what they send each other is copied in its memory."""
    several = [row for row in rows if (row.get("hosts") or 0) > 1 and row.get("machines")]
    shared = sum(row["machines"] < row["hosts"] for row in several)
    if not shared:
        return ""
    return (
        f"In {shared} of {counted(len(several), 'run')} on several hosts, hosts were one machine: their messages "
        "crossed no network card, and a real network may rank the arms differently."
    )


_ABOUT_RUNS: tuple[Callable[[Sequence[Row]], str], ...] = (
    _window, _steal, _first_step, _bookkeeping, _synthetic, _dropped, _unbound, _devices, _one_machine,
)  # fmt: skip


def _samples(group: ComparisonGroup) -> str:
    """Say that training times are of unequal work, with the arms of the least and of the most samples."""
    titles: dict[int, list[str]] = {}
    for arm in group.completed:
        if arm.samples_seen is not None:
            titles.setdefault(arm.samples_seen, []).append(arm.title)
    if len(titles) < 2:
        return ""
    least, most = (f"({listed(titles[count], separator='; ')})" for count in (min(titles), max(titles)))
    return (
        f"{group.title}{', emulated' * bool(group.emulated)}: training times are of unequal work (`remainder: drop`, "
        f"`target.stop` or an older version): {min(titles):,} samples {least} to {max(titles):,} {most}."
    )


def _data(group: ComparisonGroup) -> str:
    if len(_distinct(group, "dataset_checksum")) < 2:
        return ""
    return f"{group.title}: runs read different data (`dataset_checksum`): their accuracies cannot be compared."


def _learning_rate(group: ComparisonGroup) -> str:
    """Say that one learning rate served all batch sizes: no rule of scaling it holds everywhere."""
    if len(_distinct(group, "batch_size_global")) < 2 or len(_distinct(group, "learning_rate_base")) != 1:
        return ""
    if not any(row.get("validation_accuracy") is not None for arm in group.completed for row in arm.completed):
        return ""
    scales = sorted(map(str, _distinct(group, "learning_rate_scale")))
    ways = ["kept as it is"] if "none" in scales else []
    if rules := [scale for scale in scales if scale != "none"]:
        ways.append(f"scaled by the global batch ({', '.join(rules)})")
    how = " or ".join(ways)
    return f"{group.title}: the learning rate was {how}, not tuned for each batch size, which may change the ranking."


def _distinct(group: ComparisonGroup, column: str) -> set[Any]:
    found = {row.get(column) for arm in group.completed for row in arm.completed}
    return found - {None}
