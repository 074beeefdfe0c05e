"""What stands on x: the batch size wherever it varies, with one line for each way to train; workers; other settings.

Maps have workers on x: a map for each condition, a row for each strategy.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dlbench.analysis.arms import Arm, columns_of, equal_columns
from dlbench.analysis.formatting import chosen, joined
from dlbench.analysis.groups import (
    TASK,
    condition_text,
    described,
    follows,
    groups,
    setting_name,
    setting_text,
    task_columns,
    values_of,
    varying,
    without_base_lines,
)
from dlbench.report.chart import Axis, Panel, Series
from dlbench.report.lines import Part, brief_keys, parts, ways_vary

WORKERS = Axis("workers", "log2")
# Fewer values than this make no curve: then the batch size alone stands on x, where it varies.
CURVE = 3
# Beyond these ratios an axis is logarithmic: of costs or rates, of losses, and of the values of a setting.
FAR_APART, FAR_DOWN, FAR_SETTINGS = 4.0, 10.0, 20.0
# What is no scale by itself: a way to train, or what its batch counts.
_PLACED = ("placement", "study", "device_name")
_WAYS = (*TASK, "workers", "batch_size", "batch_scope", "strategy", "algorithm", "compression", *_PLACED)
# Whose samples `batch_size` counts, by `batch_scope`.
OF_WHOM = {"per-worker": " of one worker", "global": " of all workers"}
# What papers call the comparison of workers, by `batch_scope`, and what the batch is in it.
SCALING = {"per-worker": "weak scaling", "global": "strong scaling"}
MEANINGS = {"per-worker": "every worker keeps its batch", "global": "one batch is divided over the workers"}
# What belongs to a strategy: variants of it differ in these.
_COMMUNICATION = ("algorithm", "compression", "collectives", "launcher")
OF_STRATEGY = ("strategy", *_COMMUNICATION, "servers", "server_placement", "placement", "mode")


def placed(arms: Sequence[Arm], *, scaling: bool = False, others: bool = False) -> Iterator[tuple[Part, Axis]]:
    """Yield the parts that stand against batch size, those of one worker and of all apart, then those against workers.

    Against workers are the arms without a second batch size, and all of them where the workers make a curve.

    Args:
        arms: Arms, base lines too.
        scaling: Whether only what one base line fits shares a panel against workers, weak and strong scaling apart.
        others: Whether other settings stand on x, too: numbers that make a curve, and whatever varies alone.
    """
    num_workers = len(values_of(without_base_lines(arms), "workers"))
    scopes = list(_by_scope(arms))
    by_batch, left = list[tuple[Part, Axis]](), list[Arm]()
    for scope, alike in scopes:
        for part in parts(alike, x="batch_size"):
            if len(values_of(without_base_lines(part.arms), "batch_size")) > 1:
                whose = f"batch{OF_WHOM.get(scope, '')}" if len(scopes) > 1 else ""
                by_batch.append((brief_keys(replace(part, title=joined(part.title, whose))), batch_axis(alike)))
            else:
                left += part.arms
    yield from by_batch
    varies = bool(by_batch) or num_workers > 1
    further = list(_further(arms, is_alone=not varies)) if others else []
    chosen = list(dict.fromkeys(arms if num_workers >= CURVE else left))
    if chosen and (varies or not further):
        tasks = {key: values_of(chosen, key) for key in TASK if len(values_of(arms, key)) > 1}
        task = described({key: values[0] for key, values in tasks.items() if len(values) == 1})
        for part in _scaled(chosen) if scaling else map(brief_keys, parts(chosen, x="workers")):
            yield replace(part, title=joined(part.title, task)), WORKERS
    yield from further


def _by_scope(arms: Sequence[Arm]) -> Iterator[tuple[str, list[Arm]]]:
    """Yield `batch_scope` and its arms: those whose `batch_size` counts one worker's samples, and those of all.

    A scope that has base lines alone is left out, unless there is nothing else.
    """
    for values, alike in groups(arms, ["batch_scope"]):
        if without_base_lines(alike) or not without_base_lines(arms):
            yield values["batch_scope"] or "", alike


def _scaled(arms: Sequence[Arm]) -> Iterator[Part]:
    """Yield the arms that one base line fits: of one way of scaling, one task, and equal in what a base line shares.

    Without any base line all of one task are together.
    """
    # Labels are those that the arms have together: a way keeps its name and colour in all charts.
    together = brief_keys(Part("", tuple(arms), ways_vary(arms, x="workers"), "workers")).keys
    equal = equal_columns(columns_of(arms))
    tasks = task_columns(arms)
    for scope, alike in _by_scope(arms):
        for part in parts(alike, x="workers", always=equal if any(arm.base_line for arm in alike) else None):
            keys = tuple(key for key in together if key not in tasks)
            yield replace(part, title=joined(SCALING.get(scope), part.title), keys=keys)


def _further(arms: Sequence[Arm], *, is_alone: bool) -> Iterator[tuple[Part, Axis]]:
    """Yield the parts that stand against other settings that vary, by themselves and not with another.

    Args:
        arms: All arms.
        is_alone: Whether neither batch size nor workers vary: then two values do, and words are categories.
    """
    asked, every = without_base_lines(arms), varying(arms)
    for key in every:
        if key in _WAYS or follows(asked, key, [name for name in every if name != key]):
            continue
        numbered, names = _numbered(arms, key)
        values = values_of(without_base_lines(numbered), key)
        if len(values) > 1 and (is_alone or (len(values) >= CURVE and not names)):
            is_far = not names and values[0] > 0 and values[-1] > FAR_SETTINGS * values[0]
            axis = Axis(setting_name(key), "log10" if is_far else "linear", names)
            # More panels would not be read.
            yield from ((brief_keys(part), axis) for part in parts(numbered, x=key)[:6])


def _numbered(arms: Sequence[Arm], key: str) -> tuple[list[Arm], tuple[str, ...]]:
    """Return the arms with the place of a setting's value in its stead, and the names of places where it has words.

    A list of one number, such as `[32]`, is a number.
    """
    values, names = values_of(arms, key), tuple[str, ...]()
    try:
        places = {value: float(str(value).strip("[]")) for value in values}
    except ValueError:
        places, names = {value: float(slot) for slot, value in enumerate(values)}, tuple(map(setting_text, values))
    return [arm.having(**{key: lambda row: places.get(row.get(key))}) for arm in arms], names


def belongs_to_strategy(key: str) -> bool:
    """Whether a setting or option makes a variant of a strategy, and no other condition."""
    return key in OF_STRATEGY or key.startswith("strategy.")


def by_condition(arms: Sequence[Arm]) -> Iterator[tuple[Part, Axis]]:
    """Yield the arms of each condition against workers; variants of strategies are told apart."""
    keys = varying(arms, x="workers")
    variants = [key for key in keys if key != "strategy" and belongs_to_strategy(key)]
    for values, alike in groups(arms, [key for key in keys if not belongs_to_strategy(key)]):
        part = Part(condition_text(values, arms), tuple(alike), ("strategy", *variants), "workers")
        yield brief_keys(part), WORKERS


def batch_axis(arms: Iterable[Arm]) -> Axis:
    """Return the axis of `batch_size`, which states whose samples it counts where all arms count alike."""
    scopes = values_of(arms, "batch_scope")
    return Axis(f"batch size{OF_WHOM.get(scopes[0], '') if len(scopes) == 1 else ''} (samples)", "log2")


def spread(axis: Axis, shown: Sequence[Series]) -> Axis:
    """Return an axis of times, sizes or losses, or a logarithmic one where medians and ends of runs lie far apart."""
    marks = [mark for curve in shown for mark in curve.marks]
    values = [mark.interval.value for mark in marks if mark.interval]
    values += [value for mark in marks for value in mark.ended if math.isfinite(value)]
    can_be = not axis.percent and axis.most is None and bool(values)
    is_far = can_be and max(values) > (FAR_APART if axis.low == 0.0 else FAR_DOWN) * min(values) > 0
    return replace(axis, scale="log10", low=None) if is_far else axis


def with_categories(panel: Panel) -> Panel:
    """Return a panel with its places beside each other, as categories."""
    slots = {place: float(slot) for slot, place in enumerate(panel.places)}
    moved = (
        replace(curve, marks=tuple(replace(mark, x=slots[mark.x]) for mark in curve.marks)) for curve in panel.series
    )
    return replace(panel, x=Axis(panel.x.label, categories=tuple(map(chosen, slots))), series=tuple(moved))


def meanings(arms: Iterable[Arm]) -> list[str]:
    """Say what the batch was in the ways of scaling that occur."""
    scopes = values_of(arms, "batch_scope")
    return [f"{SCALING[scope].capitalize()}: {text}." for scope, text in MEANINGS.items() if scope in scopes]
