"""Runs turned into lines: runs that do different work apart, emulated and real ones apart, failed ones counted."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from dlbench.analysis.arms import equal_columns
from dlbench.analysis.groups import (
    ALONE,
    TASK,
    by_emulation,
    described,
    groups,
    is_alone,
    is_base_line,
    is_shared,
    varying,
    with_strategy,
)
from dlbench.analysis.statistics.intervals import censored_median, median_interval
from dlbench.records.outcome import Status
from dlbench.report.chart import Mark, Panel, Role, Series

if TYPE_CHECKING:
    import pandas as pd

# More lines than this in one panel are hard to distinguish; further ones get other panels.
MOST_SERIES = 7
# What `series` asks of runs beside what is shown; it cuts them into many pieces, each as wide as its columns.
NEEDED = ("run_id", "baseline", "status", "emulated", "strategy", "workers")


@dataclass(frozen=True)
class Part:
    """Runs that may share a panel.

    Attributes:
        title: What they have in common, and which share of the series they are where these are too many.
        runs: The runs.
        keys: What distinguishes series.
        common: What they have in common alone.
    """

    title: str
    runs: "pd.DataFrame"
    keys: tuple[str, ...]
    common: str = ""


def parts(runs: "pd.DataFrame", *, x: str, always: Iterable[str] = TASK) -> list[Part]:
    """Split runs so that each part has one task and few enough series.

    Args:
        runs: Runs, failed ones too; base lines stay with the arms they belong to.
        x: The column of the horizontal axis.
        always: Settings whose values never share a panel.
    """
    import pandas as pd

    keys = ways_vary(runs, x=x)
    apart = [key for key in keys if key in set(always)]
    left = [key for key in keys if key not in apart]
    own = ~is_base_line(runs)
    # Numbers for values, in plain lists: of many ways to cut a table only the number of groups is asked.
    codes = {key: pd.factorize(runs.loc[own, key])[0].tolist() for key in keys}
    while left and _most_series(codes, apart, left) > MOST_SERIES:
        fewest = {name: _most_series(codes, [*apart, name], _without(left, name)) for name in left}
        key = min(left, key=lambda name: (fewest[name], runs[name].nunique()))
        if fewest[key] == 1:  # a panel for each series compares nothing
            break
        apart, left = [*apart, key], _without(left, key)
    found = []
    # Rows of a table with hundreds of columns are taken once, at the end.
    brief = runs[list(dict.fromkeys((*apart, *left)))]
    for values, rows in groups(brief[own], apart):
        common = {key: value for key, value in values.items() if is_shared(key)}
        base, shares = having(brief[~own], common).index, _shares(rows, left)
        what = described(values)
        for place, share in enumerate(shares, 1):
            which = f"{place} of {len(shares)}" if len(shares) > 1 else ""
            title = ", ".join(filter(None, (what, which)))
            found.append(Part(title, runs.loc[[*share, *base]], tuple(left), what))
    return found or [Part("", runs, tuple(left))]


def _shares(runs: "pd.DataFrame", keys: Sequence[str]) -> "list[list[Hashable]]":
    """Return the indices of the runs of equal numbers of series, at most MOST_SERIES in each share."""
    every = [list(rows.index) for _, rows in groups(runs, keys)]
    num_shares = math.ceil(len(every) / MOST_SERIES)
    if num_shares <= 1:
        return [list(runs.index)]
    size = math.ceil(len(every) / num_shares)
    return [[index for rows in every[start : start + size] for index in rows] for start in range(0, len(every), size)]


def ways_vary(runs: "pd.DataFrame", x: str = "") -> tuple[str, ...]:
    """Return the strategy and the settings in which ways to train differ; one worker alone is the base line.

    So a way has one name, and one colour, in charts with base lines and in those without. A single way is named by what
    makes it differ from the base line.
    """
    ways = ~(is_base_line(runs) | is_alone(runs))
    return with_strategy(runs[ways], (varying(runs[ways], x=x) if ways.any() else ()) or varying(runs, x=x))


def brief_keys(part: Part, x: str) -> Part:
    """Return the part without the keys that follow from the others and `x` together, so that labels are short.

    What synchronises and where stays: by that a line is known.
    """
    keys, ways = list(part.keys), ~(is_base_line(part.runs) | is_alone(part.runs))
    runs = part.runs[ways] if ways.any() else part.runs[~is_base_line(part.runs)]
    count = runs.groupby([*keys, x], dropna=False).ngroups
    for key in reversed([key for key in keys if key not in ("strategy", "placement", "algorithm")]):
        others = _without(keys, key)
        if runs.groupby([*others, x], dropna=False).ngroups == count:
            keys = others
    return replace(part, keys=tuple(keys))


def having(runs: "pd.DataFrame", values: Mapping[str, Any]) -> "pd.DataFrame":
    """Return the runs that have these values; a value that is unknown is equal to none but unknown ones."""
    import pandas as pd

    chosen = pd.Series(True, index=runs.index)
    for key, value in values.items():
        chosen &= runs[key].isna() if pd.isna(value) else (runs[key] == value).fillna(False).astype(bool)
    return runs[chosen]


def _without(keys: Sequence[str], key: str) -> list[str]:
    return [name for name in keys if name != key]


def _most_series(codes: Mapping[str, list[int]], apart: Sequence[str], keys: Sequence[str]) -> int:
    """Return how many combinations of values of `keys` there are at most with one of `apart`."""
    combinations = set(zip(*(codes[name] for name in (*apart, *keys)), strict=True))
    return max(Counter(values[: len(apart)] for values in combinations).values(), default=0)


def series(part: Part, x: str, column: str, ended: str = "") -> tuple[Series, ...]:
    """Return one series for each combination of the part's keys, emulated and real runs apart, base lines last.

    One worker alone is the base line of the others, whoever asked for it.

    Args:
        part: The runs.
        x: The column of the horizontal axis.
        column: The column whose values are shown.
        ended: The column with what runs that did not reach what is shown had come to when they ended, unknown in those
            that did: values are at least that (censored), and medians allow for them. Empty where all runs reach it.
    """
    needed = dict.fromkeys((*part.keys, x, column, *NEEDED, *filter(None, [ended, "flags" * ("flags" in part.runs)])))
    runs = part.runs[list(needed)]
    alone = is_base_line(part.runs) | is_alone(part.runs)
    own = ~alone if not alone.all() else ~is_base_line(part.runs)
    found = []
    for role, chosen in ((Role.MEASURED, runs[own]), (Role.BASE_LINE, runs[~own])):
        keys = part.keys if role is Role.MEASURED else base_keys(part.keys, chosen)
        for values, rows in groups(chosen, keys):
            for emulated, alike in by_emulation(rows):
                found.append(Series(_label(role, values, alike), marks(alike, x, column, ended), role, emulated))
    return tuple(one for one in found if any(mark.points or mark.ended or mark.num_failed for mark in one.marks))


def _label(role: Role, values: dict[str, Any], rows: "pd.DataFrame") -> str:
    text = described(values)
    if role is Role.BASE_LINE:
        return ", ".join(filter(None, (ALONE, text)))
    return text or (ALONE if is_alone(rows).all() else "measured")


def base_keys(keys: Sequence[str], runs: "pd.DataFrame") -> tuple[str, ...]:
    """Return the keys that distinguish base lines: of those that one worker alone has too, the ones that decide a step.

    Where base lines differ in others, such as their learning rate, these are among them.
    """
    shared = tuple(key for key in keys if is_shared(key))
    of_a_step = tuple(key for key in shared if key in set(equal_columns(shared)))
    return of_a_step if runs[list(shared)].drop_duplicates().shape[0] <= 1 else shared


def marks(rows: "pd.DataFrame", x: str, column: str, ended: str = "") -> tuple[Mark, ...]:
    """Return what is known at each x: every completed run's value, their median and interval, flags, failed runs.

    The columns are those of `series`.
    """
    places, values, ends = (
        rows[name].to_numpy("float64", na_value=math.nan).tolist() if name else [math.nan] * len(rows)
        for name in (x, column, ended)
    )
    is_completed = (rows["status"] == Status.COMPLETED).to_numpy(bool).tolist()
    flags = rows["flags"].tolist() if "flags" in rows else [""] * len(rows)
    # Plain lists: a study of a thousand runs has thousands of places, and each group of a table takes a millisecond.
    found: dict[float, list[_Value]] = {}
    for place, *value in zip(places, rows["run_id"], values, ends, is_completed, flags, strict=True):
        if not math.isnan(place):
            found.setdefault(place, []).append(_Value(*value))
    return tuple(_mark(place, found[place], is_censored=bool(ended)) for place in sorted(found))


class _Value(NamedTuple):
    """What one run has at its place; values are NaN where they are unknown."""

    run: str
    value: float
    end: float
    is_completed: bool
    flags: str


def _mark(place: float, found: Sequence[_Value], *, is_censored: bool) -> Mark:
    completed = [one for one in found if one.is_completed]
    reached = [one for one in completed if not math.isnan(one.value)]
    late = [one for one in completed if not math.isnan(one.end)]
    points, ends = tuple(one.value for one in reached), tuple(one.end for one in late)
    return Mark(
        place,
        points,
        censored_median(points, ends) if is_censored else median_interval(points) if points else None,
        ends,
        num_failed=len(found) - len(completed),
        flags=";".join(sorted({flag for one in reached for flag in one.flags.split(";") if flag})),
        runs=tuple(one.run for one in reached),
        ended_runs=tuple(one.run for one in late),
    )


def has_several(panel: Panel) -> bool:
    """Whether any series of a panel has values at two places or more: else nothing varies along x."""
    return any(sum(bool(mark.points) for mark in one.marks) > 1 for one in panel.series)
