"""Where the time of a step goes: data, computing, communication, the update, bookkeeping, and the rest."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import fmean

from dlbench.analysis.arms import Arm, Row, can_extend, emulation
from dlbench.analysis.formatting import counted, joined, listed
from dlbench.analysis.groups import (
    by_emulation,
    groups,
    values_of,
    ways,
    without_base_lines,
    written_name,
)
from dlbench.analysis.metrics.lost_time import ONE_CALL, OTHER, window_shares
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.data import ReportData
from dlbench.report.figures._places import placed
from dlbench.report.figures._shown import in_chart
from dlbench.report.lines import Part, marks, named

ORDER = 50
MS_PER_S = 1000.0
# Parts of a step from the bottom of a bar to its top, as `window_shares` names them, and what the figure calls them.
PARTS = {
    "data_wait_s": "waiting for data",
    "compute_time_s": "forward and backward",
    ONE_CALL: "whole step in one compiled call",
    "peer_wait_s": "waiting for slower workers",
    "wire_time_s": "all-reduce",
    "communication_time_s": "exposed communication",
    "encoding_time_s": "encoding",
    "decoding_time_s": "decoding",
    "update_time_s": "update",
    "bookkeeping_time_s": "bookkeeping between steps",
    "closing_wait_s": "waiting at closing barriers",
    OTHER: "other",
}
# Their colours, which those of compression come after: the others are the same in all charts.
HUES = {part: hue for hue, part in enumerate(sorted(PARTS, key=lambda part: PARTS[part] in ("encoding", "decoding")))}
WHOLE = "whole step of each run"
# Columns made here, in ms: a run's step, and its parts by name.
STEP, SPLIT = "step", "split"


def chart(data: ReportData) -> Chart:
    """Return the parts of a step in the timed window, one bar for each arm; where batches vary, a panel for each way.

    Raises:
        MissingRowsError: No completed run has a timed window with the time its workers computed.
    """
    arms = [arm.having(step=_step).having(split=_split) for arm in data.arms]
    observed = [row for arm in arms for row in arm.completed if row[STEP]]
    if not observed:
        can_step_on = any(can_extend(row) for arm in arms for row in arm.rows)
        remedy = "`extend_window: true`" if can_step_on else "longer training"
        raise MissingRowsError(f"needs completed runs with a timed window and compute_time_s; {remedy} makes one")
    # The same for all panels, and a little above the longest step.
    high = 1.05 * max(row[STEP] for row in observed)
    return Chart(
        title="Where the time of a step goes",
        panels=tuple(replace(panel, y=replace(panel.y, high=high)) for panel in _panels(arms) if panel.series),
        lead="A bar is the run with the median step: its parts sum to that step.",
        notes=tuple(_notes(len(data.completed), observed)),
        runs=in_chart(arms, [STEP]),
    )


def _step(row: Row) -> float | None:
    is_timed = row.get("timed_steps") and None not in (row.get("timed_window_s"), row.get("compute_time_s"))
    return row["timed_window_s"] * (MS_PER_S / row["timed_steps"]) if is_timed else None


def _split(row: Row) -> dict[str, float]:
    """Return the known parts of a step, which sum to it."""
    if not row[STEP]:
        return {}
    parts = {part: row[STEP] * share for part, share in window_shares(row).items()}
    if not {"communication_time_s", "wire_time_s"} & parts.keys():
        parts[ONE_CALL] = parts.pop("compute_time_s")
    return parts


def _panels(arms: Sequence[Arm]) -> Iterator[Panel]:
    """Yield a panel with a bar for each batch size of a way where these vary; else one with a bar for each arm."""
    shown: set[Arm] = set()
    for part, axis in placed(arms):
        if part.x == "batch_size":
            shown.update(part.arms)
            for _, name, way in _base_lines_first(part):
                sizes = [(f"{size['batch_size']:g}", alike) for size, alike in groups(way, ["batch_size"])]
                yield _panel(joined(part.title, name, sep=": "), axis.label, sizes)
        elif not shown.issuperset(without_base_lines(part.arms)):
            keys = (*part.keys, *["workers"] * (len(values_of(ways(part.arms), "workers")) > 1))
            # The names of settings are those of the axis: `mpi, epochs, linear`.
            ways_of = _base_lines_first(replace(part, keys=keys))
            bars = [(re.sub(r"[^ ]*=", "", name), alike) for _, name, alike in ways_of]
            yield _panel(part.title, ", ".join(map(written_name, keys)), bars)


def _base_lines_first(part: Part) -> list[tuple[Role, str, list[Arm]]]:
    return sorted(named(part), key=lambda line: line[0] is not Role.BASE_LINE)


def _panel(title: str, label: str, bars: Iterable[tuple[str, list[Arm]]]) -> Panel:
    """Return a panel of bars; the parts of an arm are those of its run with the median step, so that they sum to it."""
    slots: list[tuple[str, str, list[Arm]]] = []
    for name, arms in bars:
        kinds = list(by_emulation(arms))  # one bar, or one for real and one for emulated runs
        slots += [(f"{name}, emulated" if why and len(kinds) > 1 else name, why, alike) for why, alike in kinds]
    curves = []
    for is_emulated in (False, True):
        chosen = [(float(slot), arms) for slot, (_, why, arms) in enumerate(slots) if bool(why) == is_emulated]
        reason = emulation(arm.emulated for _, arms in chosen for arm in arms)
        for part, name in PARTS.items():
            if shown := tuple(mark for slot, arms in chosen for mark in _typical(slot, part, arms)):
                curves.append(Series(name, shown, Role.MEASURED, reason, HUES[part], palette="parts"))
        wholes = (replace(mark, x=slot) for slot, arms in chosen for mark in marks(arms, "workers", STEP))
        if shown := tuple(mark for mark in wholes if mark.points or mark.num_failed):
            curves.append(Series(WHOLE, shown, Role.TOTAL, reason))
    x = Axis(label, categories=tuple(name for name, _, _ in slots))
    return Panel(title, x, Axis("time per step (ms)", low=0.0), tuple(curves), form="bars")


def _typical(slot: float, part: str, arms: Iterable[Arm]) -> Iterator[Mark]:
    """Yield a part of the run with the median step, of an even number of runs the mean of the middle two.

    A part that only one of the two has counts as 0 in the other: so the parts sum to the mean of both steps.
    """
    rows = sorted((row for arm in arms for row in arm.completed if row[STEP]), key=itemgetter(STEP))
    middle = rows[(len(rows) - 1) // 2 : len(rows) // 2 + 1]
    if any(part in row[SPLIT] for row in middle):
        yield line_mark(slot, fmean(row[SPLIT].get(part, 0.0) for row in middle), len(rows))


def _notes(num_completed: int, observed: Sequence[Row]) -> Iterator[str]:
    """Yield what a reader must know to read the bars."""
    yield "Times of the timed window / its steps, mean over workers. Other: what no part explains, such as the loop."
    if hidden := [row for row in observed if ONE_CALL in row[SPLIT]]:
        names = listed(sorted({row["strategy"] for row in hidden if row.get("strategy")})) or "unnamed"
        yield (
            f"In {counted(len(hidden), 'run')} ({names}) the step is one compiled call: forward, backward, update and, "
            "with several workers, whatever communication is exposed are in it and cannot be separated."
        )
    if any("peer_wait_s" in row[SPLIT] for row in observed):
        yield (
            "Exposed communication is split into waiting and all-reduce as in the marked steps, in which a barrier "
            "stood before the all-reduce."
        )
    if left := num_completed - len(observed):
        yield f"Left out: {counted(left, 'run')} that completed without a timed window or its parts."
