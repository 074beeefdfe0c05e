"""What stands on x: the batch size wherever it varies, with one line for each way to train; workers; other settings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import emulation, equal_columns
from dlbench.analysis.formatting import chosen
from dlbench.analysis.groups import TASK, described, follows, groups, is_base_line, setting_name, setting_text, varying
from dlbench.report.chart import Axis, Panel, Role, Series
from dlbench.report.figures._rows import OF_WHOM, batch_axis, by_scope
from dlbench.report.lines import Part, brief_keys, parts, ways_vary

if TYPE_CHECKING:
    import pandas as pd

WORKERS = Axis("workers", "log2")
# Fewer values than this make no curve: then the batch size alone stands on x, where it varies.
CURVE = 3
# Beyond this ratio of its medians a panel of costs or rates is logarithmic, and beyond this ratio of its values the
# axis of a setting.
FAR_APART, FAR_SETTINGS = 4.0, 20.0
# Of a further axis so many panels are shown.
MOST_FURTHER = 6
# What is no scale of its own: a way to train, or what its batch counts.
_WAYS = (*TASK, "workers", "batch_size", "batch_scope", "strategy", "algorithm", "placement", "study", "device_name")
# What `batch_scope` holds fixed, by the name that papers give the comparison.
SCALING = {"per-worker": "weak scaling", "global": "strong scaling"}
MEANINGS = {
    "per-worker": "Weak scaling: every worker keeps its batch.",
    "global": "Strong scaling: one batch is divided over the workers.",
}


@dataclass(frozen=True, eq=False)
class Placed:
    """Runs that share a panel, and the column on its horizontal axis."""

    part: Part
    x: str
    axis: Axis


def placed(runs: "pd.DataFrame", *, scaling: bool = False, others: bool = False) -> Iterator[Placed]:
    """Yield the parts that stand against batch size, those of one worker and of all apart, then those against workers.

    Against workers are the runs without a second batch size, and all of them where the workers make a curve.

    Args:
        runs: Runs, failed ones and base lines too.
        scaling: Whether only what one base line fits shares a panel against workers, weak and strong scaling apart.
        others: Whether other settings stand on x, too: numbers that make a curve, and whatever varies alone.
    """
    import pandas as pd

    own, left, num_placed = runs[~is_base_line(runs)], [], 0
    has_both = own["batch_scope"].nunique() > 1
    for scope, rows in by_scope(runs):
        for part in parts(rows, x="batch_size"):
            if part.runs["batch_size"][~is_base_line(part.runs)].nunique() > 1:
                whose = f"batch{OF_WHOM.get(scope, '')}" if has_both else ""
                named = replace(part, title=", ".join(filter(None, (part.title, whose))))
                num_placed += 1
                yield Placed(brief_keys(named, "batch_size"), "batch_size", batch_axis(rows))
            else:
                left.append(part.runs)
    varies = bool(num_placed) or own["workers"].nunique() > 1
    further = list(_further(runs, is_alone=not varies)) if others else []
    if own["workers"].nunique() >= CURVE:
        left = [runs]
    if left and (varies or not further):
        chosen = pd.concat(left).drop_duplicates(["study", "run_id"])
        task = described({key: chosen[key].iloc[0] for key in TASK if chosen[key].nunique() == 1 < runs[key].nunique()})
        whole = (brief_keys(part, "workers") for part in parts(chosen, x="workers"))
        for part in _scaled(chosen) if scaling else whole:
            title = ", ".join(filter(None, (part.title, task)))
            yield Placed(replace(part, title=title), "workers", WORKERS)
    yield from further


def _scaled(runs: "pd.DataFrame") -> Iterator[Part]:
    """Yield the runs that one base line fits: of one way of scaling, one task, and equal in what a base line shares."""
    # Labels are those that the runs have together: a way keeps its name and colour in all charts.
    together = brief_keys(Part("", runs, ways_vary(runs, x="workers")), "workers").keys
    equal = equal_columns(runs.columns)
    for scope, rows in by_scope(runs):
        for part in parts(rows, x="workers", always=equal):
            keys = tuple(key for key in together if key not in (*TASK, *equal))
            yield Part(", ".join(filter(None, (SCALING.get(scope, ""), part.title))), part.runs, keys)


def _further(runs: "pd.DataFrame", *, is_alone: bool) -> Iterator[Placed]:
    """Yield the parts that stand against other settings that vary, by themselves and not with another.

    Args:
        runs: All runs.
        is_alone: Whether neither batch size nor workers vary: then two values do, and words are categories.
    """
    own, every = runs[~is_base_line(runs)], varying(runs)
    for key in (key for key in every if key not in _WAYS):
        others = [name for name in every if name != key]
        if others and follows(own, key, others):
            continue
        column, categories = _as_numbers(runs[key]), tuple[str, ...]()
        if column is None:
            names = [value for values, _ in groups(own, [key]) if setting_text(value := values[key])]
            column, categories = (
                runs[key].map(dict(zip(names, range(len(names)), strict=True))),
                tuple(map(setting_text, names)),
            )
        values = sorted(column[own.index].dropna().unique().tolist())
        if len(values) < 2 or not (is_alone or (len(values) >= CURVE and not categories)):
            continue
        is_far = not categories and values[0] > 0 and values[-1] > FAR_SETTINGS * values[0]
        axis = Axis(setting_name(key), "log10" if is_far else "linear", categories)
        found = parts(runs.assign(**{key: column.astype("float64")}), x=key)
        yield from (Placed(brief_keys(part, key), key, axis) for part in found[:MOST_FURTHER])


def _as_numbers(column: "pd.Series[Any]") -> "pd.Series[Any] | None":
    """Return a column of numbers, or of lists of one number such as `[32]`, as floats; None for words."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(column):
        return None
    plain = column if pd.api.types.is_numeric_dtype(column) else column.astype("string").str.strip("[]")
    numbers = pd.to_numeric(plain, errors="coerce").astype("float64")
    return numbers if (numbers.notna() | column.isna()).all() else None


def against(what: str, panels: Iterable[Panel]) -> str:
    """Return a chart's title: of what, and against what its panels show it."""
    names = dict.fromkeys("batch size" if one.x.label.startswith("batch size") else one.x.label for one in panels)
    return f"{what} by {' and by '.join(name.partition(' (')[0] for name in names)}"


def spread(axis: Axis, shown: Sequence[Series]) -> Axis:
    """Return an axis of times or rates from zero, or a logarithmic one where their medians lie far apart."""
    medians = [mark.interval.value for one in shown for mark in one.marks if mark.interval]
    is_far = axis.low == 0.0 and bool(medians) and max(medians) > FAR_APART * min(medians) > 0
    return replace(axis, scale="log10", low=None) if is_far else axis


def with_categories(panel: Panel) -> Panel:
    """Return a panel with its places beside each other, as categories; ideals stay where they are."""
    places = sorted({mark.x for one in panel.series if one.role is not Role.IDEAL for mark in one.marks})
    slots = {place: float(slot) for slot, place in enumerate(places)}
    series = [
        one
        if one.role is Role.IDEAL
        else replace(one, marks=tuple(replace(mark, x=slots[mark.x]) for mark in one.marks))
        for one in panel.series
    ]
    return replace(panel, x=Axis(panel.x.label, categories=tuple(map(chosen, places))), series=tuple(series))


def meanings(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Say what the batch was in the ways of scaling that occur."""
    scopes = set(runs["batch_scope"].dropna())
    return tuple(text for scope, text in MEANINGS.items() if scope in scopes)


def is_emulated(runs: "pd.DataFrame") -> "pd.Series[bool]":
    """Whether each run was not on representative hardware."""
    return runs["emulated"].fillna("") != ""


def reasons(runs: "pd.DataFrame") -> str:
    """Return all reasons why runs are emulated, joined by `;`; empty where none is."""
    return emulation(runs["emulated"].dropna())
