"""Which settings distinguish the runs of a report, and what arms and groups of runs are called."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlbench.analysis import arms
from dlbench.analysis.arms import Row, emulation, option_columns, records
from dlbench.analysis.formatting import chosen
from dlbench.records.columns import DTYPES, RUNS
from dlbench.records.tables import cell
from dlbench.scenario.expand import arms as scenario_arms
from dlbench.scenario.settings import Affects, settings_of

if TYPE_CHECKING:
    import pandas as pd

# Columns of settings that have other names there; a run's seed comes with its repeat, its launcher with its strategy.
_COLUMNS = {"learning_rate": "learning_rate_base", "mode": "placement", "workers_per_host": "placement"}
_COLUMNS |= {"seed": "", "launcher": ""}
_WRITTEN = {"learning_rate_base": "learning_rate", "placement": "mode"}
# What arms of one study can differ in, by column; what follows from others (the global batch) is not among them.
SETTINGS = tuple(
    dict.fromkeys(
        column
        for name in settings_of(Affects.STEP, Affects.ARITHMETIC, Affects.TRAINING, Affects.DISTRIBUTION)
        if (column := _COLUMNS.get(name, name))
    )
)
# Runs that differ in one of these do different work: they never share axes.
TASK = ("model", "dataset", "command")
# What stands for itself: `cnn`, not `model=cnn`.
_BARE = {*TASK, "trainer", "strategy", "algorithm", "mode", "optimizer", "precision", "study", "device_name"}
# What others may follow from; x of a chart is added to them.
_LEADING = (*TASK, "strategy", "algorithm")
# What comes with a strategy or an algorithm, such as the library that moves bytes; all else that differs with these is
# a difference of its own.
_COMES_WITH = ("trainer", "communicator", "collectives", "servers", "server_placement")
# Runs of two studies, or on other devices, are no repeats of each other.
_APART = ("study", "device_name")
ALONE = "one worker alone"
# Units by the end of a column's name.
_UNITS = {"_bytes_per_s": "bytes/s", "_bytes": "bytes", "_ms": "ms", "_s": "s"}

# Returns the settings that names of arms state, of the runs that are compared: `varying` or `naming`.
Names = Callable[["pd.DataFrame"], tuple[str, ...]]


def with_placement(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs with the column `placement`: `scale-up`, `scale-out`, or how many workers a host had."""
    counted = runs["workers_per_host"].astype("string") + " per host"
    return runs.assign(placement=runs["mode"].fillna(counted))


def frame(rows: Iterable[Row]) -> "pd.DataFrame":
    """Return rows that were not read from a file as the table that the answer is made from: typed, lists as text.

    A column in which a worker has reported what is not of its type stays as it is.
    """
    import pandas as pd

    cells = plain(rows)
    names = dict.fromkeys([*(column.name for column in RUNS), *(name for row in cells for name in row)])
    table = pd.DataFrame(cells, columns=list(names))
    typed = {column.name: _typed(table[column.name], DTYPES[column.kind]) for column in RUNS}
    return with_placement(table.assign(**typed))


def plain(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows with lists as text, and with their `placement`."""
    return [
        {name: repr(value) if isinstance(value, list | dict) else value for name, value in row.items()}
        | {"placement": row.get("mode") or (f"{hosted} per host" if (hosted := row.get("workers_per_host")) else None)}
        for row in rows
    ]


def _typed(values: "pd.Series[Any]", dtype: Any) -> "pd.Series[Any]":
    try:
        return values.astype(dtype)
    except (TypeError, ValueError):
        return values


def column_of(setting: str) -> str:
    """Return the column in which arms are told apart by a setting, as a scenario calls it."""
    return _COLUMNS.get(setting, setting) or setting


def written_name(column: str) -> str:
    """Return what a scenario calls the setting of a column."""
    return _WRITTEN.get(column, column)


def is_base_line(runs: "pd.DataFrame") -> "pd.Series[bool]":
    """Whether dlbench added each run as a base line."""
    return runs["baseline"].fillna(False).astype(bool)


def is_shared(key: str) -> bool:
    """Whether a base line shares this setting with its arms: all but the ways of communicating and where they go."""
    return key != "placement" and scenario_arms.is_shared(key)


def by_emulation(runs: "pd.DataFrame") -> "Iterator[tuple[str, pd.DataFrame]]":
    """Yield real runs, then emulated ones, with all their reasons."""
    cells = runs["emulated"].fillna("")
    for kind in (cells == "", cells != ""):
        if kind.any():
            yield emulation(cells[kind]), runs[kind]


def is_alone(runs: "pd.DataFrame") -> "pd.Series[bool]":
    """Whether each run is one worker without any communication library: what efficiency is measured by."""
    import pandas as pd

    found = [arms.is_alone(row) for row in records(runs[["strategy", "workers"]])]
    return pd.Series(found, index=runs.index, dtype=bool)


def varying(runs: "pd.DataFrame", *, x: str = "") -> tuple[str, ...]:
    """Return the settings and options in which runs differ and that do not follow from others, or from `x`.

    Base lines do not count, where there are other runs: they differ in strategy and workers by what they are.
    """
    others = runs[~is_base_line(runs)]
    judged = others if len(others) else runs
    names = [key for key in (*SETTINGS, *option_columns(runs.columns), *_APART) if key in judged and key != x]
    found = [key for key in names if judged[key].nunique() > 1]
    leading = [key for key in (*_LEADING, x) if key in judged and (key in found or key == x)]
    if "study" in found:
        leading.append("study")
    return tuple(key for key in found if not any(follows(judged, key, [lead]) for lead in _leads(key, leading)))


def naming(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Return the settings that names of arms state: those that vary, and the strategy, also where all have the same.

    Runs of one worker alone have none to state.
    """
    return with_strategy(runs, varying(runs))


def with_strategy(runs: "pd.DataFrame", keys: Sequence[str]) -> tuple[str, ...]:
    """Return settings in the order of SETTINGS with the strategy among them, unless all runs are one worker alone."""
    if "strategy" in keys or is_alone(runs).all():
        return tuple(keys)
    place = sum(key in SETTINGS[: SETTINGS.index("strategy")] for key in keys)
    return (*keys[:place], "strategy", *keys[place:])


def _leads(key: str, leading: Iterable[str]) -> list[str]:
    """Return what a setting may follow from: only what comes with a strategy from that, a device from its study."""
    if key in _LEADING:
        return []
    if key in _APART:
        return [lead for lead in leading if lead in (*TASK, *_APART) and lead != key]
    with_strategy = key in _COMES_WITH or key.startswith(("strategy.", "launcher."))
    others = {"study"} | (set() if with_strategy else {"strategy", "algorithm"})
    return [lead for lead in leading if lead not in others]


def follows(runs: "pd.DataFrame", key: str, leads: Sequence[str], *, dropna: bool = True) -> bool:
    """Whether no two runs that are equal in all `leads` differ in `key`; unknown values count with `dropna=False`."""
    return bool(runs.groupby(list(leads), dropna=False)[key].nunique(dropna=dropna).max() <= 1)


def groups(runs: "pd.DataFrame", keys: Iterable[str]) -> "Iterator[tuple[dict[str, Any], pd.DataFrame]]":
    """Yield each combination of values that occurs with its runs, numbers by size and words by letter."""
    names = list(keys)
    if not names:
        yield {}, runs
        return
    found = [
        (dict(zip(names, values, strict=True)), rows) for values, rows in runs.groupby(names, dropna=False, sort=False)
    ]
    yield from sorted(found, key=lambda group: tuple(map(place_of, group[0].values())))


def ranks_of(column: "pd.Series[Any]") -> "pd.Series[int]":
    """Return the place of each value of a column in their order: unknown ones, numbers by size, words by letter."""
    places = {value: place for place, value in enumerate(sorted(column.dropna().unique(), key=place_of))}
    return column.map(places).fillna(-1).astype("int64")


def place_of(value: Any) -> tuple[int, float, str]:
    """Return what values of a setting are sorted by: unknown ones, numbers by size, words by letter."""
    if _is_unknown(value):
        return 0, 0.0, ""
    if isinstance(value, str):
        return 2, 0.0, value
    return 1, float(value), ""


def _is_unknown(value: Any) -> bool:
    unknown = getattr(sys.modules.get("pandas"), "NA", None)  # it exists only once pandas is imported
    return value is None or value is unknown or (isinstance(value, float) and math.isnan(value))


def setting_text(value: Any) -> str:
    """Return the value of a setting as it is written in a scenario; empty where it is unknown."""
    if _is_unknown(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return cell(bool(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def described(values: Mapping[str, Any]) -> str:
    """Return values of settings as people say them, such as `mpi, 2 workers, batch 32`; unknown ones are left out."""
    return ", ".join(_described(key, value) for key, value in values.items() if not _is_unknown(value))


def setting_name(key: str) -> str:
    """Return what a person calls a setting or option, with its unit: `learning rate`, `bandwidth (bytes/s)`."""
    name = key.rpartition(".")[2].removesuffix("_base")
    end, unit = next(((end, unit) for end, unit in _UNITS.items() if name.endswith(end)), ("", ""))
    return name.removesuffix(end).replace("_", " ") + (f" ({unit})" if unit else "")


def condition_text(values: Mapping[str, Any], runs: "pd.DataFrame") -> str:
    """Return conditions as a person says them, such as `slow network, one straggler`; of the runs that are compared."""
    return ", ".join(_condition(key, value, runs) for key, value in values.items() if setting_text(value))


def _condition(key: str, value: Any, runs: "pd.DataFrame") -> str:
    name = key.rpartition(".")[2]
    if name == "slow_workers":
        return {0: "no straggler", 1: "one straggler"}.get(int(value), f"{value} stragglers")
    if name == "bandwidth_bytes_per_s" and key in runs and runs[key].nunique() == 2:
        return "slow network" if value == runs[key].min() else "fast network"
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
    if isinstance(value, float):
        return f"{key}={value:g}"
    return f"{key}={cell(value) if isinstance(value, bool | np.bool_) else value}"
