"""Which settings distinguish the arms of a report, and what arms and groups of them are called."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dlbench.analysis.arms import IMPORTED, Arm, are_numbers, columns_of, emulation, is_imported, option_columns
from dlbench.analysis.formatting import chosen
from dlbench.grouping import by_key
from dlbench.records.tables import cell
from dlbench.scenario.expand import arms as scenario_arms
from dlbench.scenario.metrics import QUALITY
from dlbench.scenario.settings import Affects, settings_of

# Columns of settings that have other names there; a run's seed comes with its repeat.
_COLUMNS = {"learning_rate": "learning_rate_base", "mode": "placement", "workers_per_host": "placement"}
_COLUMNS |= {"seed": ""}
_WRITTEN = {"learning_rate_base": "learning_rate", "placement": "mode"}
# What arms of one study can differ in, by column; what follows from others (the global batch) is not among them.
_DIFFERING = settings_of(Affects.STEP, Affects.ARITHMETIC, Affects.TRAINING, Affects.DISTRIBUTION)
SETTINGS = tuple(dict.fromkeys(column for name in _DIFFERING if (column := _COLUMNS.get(name, name))))
# Runs that differ in one of these do different work: they never share axes.
TASK = ("model", "dataset", "command")
# Columns of imported tables that say what was trained, without underscores: none is a choice. `params` alone may
# hold all settings, as trackers write them: `{'lr': 0.1}`, `lr=0.1`, `--lr 0.1`.
_PARAMS = re.compile(rf"{IMPORTED}\.param(eter)?s?")
_TASK = re.compile(
    rf"{IMPORTED}\.(task|workload|benchmark|problem(size)?|(quality)?target(accuracy)?|counted|unit"
    "|(params|config|n|num(ber)?|of|total|max|train(ing)?|model|input|attention)*"
    "(param(eter)?s?|layers?|hidden|heads?|resolution|(seq(uence)?|context|input)len(gth)?"
    "|(model|input|image|img|crop|vocab(ulary)?)(size|shape))"
    "(size|dim(ension)?|count|in|b|m|k|billions?|millions?|px|pixels|tokens)*)"
)
# What stands for itself: `cnn`, not `model=cnn`.
_BARE = {*TASK, "trainer", "backend", "strategy", "algorithm", "compression", "mode", "optimizer", "precision"}
_BARE |= {"batch_policy", "study", "device_name"}
# What others may follow from; x of a chart is added to them.
_LEADING = (*TASK, "strategy", "algorithm", "compression")
# What comes with a strategy or an algorithm, such as the library that moves bytes; all else that differs with these is
# its own difference.
_COMES_WITH = ("trainer", "launcher", "communicator", "collectives", "servers", "server_placement")
# How work is spread over workers, what comes with that, and which of several studies has it.
_SPREAD = (*_COMES_WITH, "placement", "batch_scope", "divide", "study")
# Runs of two studies, or on other devices, are no repeats of each other.
APART = ("study", "device_name")
# Where these are unset there is none: dlbench fills in its choice.
_RESOLVED = {*APART, *_COMES_WITH, "algorithm", "backend"}
ALONE = "one worker alone"
# What arms may each have a best learning rate of their own for.
LEARNING_RATE = "learning_rate_base"
_OWN_RATE = {"batch_size_global": "global batch"} | {
    key: key for key in ("strategy", "compression", "optimizer", "momentum", "batch_policy")
}
# Units by the end of a column's name.
_UNITS = {"_bytes_per_s": "bytes/s", "_bytes": "bytes", "_ms": "ms", "_s": "s"}


def column_of(setting: str) -> str:
    """Return the column in which arms are told apart by a setting, as a scenario calls it."""
    return _COLUMNS.get(setting, setting) or setting


def written_name(column: str) -> str:
    """Return what a scenario calls the setting of a column."""
    return _WRITTEN.get(column, column)


def is_shared(key: str) -> bool:
    """Whether a base line shares this setting with its arms: all but the ways of communicating and where they go."""
    return key != "placement" and scenario_arms.is_shared(key)


def by_emulation(arms: Iterable[Arm]) -> Iterator[tuple[str, list[Arm]]]:
    """Yield real arms, then emulated ones, with all their reasons."""
    every = list(arms)
    for is_emulated in (False, True):
        if alike := [arm for arm in every if bool(arm.emulated) == is_emulated]:
            yield emulation(arm.emulated for arm in alike), alike


def ways(arms: Iterable[Arm]) -> list[Arm]:
    """Return the arms that are a way to train together: neither base lines nor one worker alone."""
    return [arm for arm in arms if not (arm.baseline or arm.is_alone)]


def without_base_lines(arms: Iterable[Arm]) -> list[Arm]:
    """Return the arms that a scenario asks for: all but the base lines that were added."""
    return [arm for arm in arms if not arm.baseline]


def task_columns(arms: Sequence[Arm]) -> list[str]:
    """Return the columns that say what was trained, in which arms differ: these do different work."""
    differing = [name for name in TASK if len({arm.get(name) for arm in arms}) > 1]
    # Tables that were measured elsewhere do not say what was unset.
    return differing + [name for name in columns_of(arms) if _is_task(name, arms) and len(values_of(arms, name)) > 1]


def _is_task(name: str, arms: Sequence[Arm]) -> bool:
    words = name.lower().replace("_", "")
    are_settings = _PARAMS.fullmatch(words) and any(re.search(r"^[\[{-]|[=:]", str(it)) for it in values_of(arms, name))
    return not are_settings and _TASK.fullmatch(words) is not None


def values_of(arms: Iterable[Arm], key: str) -> list[Any]:
    """Return the known values of a setting, each once, in their order."""
    return sorted({value for arm in arms if (value := arm.get(key)) is not None}, key=place_of)


def tuned_of(arm: Arm) -> tuple[str, ...]:
    """Return the columns of settings and options of which an arm has the best value that a search found."""
    return tuple(column_of(key) for key in str(arm.get("tuned") or "").split(";") if key)


def not_tuned_for(arms: Sequence[Arm]) -> list[str]:
    """Return in what arms differ that have one learning rate, though each may have its own best one.

    One worker alone is no strategy that could have one.
    """
    untuned = [arm for arm in arms if LEARNING_RATE not in tuned_of(arm)]
    if len(values_of(untuned, LEARNING_RATE)) != 1:
        return []
    values = {column: {*values_of(untuned, column)} - {"single"} for column in _OWN_RATE}
    # Without compression is a way, too.
    if any(arm.get("compression") is None for arm in untuned if not (arm.is_alone or is_imported(arm.first))):
        values["compression"].add(None)
    return [words for column, words in _OWN_RATE.items() if len(values[column]) > 1]


def learning_rate_note(arms: Sequence[Arm]) -> str:
    """Say at which learning rates arms were measured that may each need another one; empty where that is no question.

    Nothing is said of arms without scores.
    """
    learned = [arm for arm in arms if any(arm.comparable(name) for name in QUALITY)]
    if not_tuned_for(learned):
        return f"not tuned: all arms at {written_name(LEARNING_RATE)} {chosen(learned[0].get(LEARNING_RATE))}"
    if any(LEARNING_RATE in tuned_of(arm) for arm in learned):
        ends = [chosen(rate) for rate in values_of(learned, LEARNING_RATE)]
        which = ends[0] if len(ends) == 1 else f"{ends[0]} to {ends[-1]}"
        return f"each arm at the {written_name(LEARNING_RATE)} that its own search chose: {which}"
    return ""


def tuned_columns(arms: Iterable[Arm]) -> tuple[str, ...]:
    """Return the columns that were searched for in some of the arms."""
    return tuple(dict.fromkeys(column for arm in arms for column in tuned_of(arm)))


def varying(arms: Sequence[Arm], *, x: str = "") -> tuple[str, ...]:
    """Return the settings and options in which arms differ, but those that follow from others, or as they may from `x`.

    What was searched for does not distinguish arms: it is what each of them is measured at.
    Base lines do not count, where there are other arms: they differ in strategy and workers by what they are.
    One value and unset vary, too, unless that follows from another that varies: a strategy without servers has none.
    """
    judged = without_base_lines(arms) or arms
    options = option_columns(columns_of(judged))
    names = [key for key in (*SETTINGS, *options, *APART) if key != x]
    searched = {arm: tuned_of(arm) for arm in judged}
    values = {key: {arm.get(key) for arm in judged if key not in searched[arm]} for key in names}
    several = [key for key in names if len(values[key]) > 1]
    # Tables that were measured elsewhere do not say what was unset.
    is_measured = not any(is_imported(arm.first) for arm in judged)
    unset = {key for key in several if is_measured and key not in _RESOLVED and not key.startswith("launcher.")}
    differing = [key for key in several if len(values[key] - {None}) > 1 or key in unset.intersection(_LEADING)]
    leading = [key for key in (*_LEADING, x, "study") if key in differing or (key and key == x)]

    def is_explained(key: str, leads: Iterable[str], *, dropna: bool) -> bool:
        able = (lead for lead in leads if lead != x or may_follow(judged, key))
        return any(follows(judged, key, [lead], dropna=dropna) for lead in able)

    varied = {key for key in differing if not is_explained(key, _leads(key, leading), dropna=key not in unset)}
    also = unset.difference(differing)
    varied |= {key for key in also if not is_explained(key, (*varied, x), dropna=False)}
    return tuple(key for key in names if key in varied)


def may_follow(arms: Sequence[Arm], key: str) -> bool:
    """Whether a setting may change along a line that does not name it, where it follows from x.

    Numbers may, as a learning rate that is scaled with the batch, and how work is spread over workers; not other words
    or what a table says was trained.
    """
    is_spread = key in _SPREAD or key.startswith(("strategy.", "launcher."))
    return is_spread or (not _is_task(key, arms) and are_numbers(values_of(arms, key)))


def naming(arms: Sequence[Arm]) -> tuple[str, ...]:
    """Return the settings that names of arms state: those that vary, and the strategy, also where all have the same.

    Arms of one worker alone have none to state.
    """
    return with_strategy(arms, varying(arms))


def with_strategy(arms: Sequence[Arm], keys: Sequence[str]) -> tuple[str, ...]:
    """Return settings in the order of SETTINGS with the strategy among them, unless all arms are one worker alone."""
    if "strategy" in keys or all(arm.is_alone for arm in arms):
        return tuple(keys)
    place = sum(key in SETTINGS[: SETTINGS.index("strategy")] for key in keys)
    return (*keys[:place], "strategy", *keys[place:])


def _leads(key: str, leading: Iterable[str]) -> list[str]:
    """Return what a setting may follow from: only what comes with a strategy from that, a device from its study."""
    if key in _LEADING:
        return []
    if key in APART:
        return [lead for lead in leading if lead in (*TASK, *APART) and lead != key]
    if key == "trainer":  # a backend has one of dlbench's own: the two are one difference
        leading = ["backend", *leading]
    with_strategy = key in _COMES_WITH or key.startswith(("strategy.", "launcher."))
    others = {"study"} | (set() if with_strategy else {"strategy", "algorithm"})
    others |= set() if with_strategy or key.startswith("compression.") else {"compression"}
    return [lead for lead in leading if lead not in others]


def follows(arms: Iterable[Arm], key: str, leads: Sequence[str], *, dropna: bool = True) -> bool:
    """Whether no two arms that are equal in all `leads` differ in `key`; unknown values count with `dropna=False`."""
    value_at: dict[tuple[Any, ...], Any] = {}
    pairs = ((tuple(map(arm.get, leads)), arm.get(key)) for arm in arms)
    return all(value_at.setdefault(lead, value) == value for lead, value in pairs if not (dropna and value is None))


def groups(arms: Iterable[Arm], keys: Iterable[str]) -> Iterator[tuple[dict[str, Any], list[Arm]]]:
    """Yield each combination of values that occurs with its arms, numbers by size and words by letter."""
    names = list(keys)
    members = by_key((tuple(map(arm.get, names)), arm) for arm in arms)
    for values in sorted(members, key=lambda values: tuple(map(place_of, values))):
        yield dict(zip(names, values, strict=True)), members[values]


def place_of(value: Any) -> tuple[int, float, str]:
    """Return what values of a setting are sorted by: unknown ones, numbers by size, words by letter."""
    if _is_unknown(value):
        return 0, 0.0, ""
    if isinstance(value, str):
        return 2, 0.0, value
    return 1, float(value), ""


def _is_unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def setting_text(value: Any) -> str:
    """Return the value of a setting as it is written in a scenario; empty where it is unknown."""
    if _is_unknown(value):
        return ""
    if isinstance(value, bool):
        return cell(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def described(values: Mapping[str, Any]) -> str:
    """Return values of settings as people say them, such as `mpi, 2 workers, batch 32`; unknown ones are left out."""
    return ", ".join(_described(key, value) for key, value in values.items() if not _is_unknown(value))


def setting_name(key: str) -> str:
    """Return what a person calls a setting or option, with its unit: `learning rate`, `bandwidth (bytes/s)`."""
    name = key.rpartition(".")[2].removesuffix("_base")
    end, unit = next(((end, unit) for end, unit in _UNITS.items() if name.endswith(end)), ("", ""))
    return name.removesuffix(end).replace("_", " ") + (f" ({unit})" if unit else "")


def condition_text(values: Mapping[str, Any], arms: Sequence[Arm]) -> str:
    """Return conditions as a person says them, such as `slow network, one straggler`; of the arms that are compared."""
    return ", ".join(_condition(key, value, arms) for key, value in values.items() if setting_text(value))


def _condition(key: str, value: Any, arms: Sequence[Arm]) -> str:
    name = key.rpartition(".")[2]
    if name == "slow_workers":
        return {0: "no straggler", 1: "one straggler"}.get(int(value), f"{value} stragglers")
    if name == "bandwidth_bytes_per_s" and len(rates := values_of(ways(arms) or arms, key)) == 2:
        return "slow network" if value == rates[0] else "fast network"
    text = described({key: value})
    if "=" not in text:
        return text
    label, _, unit = setting_name(key).partition(" (")
    return f"{label} {chosen(value) if isinstance(value, float) else setting_text(value)} {unit.rstrip(')')}".rstrip()


def _described(key: str, value: Any) -> str:
    key = written_name(key)
    if key in _BARE:
        return str(value)
    if key == "workers":
        return f"{value} worker{'' if value == 1 else 's'}"
    if key == "batch_size":
        return f"batch {value}"
    return f"{key}={setting_text(value)}"
