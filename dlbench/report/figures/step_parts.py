"""Where the time of a step goes: data, computing, communication, the update, bookkeeping, and the rest."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import counted, listed
from dlbench.analysis.groups import ALONE, by_emulation, described, groups, is_alone, is_base_line
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._places import placed
from dlbench.report.figures._rows import is_completed, numbers
from dlbench.report.figures._shown import in_chart
from dlbench.report.lines import base_keys
from dlbench.report.lines import marks as marks_at

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 50
MS_PER_S = 1000.0
# Above the longest step.
ROOM = 1.05
# Longer names under bars lose the names of settings, which the axis then has.
LONGEST_NAME = 24
# The same for all panels.
Y = Axis("time per step (ms)", low=0.0)
# Columns that `_per_step` makes, from the bottom of a bar to its top.
PARTS = {
    "data": "waiting for data",
    "compute": "forward and backward",
    "one_call": "whole step in one compiled call",
    "peers": "waiting for slower workers",
    "all_reduce": "all-reduce",
    "communication": "exposed communication",
    "update": "update",
    "bookkeeping": "bookkeeping between steps",
    "closing": "waiting at closing barriers",
    "rest": "other",
}
WHOLE = "whole step of each run"


def chart(data: "ReportData") -> Chart:
    """Return the parts of a step in the timed window, one bar for each arm; where batches vary, a panel for each way.

    Raises:
        MissingRowsError: No completed run has a timed window with the time its workers computed.
    """
    runs = _per_step(data.runs)
    observed = runs[runs["step"].notna()]
    if observed.empty:
        raise MissingRowsError(
            "needs completed runs with a timed window and compute_time_s; `extend_window: true` makes one"
        )
    high = ROOM * float(observed["step"].max())
    panels = tuple(replace(panel, y=replace(Y, high=high)) for panel in _panels(runs) if panel.series)
    return Chart(
        title="Where the time of a step goes",
        panels=panels,
        columns=min(3, len(panels)),
        lead="A bar is the run with the median step: its parts sum to that step.",
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
        bookkeeping=numbers(runs, "bookkeeping_time_s") * scale,
        closing=numbers(runs, "closing_wait_s") * scale,
    )
    known = found[[name for name in PARTS if name != "rest"]].sum(axis=1)
    return found.assign(rest=(step - known).clip(lower=0.0))


def _share_waited(runs: "pd.DataFrame") -> "pd.Series[float]":
    """Return how much of the communication was waiting for slower workers, by the marked steps; NaN without any."""
    waiting, moving = numbers(runs, "peer_wait_s"), numbers(runs, "wire_time_s")
    both = waiting + moving
    return waiting / both.where(both > 0)


def _panels(runs: "pd.DataFrame") -> Iterator[Panel]:
    """Yield a panel with a bar for each batch size of a way where these vary; else one with a bar for each arm."""
    shown: set[int] = set()
    for one in placed(runs):
        rows = one.part.runs
        if one.x == "batch_size":
            shown |= set(rows.index)
            for name, way in _arms(rows, one.part.keys):
                sizes = [(f"{size['batch_size']:g}", alike) for size, alike in groups(way, ["batch_size"])]
                yield _panel(": ".join(filter(None, (one.part.title, name))), Axis(one.axis.label), sizes)
        elif not set(rows[~is_base_line(rows)].index) <= shown:
            keys = (*one.part.keys, *(["workers"] if rows["workers"].nunique() > 1 else []))
            bars, label = _arms(rows, keys), ""
            if (
                max(len(name) for name, _ in bars) > LONGEST_NAME
            ):  # without the names of settings: `mpi, epochs, linear`
                label = ", ".join(keys)
                bars = [(", ".join(p.rpartition("=")[2] for p in name.split(", ")), alike) for name, alike in bars]
            yield _panel(one.part.title, Axis(label), bars)


def _arms(rows: "pd.DataFrame", keys: Sequence[str]) -> "list[tuple[str, pd.DataFrame]]":
    """Return base lines, then the other arms, each with its name and runs."""
    alone = is_base_line(rows) | is_alone(rows)
    alone = is_base_line(rows) if alone.all() else alone
    base, own = rows[alone], rows[~alone]
    found = [
        (", ".join(filter(None, (ALONE, described(values)))), alike)
        for values, alike in (groups(base, base_keys(keys, base)) if len(base) else ())
    ]
    arms = groups(own, keys or ["strategy"]) if len(own) else ()
    return [*found, *((described(values) or "measured", alike) for values, alike in arms)]


def _panel(title: str, axis: Axis, arms: "Sequence[tuple[str, pd.DataFrame]]") -> Panel:
    """Return a panel of bars; the parts of an arm are those of its run with the median step, so that they sum to it."""
    bars: list[tuple[str, str, pd.DataFrame]] = []
    for name, rows in arms:
        kinds = list(by_emulation(rows))  # one bar, or one for real and one for emulated runs
        bars += [(f"{name}, emulated" if why and len(kinds) > 1 else name, why, alike) for why, alike in kinds]
    found = []
    for emulated in (False, True):
        slots = [(float(slot), rows) for slot, (_, why, rows) in enumerate(bars) if bool(why) == emulated]
        reason = ";".join(dict.fromkeys(word for _, why, _ in bars for word in why.split(";") if word)) * emulated
        typical = [(slot, _typical(rows), int(rows["step"].notna().sum())) for slot, rows in slots]
        for hue, (part, label) in enumerate(PARTS.items()):
            marks = tuple(line_mark(slot, row[part], n) for slot, row, n in typical if not math.isnan(row[part]))
            if marks:
                found.append(Series(label, marks, Role.MEASURED, reason, hue, palette="parts"))
        wholes = [
            replace(mark, x=slot) for slot, rows in slots for mark in marks_at(rows.assign(slot=0.0), "slot", "step")
        ]
        if shown := tuple(mark for mark in wholes if mark.points or mark.num_failed):
            found.append(Series(WHOLE, shown, Role.TOTAL, reason))
    return Panel(title, Axis(axis.label, categories=tuple(name for name, _, _ in bars)), Y, tuple(found), form="bars")


def _typical(rows: "pd.DataFrame") -> dict[str, float]:
    """Return the parts of the run with the median step, of an even number of runs the means of the middle two."""
    known = rows[rows["step"].notna()].sort_values("step")
    middle = known.iloc[(len(known) - 1) // 2 : len(known) // 2 + 1] if len(known) else known
    return {name: float(middle[name].astype("float64").mean()) for name in PARTS}


def _notes(num_completed: int, observed: "pd.DataFrame") -> Iterator[str]:
    """Yield what a reader must know to read the bars."""
    yield ("Times of the timed window / its steps, mean over workers. Other: what no part explains, such as the loop.")
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
