"""What stands on x: the batch size wherever it varies, with one line for each way to train; else the workers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlbench.analysis.arms import emulation, equal_columns
from dlbench.analysis.groups import TASK, described, is_base_line
from dlbench.report.chart import Axis, Panel, Series
from dlbench.report.figures._rows import OF_WHOM, batch_axis, by_scope
from dlbench.report.lines import Part, brief_keys, parts, ways_vary

if TYPE_CHECKING:
    import pandas as pd

WORKERS = Axis("workers", "log2")
# Fewer numbers of workers than this make no curve: then the batch size alone stands on x, where it varies.
CURVE = 3
# Beyond this ratio of its medians a panel of costs or rates is logarithmic.
FAR_APART = 4.0
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


def placed(runs: "pd.DataFrame", *, scaling: bool = False) -> Iterator[Placed]:
    """Yield the parts that stand against batch size, those of one worker and of all apart, then those against workers.

    Against workers are the runs without a second batch size, and all of them where the workers make a curve.

    Args:
        runs: Runs, failed ones and base lines too.
        scaling: Whether only what one base line fits shares a panel against workers, weak and strong scaling apart.
    """
    import pandas as pd

    own, left = runs[~is_base_line(runs)], []
    has_both = own["batch_scope"].nunique() > 1
    for scope, rows in by_scope(runs):
        for part in parts(rows, x="batch_size"):
            if part.runs["batch_size"][~is_base_line(part.runs)].nunique() > 1:
                whose = f"batch{OF_WHOM.get(scope, '')}" if has_both else ""
                named = replace(part, title=", ".join(filter(None, (part.title, whose))))
                yield Placed(brief_keys(named, "batch_size"), "batch_size", batch_axis(rows))
            else:
                left.append(part.runs)
    if own["workers"].nunique() >= CURVE:
        left = [runs]
    if left:
        chosen = pd.concat(left).drop_duplicates(["study", "run_id"])
        task = described({key: chosen[key].iloc[0] for key in TASK if chosen[key].nunique() == 1 < runs[key].nunique()})
        whole = (brief_keys(part, "workers") for part in parts(chosen, x="workers"))
        for part in _scaled(chosen) if scaling else whole:
            title = ", ".join(filter(None, (part.title, task)))
            yield Placed(replace(part, title=title), "workers", WORKERS)


def _scaled(runs: "pd.DataFrame") -> Iterator[Part]:
    """Yield the runs that one base line fits: of one way of scaling, one task, and equal in what a base line shares."""
    # Labels are those that the runs have together: a way keeps its name and colour in all charts.
    together = brief_keys(Part("", runs, ways_vary(runs, x="workers")), "workers").keys
    equal = equal_settings(runs)
    for scope, rows in by_scope(runs):
        for part in parts(rows, x="workers", always=equal):
            keys = tuple(key for key in together if key not in (*TASK, *equal))
            yield Part(", ".join(filter(None, (SCALING.get(scope, ""), part.title))), part.runs, keys)


def against(what: str, panels: Iterable[Panel]) -> str:
    """Return a chart's title: of what, and against what its panels show it."""
    labels = {panel.x.label for panel in panels}
    found = [*(["batch size"] if labels - {WORKERS.label} else []), *(["workers"] if WORKERS.label in labels else [])]
    return f"{what} by {' and by '.join(found)}"


def spread(axis: Axis, shown: Sequence[Series]) -> Axis:
    """Return an axis of times or rates from zero, or a logarithmic one where their medians lie far apart."""
    medians = [mark.interval.value for one in shown for mark in one.marks if mark.interval]
    is_far = bool(medians) and max(medians) > FAR_APART * min(medians) > 0
    return replace(axis, scale="log10", low=None) if is_far else axis


def equal_settings(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Return the columns in which an arm and its base line are equal."""
    return equal_columns(runs.columns)


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
