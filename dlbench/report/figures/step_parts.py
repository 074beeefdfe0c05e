"""Where the time of a step goes: data, forward and backward, communication, the update, and the rest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlbench.analysis.formatting import counted, listed
from dlbench.analysis.groups import ALONE, described, groups, is_base_line, is_shared
from dlbench.analysis.statistics.intervals import median_interval
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Series, hued
from dlbench.report.figures._rows import is_completed, numbers
from dlbench.report.figures._scaling import is_emulated, reasons
from dlbench.report.figures._shown import in_chart
from dlbench.report.lines import Part, parts

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 70
MS_PER_S = 1000.0
# More letters than that are cut away under a bar.
LONGEST_NAME = 24
Y = Axis("time per step (ms)", low=0.0)
# Columns that `_per_step` makes, from the bottom of a bar to its top; the first also shows failed runs.
PARTS = {
    "data": "waiting for data",
    "compute": "forward and backward",
    "one_call": "whole step in one compiled call",
    "peers": "waiting for slower workers",
    "all_reduce": "all-reduce",
    "communication": "exposed communication",
    "update": "update",
    "rest": "other",
}


@dataclass(frozen=True, eq=False)
class _StepBreakdown:
    """Runs of equal settings, which are one bar.

    Attributes:
        values: The settings in which it differs from the other arms of its panel.
        runs: Its runs.
        lead: What it is called before that.
    """

    values: Mapping[str, Any]
    runs: "pd.DataFrame"
    lead: str = ""

    @property
    def name(self) -> str:
        """The name under the bar."""
        return ", ".join(filter(None, (self.lead, described(self.values)))) or "measured"

    @property
    def short_name(self) -> str:
        """The same without the names of settings: `mpi, epochs, linear`; a dash for what is unknown."""
        values = (described({key: value}).removeprefix(f"{key}=") or "-" for key, value in self.values.items())
        return ", ".join(filter(None, (self.lead, *values)))


def chart(data: "ReportData") -> Chart:
    """Return the parts of a step in the timed window, one bar for each arm, emulated and real ones apart.

    Raises:
        MissingRowsError: No completed run has a timed window with the time its workers computed.
    """
    runs = _per_step(data.runs)
    observed = runs[runs["step"].notna()]
    if observed.empty:
        raise MissingRowsError(
            "needs completed runs with a timed window and compute_time_s; `extend_window: true` makes one"
        )
    panels = [panel for part in parts(runs, x="strategy") for panel in _panels(part)]
    return Chart(
        title="Where the time of a step goes",
        panels=hued(tuple(panels)),
        columns=2 if len(panels) > 1 else 1,
        notes=tuple(_notes(len(data.completed), observed)),
        runs=in_chart(runs, ["step"]),
    )


def _per_step(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs with `step` and the columns of PARTS, in ms of one step; NaN where a part is unknown.

    `rest` is what the known parts leave of the window. They cannot exceed it, since it lasts as long as the slowest
    worker saw and each part is a mean over workers: what lies below zero is rounding.
    """
    observed = is_completed(runs) & runs[["timed_window_s", "compute_time_s"]].notna().all(axis=1)
    steps = numbers(runs, "timed_steps").where(observed)
    scale = MS_PER_S / steps.where(steps > 0)
    step, compute = numbers(runs, "timed_window_s") * scale, numbers(runs, "compute_time_s") * scale
    exposed, waited = numbers(runs, "communication_time_s") * scale, _share_waited(runs)
    found = runs.assign(
        step=step,
        data=numbers(runs, "data_wait_s") * scale,
        compute=compute.where(exposed.notna()),
        one_call=compute.where(exposed.isna()),
        peers=exposed * waited,
        all_reduce=exposed * (1 - waited),
        communication=exposed.where(waited.isna()),
        update=numbers(runs, "update_time_s") * scale,
    )
    known = found[[name for name in PARTS if name != "rest"]].sum(axis=1)
    return found.assign(rest=(step - known).clip(lower=0.0))


def _share_waited(runs: "pd.DataFrame") -> "pd.Series[float]":
    """Return how much of the communication was waiting for slower workers, by the marked steps; NaN without any."""
    waiting, moving = numbers(runs, "peer_wait_s"), numbers(runs, "wire_time_s")
    both = waiting + moving
    return waiting / both.where(both > 0)


def _panels(part: Part) -> Iterator[Panel]:
    emulated = is_emulated(part.runs)
    for word, chosen in (("", ~emulated), ("emulated", emulated)):
        rows = part.runs[chosen]
        bars = list(_bars(part, rows))
        series = _series(bars, reasons(rows))
        if series:
            yield Panel(": ".join(filter(None, (part.title, word))), _axis(bars), Y, series, form="bars")


def _axis(bars: list[_StepBreakdown]) -> Axis:
    """Return the arms as categories; where their names are long, settings are named once, in the axis's label."""
    names = tuple(bar.name for bar in bars)
    if max(map(len, names)) <= LONGEST_NAME:
        return Axis("", categories=names)
    label = max((tuple(bar.values) for bar in bars), key=len)
    return Axis(", ".join(label), categories=tuple(bar.short_name for bar in bars))


def _bars(part: Part, rows: "pd.DataFrame") -> Iterator[_StepBreakdown]:
    """Yield base lines, then the other arms."""
    added = is_base_line(rows)
    if added.any():
        for values, alike in groups(rows[added], [key for key in part.keys if is_shared(key)]):
            yield _StepBreakdown(values, alike, ALONE)
    own = rows[~added]
    lead = ("strategy",) if own["strategy"].nunique() > 1 or not part.keys else ()
    if len(own):
        for values, alike in groups(own, (*lead, *part.keys)):
            yield _StepBreakdown(values, alike)


def _series(bars: list[_StepBreakdown], emulated: str) -> tuple[Series, ...]:
    """Return one series for each part that any arm has; an arm in which it is unknown has no mark there."""
    found = []
    for number, (name, label) in enumerate(PARTS.items()):
        marks = [_mark(place, bar.runs, name, with_failed=number == 0) for place, bar in enumerate(bars)]
        known = tuple(mark for mark in marks if mark.points or mark.num_failed)
        if known:
            found.append(Series(label, known, emulated=emulated))
    return tuple(found)


def _mark(place: int, runs: "pd.DataFrame", name: str, *, with_failed: bool) -> Mark:
    points = tuple(map(float, runs[name].dropna()))
    failed = int((~is_completed(runs)).sum()) if with_failed else 0
    return Mark(float(place), points, median_interval(points) if points else None, num_failed=failed)


def _notes(num_completed: int, observed: "pd.DataFrame") -> Iterator[str]:
    """Yield what a reader must know to read the bars."""
    yield (
        "Times of the timed window / its steps, mean over workers; each part is its own median over repeats, so that a "
        "bar need not be as high as the median step. Other: what no part explains, such as the loop itself."
    )
    hidden = observed[observed["one_call"].notna()]
    if len(hidden):
        names = listed(sorted({str(name) for name in hidden["strategy"].dropna()})) or "unnamed"
        yield (
            f"In {counted(len(hidden), 'run')} ({names}) the step is one compiled call: forward, backward, update and, "
            "with several workers, whatever communication is exposed are in it and cannot be separated."
        )
    if observed["peers"].notna().any():
        yield (
            "Exposed communication is split into waiting and all-reduce as in the marked steps, in which a barrier "
            "stood before the all-reduce."
        )
    if num_completed > len(observed):
        missing = counted(num_completed - len(observed), "run")
        yield f"Left out: {missing} that completed without a timed window or its parts."
