"""What speaks against trusting an answer, what could change it most first, each with the number of runs it is of.

And what makes runs unusable: they did not complete, had other batches than were asked for, or learned nothing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import compress
from statistics import median

from dlbench import plugins
from dlbench.analysis.answer.answer import Doubt
from dlbench.analysis.answer.batches import evaluations
from dlbench.analysis.answer.comparison_group import ComparisonGroup
from dlbench.analysis.arms import (
    COUNTED,
    IMPORTED,
    Arm,
    Row,
    can_extend,
    distinct,
    held_back,
    is_ended_by_target,
    is_imported,
    is_simulated,
    is_unsteady,
    quotient,
    reports_no_steps,
    stated_of,
    window_needed,
)
from dlbench.analysis.claims.claim_check import EQUAL_WORK
from dlbench.analysis.formatting import chosen, counted, listed, one_line, percent, quantity
from dlbench.analysis.groups import LEARNING_RATE, not_tuned_for, tuned_of, values_of, written_name
from dlbench.analysis.judge import ENOUGH_REPEATS
from dlbench.errors import UserError
from dlbench.grouping import by_key
from dlbench.records.outcome import Status
from dlbench.records.result import STOOD_STILL
from dlbench.scenario.metrics import BUILT_IN, QUALITY, RATE, TIME_TO_TARGET, TRAIN_TIME, Metric, Metrics
from dlbench.scenario.run_spec import arm_name
from dlbench.scenario.settings import Input

# How much a doubt could change the answer, and what it is.
Weighed = tuple[int, str]
# From this share on, CPU time that the hypervisor took is as large as half the differences that are called real.
MUCH_STEAL = 0.01
# Steal is counted in ticks of 10 ms: shorter windows have too few of them.
LEAST_WINDOW_S = 1.0
# More than that of a core, taken by other programs, shows in the times of a worker on it.
MUCH_LOAD = 0.5
# Of a mean of whole numbers.
_ROUNDING = 1e-6
# Medians of few repeats differ by less than this share by chance.
OTHER_SPEED = 0.1
# In so much more of their windows were GPUs of one arm slowed down.
UNLIKE_CLOCKS = 0.1
# A share of the timed window that may decide between arms.
MUCH_BOOKKEEPING = 0.1
# A validation loss this many times that of a model that knows nothing is no loss of a model that learns.
EXPLODED = 10.0
# A worker of several that does so much more than one alone has other work, or is counted wrongly.
MOST_EFFICIENCY = 1.2
# How much work arms are asked to do, in the order in which it is looked for.
_ASKED_WORK = ("epochs", f"{IMPORTED}.samples", f"{IMPORTED}.steps")
# What may name the user's code, and differ among the arms of a task.
_OWN_CODE = ("command", "trainer", "strategy", "communicator", "compression")
# A first step, with its compilation, that is so much of the training says little about a longer one.
MUCH_FIRST_STEP = 0.2


def doubts(
    group: ComparisonGroup, judged: Sequence[Arm], deciding: Sequence[Metric], others: Iterable[Weighed]
) -> tuple[Doubt, ...]:
    """Return the doubts about a group's answer, the heaviest first.

    Args:
        group: Its arms.
        judged: Those that are not out.
        deciding: The score that counts, and the time or rate.
        others: Further ones, by weight.
    """
    rows = [row for arm in group.completed for row in arm.completed]
    weighed = [*others, *_of_data(rows, deciding), *_of_scripts(group, rows), *_of_comparison(group, judged, deciding)]
    weighed += [*_of_machine(group, rows), *_of_arms(group, judged, deciding), *_of_gpus(group, rows)]
    weighed += [*_of_measurement(rows, is_rate=RATE in deciding), *_of_statements(rows, deciding)]
    return tuple(Doubt(text=text, weight=weight) for weight, text in sorted(weighed, reverse=True))


def _of_comparison(group: ComparisonGroup, judged: Sequence[Arm], deciding: Sequence[Metric]) -> Iterator[Weighed]:
    """Yield by weight what makes arms unequal, or their number too small."""
    rows = [row for arm in group.completed for row in arm.completed]
    is_learned = any(metric.is_score for metric in deciding)
    if is_learned and TIME_TO_TARGET not in deciding and (runs := _runs(list(map(is_ended_by_target, rows)))):
        yield 84, f"scores are those at which a target ended {runs} (`target.stop`)"
    if is_learned and (text := _untuned(group.completed)):
        yield 80, text
    at_edge = [text for arm in group.completed for text in str(arm.get("tuned_at_edge") or "").split("; ") if text]
    at_edge += _rates_at_edge(group, judged, deciding) if is_learned else ()
    # Where no score decides, another learning rate changes nothing.
    edges = Counter(text for text in at_edge if is_learned or not text.startswith(written_name(LEARNING_RATE)))
    if edges:
        texts = listed([f"{text}, of {counted(count, 'arm')}" for text, count in edges.most_common()], 2, "; ")
        yield 79, f"{texts}: others beyond may be better"
    if is_learned and (scattered := sum(bool(arm.get("tuned_scattered")) for arm in group.completed)):
        yield 60, f"the searches of {counted(scattered, 'arm')} did not tell learning rates apart (`tune.repeats`)"
    if text := not_completed([row for arm in group.arms for row in arm.rows]):
        yield 65, text
    again = (arm for arm in group.arms if len(arm.attempts) > len(arm.rows))
    if failed := +Counter({arm: sum(status != Status.COMPLETED for status in arm.attempts) for arm in again}):
        each = [f"{count} of {len(arm.attempts)} attempts of {arm.title} failed" for arm, count in failed.most_common()]
        yield 64, listed(each, 2, "; ")
    if work := unequal_work(group.completed):
        is_asked_for = any(len(distinct(rows, column)) > 1 for column in _ASKED_WORK)
        if not (is_learned or RATE in deciding):
            yield 82, f"training times are of unequal work, which no score judges: {work}"
        elif not (is_asked_for or TIME_TO_TARGET in deciding):
            yield 55, f"training times are of unequal work: {work}"


def _of_data(rows: Sequence[Row], deciding: Sequence[Metric]) -> Iterator[Weighed]:
    if len(distinct(rows, "dataset_checksum")) > 1:
        yield 90, "runs read different data (`dataset_checksum`)"
    if any(metric.is_score for metric in deciding) and (noted := sorted(distinct(rows, "dataset_doubt"))):
        yield 93, noted[0]
    if code := edited(rows):
        yield 92, f"{code} was edited between runs (`code_checksum`): begin a new study"
    elif code := edited(rows, _OWN_CODE):
        yield 70, f"studies executed different versions of {code} (`code_checksum`)"


def edited(rows: Sequence[Row], alike: Sequence[str] = (*_OWN_CODE, "study")) -> str:
    """Return the command, or `own code`, of which runs executed several versions; else an empty string.

    Args:
        rows: Completed runs.
        alike: The columns in which runs agree that should have executed the same.
    """
    for (command, *_), of_code in by_key((tuple(map(row.get, alike)), row) for row in rows).items():
        if len(distinct(of_code, "code_checksum")) > 1:
            return one_line(command or "own code")
    return ""


def _rates_at_edge(group: ComparisonGroup, judged: Sequence[Arm], deciding: Sequence[Metric]) -> Iterator[str]:
    """Yield each axis's best learning rate that is its least or greatest, unless another one is about as good.

    What is out was tried, and is not the best.
    """
    metric = TIME_TO_TARGET if TIME_TO_TARGET in deciding else deciding[0]
    keys = [key for key in group.keys if key != LEARNING_RATE]
    for arms in by_key((tuple(map(arm.get, keys)), arm) for arm in group.arms).values():
        scored = [(arm.get(LEARNING_RATE), arm.values(metric.column)) for arm in arms if arm in judged]
        gains = {rate: metric.gain(median(values), 0.0) for rate, values in scored if values}
        rates, most = values_of(arms, LEARNING_RATE), max(gains.values(), default=0.0)
        near = [rate for rate in gains if most - gains[rate] <= metric.margin_at(most)]
        if len(rates) > 1 and near in (rates[:1], rates[-1:]):
            which = "smallest" if near == rates[:1] else "largest"
            yield f"{written_name(LEARNING_RATE)} {near[0]:g} is the {which} tried"


def unequal_work(arms: Sequence[Arm]) -> str:
    """Say from how much to how much arms were trained; empty where that is equal, or unknown."""
    for column in ("samples_seen", *_ASKED_WORK):
        done = [median(amounts) for arm in arms if (amounts := arm.values(column))]
        if not done or len(done) < len(arms):
            continue
        unit = column.removeprefix(f"{IMPORTED}.").removesuffix("_seen")
        # Steps of unlike batches are no measure of work.
        is_comparable = unit != "steps" or len({arm.get("batch_size_global") for arm in arms}) == 1
        is_unequal = max(done) > (1 + EQUAL_WORK) * min(done)
        return f"{min(done):,.0f} to {max(done):,.0f} {unit}" if is_comparable and is_unequal else ""
    return ""


def _of_scripts(group: ComparisonGroup, rows: Sequence[Row]) -> Iterator[Weighed]:
    """Yield by weight what scripts have done otherwise than the scenario, or their columns, say."""
    others = [
        f"{arm.title}: {size:.4g} samples, not {arm.get('batch_size_per_worker'):.4g}"
        for arm in group.completed
        if (size := next(filter(None, map(unlike_batch, arm.completed)), None))
    ]
    if others:
        yield 95, f"steps have other batches than `batch_size` says: {listed(others, 2, '; ')}"
    for arm in group.completed:
        work = unequal_work([Arm(arm.name, (row,)) for row in arm.completed])
        is_script = arm.get("command") is not None and not is_imported(arm.first)
        if work and is_script and not arm.get("target_metric"):
            why = "if one goes on from another's checkpoint, no median of theirs is a result"
            yield 97, f"repeats of {arm.title} were trained on {work}: {why}"
    if runs := _runs([row.get("command") is not None and row.get("steps") == 0 for row in rows]):
        yield 96, f"{runs} made no step"
    if runs := _runs([has_unknown_samples(row) for row in rows]):
        yield 95, f"the samples of a step are unknown in {runs}"
    noted = Counter(note for row in rows for note in (row.get("script_note") or "").split("; ") if note)
    yield from ((94, f"{note} ({count} of {counted(len(rows), 'run')})") for note, count in noted.most_common())


def _of_arms(group: ComparisonGroup, judged: Sequence[Arm], deciding: Sequence[Metric]) -> Iterator[Weighed]:
    """Yield by weight what the repeats of the arms that are judged do not tell, or tell too well."""
    arms = judged or group.completed
    copied = 0
    for arm in arms:
        stated = {tuple((name, row.get(name)) for name in stated_of(row)) for row in arm.completed}
        copied += arm.n > 1 and is_imported(arm.first) and len(stated) == 1
    if copied:
        yield 72, f"repeats of {counted(copied, 'arm')} are equal to the digit: are they copies of one run?"
    least, most = (pick((arm.n for arm in arms), default=0) for pick in (min, max))
    is_table = any(is_imported(arm.first) for arm in arms)
    advice = "" if is_table else " (`repeats: 5`)"
    if most == 1:
        # A line may be the mean of several runs.
        of_lines = "each arm is one line, read without its scatter"
        yield 70, of_lines if is_table else "one run of each arm says nothing of chance"
    elif least < ENOUGH_REPEATS and not any(arm.get("repeats_rule") for arm in arms) and arms:
        few = f"an arm has as few as {counted(least, 'run')}, which shows little"
        yield 70, (f"{least} runs of each arm show little" if least == most else few) + advice
    runs = [row for arm in judged for row in arm.completed]
    if TIME_TO_TARGET in deciding and runs and all(evaluations(row) <= 1 for row in runs):
        yield (
            59,
            "all runs reached the target at their first evaluation: a higher one, or evaluating sooner, tells more",
        )
    steep = {arm: arm.efficiency.value for arm in arms if arm.efficiency and arm.efficiency.value > MOST_EFFICIENCY}
    if steep:
        arm = max(steep, key=steep.__getitem__)
        what = f"the efficiency of {arm.title} is {percent(steep[arm])}, more than linear"
        yield 57, f"{what}: is it the same work, and are workers counted right?"


def _untuned(arms: Sequence[Arm]) -> str:
    """Say that arms which may each have a best learning rate had one, and what of it one sample got in each."""
    if not (varying := not_tuned_for(arms)):
        return ""
    rates = {arm: rate for arm in arms if (rate := arm.get("learning_rate_per_sample")) and not tuned_of(arm)}
    text = f"the learning rate was not tuned for each {' and '.join(varying[:2])}"
    if len(set(rates.values())) < 2:
        return text
    least, most = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
    return f"{text}: per sample {chosen(rates[least])} ({least.title}) to {chosen(rates[most])} ({most.title})"


def _of_machine(group: ComparisonGroup, rows: Sequence[Row]) -> Iterator[Weighed]:
    """Yield by weight what the machines did, or are, that shows in the numbers."""
    if group.emulated:
        yield 85, f"not representative hardware ({group.emulated})"
    # What this machine did is in no time of a simulator.
    rows = [row for row in rows if not is_simulated(row)]
    # The name of an arm has a digest of its settings.
    timed = ((arm.name, arm.values(TRAIN_TIME.column)) for arm in group.completed)
    times = by_key((name, median(seconds)) for name, seconds in timed if seconds)
    most = max((max(speeds) / max(min(speeds), 1e-9) for speeds in times.values()), default=1.0)
    if most > 1 + OTHER_SPEED:
        yield 76, f"the same arm took {most:.2f} times as long in another study"
    load = [row.get("other_cpu_cores") or 0.0 for row in rows]
    if runs := _runs([cores >= MUCH_LOAD for cores in load]):
        yield 75, f"other programs kept {max(load):.1f} cores busy in {runs}"
    is_long = [(row.get("timed_window_s") or 0.0) >= LEAST_WINDOW_S for row in rows]
    steal = [row.get("steal_fraction") or 0.0 if is_known else 0.0 for row, is_known in zip(rows, is_long, strict=True)]
    if runs := _runs([share >= MUCH_STEAL for share in steal]):
        yield 50, f"the hypervisor took up to {percent(max(steal))} of the CPU time, in {runs}"
    if len(names := distinct(rows, "device_name")) > 1:
        yield 45, f"runs were on different devices: {listed(sorted(map(one_line, names)), separator='; ')}"
    if runs := _runs([row.get("cores_enforced") == "none" for row in rows]):
        yield 40, f"workers were not bound to cores in {runs}"
    machines = [row["machines"] < row["hosts"] for row in rows if (row.get("hosts") or 0) > 1 and row.get("machines")]
    if runs := _runs(machines):
        yield 30, f"hosts were one machine in {runs}: no network card"


def _of_gpus(group: ComparisonGroup, rows: Sequence[Row]) -> Iterator[Weighed]:
    """Yield by weight what GPUs reported that makes arms unequal, or cannot be true."""
    held = {median(shares): arm for arm in group.completed if (shares := arm.values("device_throttled"))}
    if held and max(held) - min(held) >= UNLIKE_CLOCKS:
        more, less = held[max(held)], held[min(held)]
        clocks = f"{held_back(more.completed)} in {more.title}, and {held_back(less.completed)} in {less.title}"
        yield 58, f"clocks of GPUs were {clocks}"
    texts = [row.get("device_rejected") or "" for row in rows]
    if runs := _runs(list(map(bool, texts))):
        names = {reading.partition(" ")[0] for text in filter(None, texts) for reading in text.split("; ")}
        yield 28, f"readings of GPUs cannot be true and were left out ({listed(sorted(names))}) in {runs}"


def _of_measurement(rows: Sequence[Row], *, is_rate: bool) -> Iterator[Weighed]:
    """Yield by weight what the numbers say less of than they seem to."""
    if runs := _runs([is_unsteady(row) for row in rows]):
        yield 60 if is_rate else 10, f"throughput was not steady in {runs} (~)"
    first_steps = _known(rows, "first_step_s", "train_time_s")
    if first_steps and median(first_steps) >= MUCH_FIRST_STEP:
        share = percent(median(first_steps))
        yield 35, f"the first step, compilation included, is {share} of the training time"
    is_continued = [row.get("resumed_from_epoch") is not None for row in rows]
    again = max(_known(list(compress(rows, is_continued)), "first_step_s", "train_time_s"), default=0.0)
    if again >= TRAIN_TIME.margin and not is_rate:
        counts = f"the first step of each attempt counts, up to {percent(again)} of the training time"
        yield 35, f"{_runs(is_continued)} continued from a checkpoint: {counts}"
    if dropped := max(_known(rows, "samples_dropped", "samples_seen"), default=0.0):
        most = percent(dropped / (1 + dropped))
        yield 25, f"up to {most} of the samples were left out (`remainder: train` trains them)"
    if runs := _runs([row.get("input") == Input.SYNTHETIC for row in rows]):
        yield 20, f"{runs} trained on random numbers: their scores mean nothing"
    # Of steps of microseconds; a process that stood still says so itself.
    ran = [row for row in rows if STOOD_STILL not in (row.get("script_note") or "")]
    bookkeeping = _known(ran, "bookkeeping_time_s", "timed_window_s")
    if runs := _runs([share >= MUCH_BOOKKEEPING for share in bookkeeping]):
        yield 15, f"dlbench itself took up to {percent(max(bookkeeping))} of the timed window in {runs}"
    without = [row for row in rows if row.get("samples_per_s") is None and not reports_no_steps(row)]
    without = [row for row in without if not is_imported(row)]
    if without:
        remedy = "`extend_window: true`" if all(map(can_extend, without)) else "more steps"
        needs = f"it needs {window_needed(without)}: {remedy}"
        yield 5, f"{len(without)} of {counted(len(rows), 'run')} have no steady throughput ({needs})"


def _of_statements(rows: Sequence[Row], deciding: Sequence[Metric]) -> Iterator[Weighed]:
    """Yield which of the metrics that decide dlbench has not measured itself."""
    stated = [[metric for metric in deciding if metric.column in stated_of(row)] for row in rows]
    if runs := _runs(list(map(bool, stated))):
        rate = " and ".join(f"{noun}/s" for noun in sorted(distinct(rows, COUNTED))) or "throughput"
        titles = dict.fromkeys(rate if metric is RATE else metric.title for each in stated for metric in each)
        verb = "was" if len(titles) == 1 else "were"
        yield 55, f"{' and '.join(titles)} {verb} not measured by dlbench, but stated, in {runs}"


def unlike_batch(row: Row) -> float | None:
    """Return the samples of a worker's step where these cannot be those of the scenario's batch size.

    A last step of an epoch may be smaller; a mean above the batch, or at most half of it, is none of that.
    """
    asked, whole = row.get("batch_size_per_worker"), row.get("batch_size_global")
    seen, steps = row.get("samples_seen"), row.get("steps")
    if row.get("command") is None or not asked or not whole or not seen or not steps:
        return None
    size = asked * float(seen) / (float(steps) * whole)
    return size if size > (1 + _ROUNDING) * asked or size <= asked / 2 else None


def has_unknown_samples(row: Row) -> bool:
    """Whether a script has made steps, and what it trained them on has shown no number of samples."""
    return row.get("command") is not None and bool(row.get("steps")) and row.get("samples_seen") == 0


def not_completed(rows: Sequence[Row]) -> str:
    """Say how many of some runs did not complete, and how they ended; empty where all did."""
    failed = Counter(str(row["status"]) for row in rows if row["status"] != Status.COMPLETED)
    how = ", ".join(f"{count} {status}" for status, count in failed.most_common())
    return f"{failed.total()} of {counted(len(rows), 'run')} did not complete: {how}" if failed else ""


def learned_nothing(arm: Arm, judged: Metric, metrics: Metrics) -> str:
    """Say that runs of an arm are no better than a model that knows nothing, or that their loss exploded."""
    if not arm.scores_mean_something:
        return "it trained on random numbers"
    for metric in dict.fromkeys((judged, metrics["validation_loss"])):
        values, nothing = list(arm.comparable(metric.column).values()), of_nothing(arm, metric)
        if not values or nothing is None:
            continue
        shown, least = quantity(metric, median(values)), metric.margin_at(nothing)
        least = max(least, sampling_error(metric, nothing, arm.first.get("validation_samples")))
        if metric.score == "loss" and (bad := sum(value > EXPLODED * nothing for value in values)):
            return f"exploded in {bad} of {counted(len(values), 'run')}: {metric.title} {shown}"
        if metric is judged and (bad := sum(metric.gain(value, nothing) <= least for value in values)):
            which = "" if bad == len(values) else f" in {bad} of {counted(len(values), 'run')}"
            return f"no better than knowing nothing ({quantity(metric, nothing)}){which}: {metric.title} {shown}"
    return ""


def pointless(row: Row, metrics: Metrics) -> dict[str, str]:
    """Return what makes runs like this one pointless, by kind; empty where nothing does, or it did not complete."""
    if row["status"] != Status.COMPLETED:
        return {}
    arm, reasons = Arm(arm_name(row["run_id"]), (row,)), {}
    if (size := unlike_batch(row)) is not None:
        steps = f"its steps have {size:.4g} samples of a worker, not {row['batch_size_per_worker']:.4g}"
        reasons["batch"] = f"{steps}: does the script read `batch_size`, or accumulate gradients?"
    if has_unknown_samples(row):
        reasons["batch"] = "the samples of its steps are unknown: does the model get a tensor of each batch?"
    judged = next((metrics[name] for name in scores_of(metrics) if arm.comparable(name)), None)
    if judged and (reason := learned_nothing(arm, judged, metrics)):
        reasons["nothing"] = reason
    if (load := row.get("other_cpu_cores") or 0.0) >= MUCH_LOAD:
        reasons["load"] = f"other programs keep {load:.1f} cores busy"
    return reasons


def scores_of(metrics: Metrics) -> tuple[str, ...]:
    """Return the columns of scores by which arms may be judged, those that are declared first."""
    return (*(name for name in metrics if name not in BUILT_IN), *QUALITY)


def sampling_error(metric: Metric, share: float, samples: float | None) -> float:
    """Return two standard errors of an accuracy, its samples being drawn; 0 of other scores."""
    if metric.score != "accuracy" or not samples or not 0 <= share <= 1:
        return 0.0
    return 2 * math.sqrt(share * (1 - share) / samples)


def of_nothing(arm: Arm, metric: Metric) -> float | None:
    """Return what a model that knows nothing scores on the data of an arm; None where that is not known."""
    recorded = arm.get(f"knows_nothing_{metric.score}")
    if recorded is not None:
        return float(recorded)
    classes = _num_classes(str(arm.first.get("dataset") or "")) if arm.first.get("command") is None else None
    return metric.of_classes(classes) if classes else metric.knows_nothing


@cache
def _num_classes(dataset: str) -> int | None:
    """Return the number of classes of one of dlbench's own data sets, for rows of versions that did not record it."""
    with suppress(UserError, ValueError, OSError, TypeError):
        plugin = plugins.load("datasets", dataset) if dataset in plugins.built_in("datasets") else None
        described = plugin.get("describe")(plugin.options()) if plugin else None
        return described.num_classes if described else None
    return None


def _runs(is_so: Sequence[bool]) -> str:
    """Return of how many runs something is so, such as `2 of 5 runs`; empty where of none."""
    return f"{sum(is_so)} of {counted(len(is_so), 'run')}" if any(is_so) else ""


def _known(rows: Sequence[Row], column: str, *divisors: str) -> list[float]:
    """Return what runs have in a column, divided by what they have in others; of those that have all of it."""
    values = (quotient(row.get(column), *map(row.get, divisors)) for row in rows)
    return [value for value in values if value is not None]
