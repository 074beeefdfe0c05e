"""Scale-up against scale-out, and what lies between, at equal workers, run by run, and their ratio."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import counted, listed, number
from dlbench.analysis.groups import SETTINGS, TASK, is_base_line, varying, with_placement
from dlbench.plugins import Options
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._places import WORKERS, is_emulated, with_categories
from dlbench.report.figures._rows import identities, is_completed, numbers
from dlbench.report.figures._shown import RATE, RATE_AXIS, flagged
from dlbench.report.lines import Part, parts, series
from dlbench.scenario.settings import OPTION_PREFIXES, Affects, Mode, settings_of

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 45
RATIO = "scale-out / scale-up"
# Where runs with several workers on each of several hosts are compared as well.
RATIOS = "ratio to scale-up"
# The line of no difference extends by this share of a place, so that it is a line at a single number of workers too.
BEYOND = 0.4
SIDES = ("scale-up", "what is on several hosts")
# The column that says whether a run is real; messages name it.
EMULATED = "being emulated"


@dataclass(frozen=True)
class ComparedMetric:
    """What is compared: its column, axis and name, and what a ratio above 1 means."""

    column: str
    axis: Axis
    name: str
    above: str


COMPARED = (
    ComparedMetric("train_time_s", Axis("training time (s)", low=0.0), "training time", "scale-up is faster"),
    ComparedMetric(RATE, RATE_AXIS, "steady throughput", "scale-up is slower"),
)
# What starts the processes: it may differ between one host and several, but need not.
LAUNCHING = ("launcher", "submitter")
# Settings beside those of `dlbench.analysis.groups` that a run could gain or lose by.
_OBSERVED = tuple(name for name in settings_of(Affects.OBSERVATION) if name not in LAUNCHING)
ALSO_EQUAL = ("seed", "repeat", *_OBSERVED, "target_metric", "target_value", "target_stop")
LAUNCHER = "launcher."
# What the two runs of a pair may differ in.
PAIRED = ("placement", "study", "device_name")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Runs on one host and on many that are equal in all else.

    Attributes:
        both: The runs of both sides.
        ratios: A row for each pair: the settings of the run on many hosts, and `ratio(COLUMN)` where both have a value.
        num_single: Runs of either side without a partner.
    """

    both: "pd.DataFrame"
    ratios: "pd.DataFrame"
    num_single: int


def ratio(column: str) -> str:
    """Return the column that holds the ratio of two runs' values."""
    return f"{column}.ratio"


def chart(data: "ReportData") -> Chart:
    """Return times and rates of both modes and what lies between (left), and the ratio of each pair of repeats (right).

    The interval of a ratio is that of the median over pairs (`dlbench.analysis.statistics.intervals.median_interval`).

    Raises:
        MissingRowsError: There is no pair of completed runs, one on one host and one on several, equal in all else.
    """
    runs = data.runs[~is_base_line(data.runs)]
    has_mode, on_several = runs["mode"].isin(list(Mode)).astype(bool), (runs["hosts"] > 1).fillna(False).astype(bool)
    runs = flagged(with_placement(runs[has_mode | on_several]))
    pairs = _pairs(runs.reset_index(drop=True))
    if pairs is None or not any(pairs.ratios[ratio(one.column)].notna().any() for one in COMPARED):
        raise MissingRowsError(_lacking(runs))
    return Chart(
        title="Scale-up against scale-out at equal workers",
        panels=tuple(panel for part in _parts(pairs.both) for panel in _panels(part, pairs.ratios)),
        columns=2,
        notes=tuple(_notes(pairs)),
        runs=identities(pairs.both),
    )


def _pairs(runs: "pd.DataFrame") -> Pairs | None:
    """Pair each run on several hosts with one of scale-up; None where no two are equal in all else."""
    import pandas as pd

    found = [_paired(runs, other) for other in _others(runs)]
    pairs = pd.concat(found, ignore_index=True) if found else pd.DataFrame()
    if pairs.empty:
        return None
    paired = pd.unique(pd.concat([pairs["up"], pairs["out"]]))
    return Pairs(runs.loc[paired], _ratios(runs, pairs), len(runs) - len(paired))


def _others(runs: "pd.DataFrame") -> list[str]:
    """Return how runs that are not all on one host sit on theirs: scale-out first, then by workers on each."""
    there = set(runs["placement"].dropna().astype(str)) - {Mode.SCALE_UP.value}
    return sorted(there, key=lambda name: (name != Mode.SCALE_OUT.value, len(name), name))


def _paired(runs: "pd.DataFrame", other: str) -> "pd.DataFrame":
    """Pair runs of one study and one launcher first, then of one study, then of any two studies; none twice."""
    import pandas as pd

    same, launching = _equal_settings(runs), [*LAUNCHING, *(name for name in runs.columns if name.startswith(LAUNCHER))]
    left = runs[runs["placement"].isin([Mode.SCALE_UP.value, other])]
    left = left.assign(number=left.index, **{EMULATED: is_emulated(left)})
    found = []
    for keys in (["study", *same, *launching], ["study", *same], same):
        found.append(_matched(left, keys, other))
        left = left[~left["number"].isin([*found[-1]["up"], *found[-1]["out"]])]
    return pd.concat(found, ignore_index=True)


def _equal_settings(runs: "pd.DataFrame") -> list[str]:
    """Return the settings and options in which a pair must agree; where all runs of a task do, they need no look.

    Some are unknown of a failed run, such as the number of samples.
    """
    prefixes = tuple(f"{prefix}." for prefix in OPTION_PREFIXES if f"{prefix}." != LAUNCHER)
    options = [name for name in runs.columns if name.startswith(prefixes)]
    settings = [name for name in (*SETTINGS, *ALSO_EQUAL, *options) if name not in (*TASK, "placement")]
    by_task = runs.groupby(list(TASK), dropna=False)[settings].nunique()
    return [*TASK, EMULATED, *(name for name in settings if (by_task[name] > 1).any())]


def _matched(runs: "pd.DataFrame", keys: Sequence[str], other: str) -> "pd.DataFrame":
    """Return the numbers of the runs of each pair, in the columns `up` and `out`."""
    ranked = runs.assign(rank=runs.groupby([*keys, "placement"], dropna=False).cumcount())
    up, out = (
        ranked[ranked["placement"] == placement][["number", *keys, "rank"]].rename(columns={"number": name})
        for placement, name in ((Mode.SCALE_UP.value, "up"), (other, "out"))
    )
    return up.merge(out, on=[*keys, "rank"])[["up", "out"]]


def _ratios(runs: "pd.DataFrame", pairs: "pd.DataFrame") -> "pd.DataFrame":
    """Return a row for each pair: completed where both are, and emulated for the reasons of both."""
    up = runs.loc[pairs["up"]].reset_index(drop=True)
    out = runs.loc[pairs["out"]].reset_index(drop=True)
    status = out["status"].mask(~is_completed(up), up["status"])
    emulated = (up["emulated"].fillna("") + ";" + out["emulated"].fillna("")).str.strip(";")
    found = out.assign(number=pairs["out"], status=status, emulated=emulated)
    for one in COMPARED:
        base = numbers(up, one.column)
        found[ratio(one.column)] = (numbers(out, one.column) / base.where(base > 0)).where(status == Status.COMPLETED)
    return found


def _parts(both: "pd.DataFrame") -> list[Part]:
    """Return what shares a row of panels: runs that differ in mode and workers, at most in their launcher too."""
    keys = varying(both, x="workers")
    always = [key for key in keys if key not in PAIRED and not key.startswith(LAUNCHER)]
    return parts(both, x="workers", always=always)


def _panels(part: Part, ratios: "pd.DataFrame") -> Iterator[Panel]:
    """Yield, for each quantity that pairs have, the panel of all placements and that of their ratios."""
    own = ratios[ratios["number"].isin(part.runs.index)]
    others = _others(own)
    name = RATIO if others == [Mode.SCALE_OUT.value] else RATIOS
    for one in COMPARED:
        column = ratio(one.column)
        if own[column].isna().all():
            continue
        title = ", ".join(filter(None, (part.title, one.name)))
        yield with_categories(Panel(title, WORKERS, one.axis, series(part, "workers", one.column)))
        made = [
            replace(line, label=f"{other} / {Mode.SCALE_UP}")
            for other in others
            for line in series(replace(part, runs=own[own["placement"] == other], keys=()), "workers", column)
        ]
        # Where both modes are as good, a little beyond the outermost places.
        last = len({mark.x for line in made for mark in line.marks}) - 1
        equal = Series("no difference", (line_mark(-BEYOND, 1.0), line_mark(last + BEYOND, 1.0)), Role.IDEAL)
        axis = Axis(f"{one.name}, {name}")
        yield with_categories(Panel(f"{title}: above 1 {one.above}", WORKERS, axis, (*made, equal)))


def _notes(pairs: Pairs) -> Iterator[str]:
    yield "A point on the right is one pair: a run of each side with the same settings, seed and repeat."
    sides = _sides(pairs.both)
    out = listed(_others(pairs.both))
    # What runs on several hosts sent over the interfaces between them, or that it is unknown.
    several = sides[1][(sides[1]["hosts"] > 1).fillna(False).astype(bool) & is_completed(sides[1])]
    sent = numbers(several, "wire_bytes").dropna()
    if len(sent):
        sent_mb = number(sent.median() / 1e6)
        yield f"Runs on several hosts sent {sent_mb} MB at the median over the interfaces between them."
    if unknown := len(several) - len(sent):
        yield f"Network traffic was not measured in {counted(unknown, 'run')} on several hosts."
    studies, devices = (
        [sorted(set(side[column].dropna().astype(str))) for side in sides] for column in ("study", "device_name")
    )
    if studies[0] != studies[1]:
        yield f"Scale-up is of {listed(studies[0])}, {out} of {listed(studies[1])}: they did not take turns."
    if devices[0] != devices[1]:
        yield f"Devices differ: scale-up on {listed(devices[0])}, {out} on {listed(devices[1])}."
    if pairs.num_single:
        yield f"{counted(pairs.num_single, 'run')} without an equal of the other side left out."


def _sides(runs: "pd.DataFrame") -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Return the runs of scale-up and those on several hosts."""
    is_up = (runs["placement"] == Mode.SCALE_UP.value).fillna(False).astype(bool)
    return runs[is_up], runs[~is_up]


def _lacking(runs: "pd.DataFrame") -> str:
    """Return which rows are missing: those of a mode, or of settings that both modes have."""
    needed = "needs completed runs of both, scale-up and several hosts, equal in workers and all else"
    completed = runs[is_completed(runs)]
    sides = _sides(completed.assign(**{EMULATED: is_emulated(completed)}))
    there = [name for name, side in zip(SIDES, sides, strict=True) if len(side)]
    if len(there) < 2:
        return f"{needed}; " + (f"there is {there[0]} only" if there else "no run of either is completed")
    up, out = sides
    apart = [key for key in _equal_settings(runs) if not set(up[key].dropna()) & set(out[key].dropna())]
    known = [key for key in apart if up[key].notna().any() or out[key].notna().any()]
    return f"{needed}; they differ in {listed(known)}" if known else f"{needed}; no two of them are"
