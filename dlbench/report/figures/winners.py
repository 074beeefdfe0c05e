"""Which strategy reaches the target first, by workers and by what else varies, as a map."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dlbench.analysis.compare.judgement import SIGNIFICANCE
from dlbench.analysis.formatting import number
from dlbench.analysis.groups import TASK, by_emulation, described, groups, is_alone, is_base_line, varying
from dlbench.analysis.statistics.intervals import Interval, censored_median
from dlbench.analysis.statistics.rank_tests import mann_whitney
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Series
from dlbench.report.figures._places import condition_text
from dlbench.report.figures._rows import is_completed, numbers
from dlbench.report.figures._shown import in_chart
from dlbench.report.figures._target import TARGET, end_notes, ended, target_name, with_ends

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 6
# A map of the best needs all of them.
ALL_ARMS = True
TIME = "time_to_target_s"
# What belongs to a strategy: of all its variants the best one counts.
OF_STRATEGY = ("strategy", "algorithm", "collectives", "launcher", "servers", "server_placement", "placement", "mode")


class _Contestant(NamedTuple):
    """The runs of one arm in a cell: names of those that reached the target, and times, infinite where one did not."""

    strategy: str
    runs: tuple[str, ...]
    times: tuple[float, ...]
    median: Interval


def chart(data: "ReportData") -> Chart:
    """Return the strategy with the least median time to the target for each number of workers and each condition.

    Raises:
        MissingRowsError: No two strategies reached a target under the same conditions.
    """
    runs = with_ends(data.runs)
    runs = runs[~is_base_line(runs) & ~is_alone(runs)]
    tasks = [key for key in varying(runs, x="workers") if key in TASK]
    panels = []
    for values, rows in groups(runs, [*TARGET, *tasks]):
        title = ": ".join(filter(None, (described({key: values[key] for key in tasks}), f"to a {target_name(values)}")))
        panel = _panel(title, rows, tasks)
        if sum(len(one.marks) for one in panel.series) > 1:
            panels.append(panel)
    if not panels:
        raise MissingRowsError("needs runs of two or more strategies that reached one target, at two places or more")
    doubt = f"Mann and Whitney's test, {100 * SIGNIFICANCE:g}%, not corrected for the number of cells"
    return Chart(
        title="Which strategy reaches the target first",
        panels=tuple(panels),
        columns=1,
        lead="Each cell names the strategy with the least median time, and that time in s.",
        notes=(
            "A run that did not complete has not reached the target.",
            f"+n: so many other strategies there cannot be told apart from it ({doubt}).",
            *end_notes(runs),
        ),
        runs=in_chart(runs, [TIME, ended(TIME)]),
    )


def _panel(title: str, runs: "pd.DataFrame", tasks: Sequence[str]) -> Panel:
    """Return the map of one task and target: conditions are rows, real and emulated ones apart, workers are columns."""
    keys = [key for key in varying(runs, x="workers") if key not in (*OF_STRATEGY, *TARGET, *tasks)]
    conditions = [key for key in keys if not key.startswith("strategy.")]
    places = sorted(runs["workers"].dropna().unique().tolist())
    rows = []
    for values, alike in groups(runs, conditions) if conditions else [({}, runs)]:
        label = condition_text(values, runs) or "all"
        for emulated, own in by_emulation(alike):
            found = [_winner(float(number), own[own["workers"] == place]) for number, place in enumerate(places)]
            marks = tuple(mark for mark in found if mark is not None)
            rows += [Series(label, marks, emulated=emulated)] if marks else []
    axis = Axis("workers", categories=tuple(map(number, places)))
    return Panel(title, axis, Axis("time to target (s)", "log10"), tuple(rows), form="cells")


def _winner(place: float, runs: "pd.DataFrame") -> Mark | None:
    """Return the best strategy of a cell; None where there is no other that it could have lost against."""
    variants = [key for key in varying(runs) if key in OF_STRATEGY[1:] or key.startswith("strategy.")]
    arms = groups(runs, ["strategy", *variants])
    found = [one for values, rows in arms if (one := _contestant(values, rows)) is not None]
    if runs["strategy"].nunique() < 2 or not found:
        return None
    best = min(found, key=lambda one: one.median.value)
    level = {one.strategy for one in found if one.strategy != best.strategy and _is_level(best, one)}
    name = best.strategy + (f" +{len(level)}" if level else "")
    reached = tuple(time for time in best.times if math.isfinite(time))
    return Mark(place, reached, best.median, num_failed=int((~is_completed(runs)).sum()), name=name, runs=best.runs)


def _contestant(values: dict[str, object], runs: "pd.DataFrame") -> _Contestant | None:
    """Return the times of one arm; None where half of its runs or more did not reach the target, or complete."""
    arrived = numbers(runs, TIME).dropna()
    reached, names = arrived.tolist(), tuple(map(str, runs["run_id"][arrived.index]))
    late = numbers(runs, ended(TIME)).dropna().tolist()
    late += [max([*reached, *late], default=0.0)] * int((~is_completed(runs)).sum())
    median = censored_median(reached, late)
    if median is None or not math.isfinite(median.value):
        return None
    return _Contestant(str(values["strategy"]), names, (*reached, *(math.inf for _ in late)), median)


def _is_level(best: _Contestant, other: _Contestant) -> bool:
    return float(mann_whitney([best.times], [other.times])[0]) > SIGNIFICANCE
