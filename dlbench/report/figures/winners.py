"""Which strategy reaches the target first, by workers and by what else varies, as a map."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from dlbench.analysis.answer.comparison_group import comparison_groups
from dlbench.analysis.answer.decide import Wanted, families
from dlbench.analysis.formatting import chosen
from dlbench.analysis.groups import (
    TASK,
    by_emulation,
    condition_text,
    described,
    groups,
    is_alone,
    is_base_line,
    varying,
)
from dlbench.analysis.judge import Family, Verdict
from dlbench.analysis.statistics.intervals import median_interval
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Series
from dlbench.report.figures._rows import is_completed
from dlbench.report.figures._shown import in_chart
from dlbench.report.figures._target import TARGET, end_notes, ended, target_name, with_ends
from dlbench.scenario.run_spec import arm_name

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
    """One arm in a cell, all of whose runs reached the target: its place in its family, and times."""

    strategy: str
    place: int
    family: Family
    runs: tuple[str, ...]
    times: tuple[float, ...]


def chart(data: "ReportData") -> Chart:
    """Return the strategy with the least median time to the target for each number of workers and each condition.

    Raises:
        MissingRowsError: No two strategies reached a target under the same conditions.
    """
    runs = with_ends(data.runs)
    given = tuple(key for study in data.studies if study.scenario for key in study.scenario.given)
    contestants: dict[tuple[str, str], _Contestant] = {}
    for group in comparison_groups(data.runs, given=given):
        for arms, family in filter(None, [families(group, Wanted()).get(TIME)]):
            for place, arm in enumerate(arms):
                if not arm.is_alone:
                    names = tuple(str(row["run_id"]) for row in arm.completed)
                    times = tuple(arm.comparable(TIME).values())
                    strategy = str(arm.first["strategy"])
                    contestants[str(arm.study), arm.name] = _Contestant(strategy, place, family, names, times)
    runs = runs[~is_base_line(runs) & ~is_alone(runs)]
    tasks = [key for key in varying(runs, x="workers") if key in TASK]
    panels = []
    for values, rows in groups(runs, [*TARGET, *tasks]):
        title = ": ".join(filter(None, (described({key: values[key] for key in tasks}), f"to a {target_name(values)}")))
        panel = _panel(title, rows, tasks, contestants)
        if sum(len(one.marks) for one in panel.series) > 1:
            panels.append(panel)
    if not panels:
        raise MissingRowsError("needs runs of two or more strategies that reached one target, at two places or more")
    return Chart(
        title="Which strategy reaches the target first",
        panels=tuple(panels),
        columns=1,
        lead="Each cell names the strategy with the least median time of those that reached the target in every run.",
        notes=(
            "+n: so many other strategies there are not shown to be slower, judged over all arms as in the answer.",
            *end_notes(runs),
        ),
        runs=in_chart(runs, [TIME, ended(TIME)]),
    )


def _panel(
    title: str, runs: "pd.DataFrame", tasks: Sequence[str], contestants: Mapping[tuple[str, str], _Contestant]
) -> Panel:
    """Return the map of one task and target: conditions are rows, real and emulated ones apart, workers are columns."""
    keys = [key for key in varying(runs, x="workers") if key not in (*OF_STRATEGY, *TARGET, *tasks)]
    conditions = [key for key in keys if not key.startswith("strategy.")]
    places = sorted(runs["workers"].dropna().unique().tolist())
    rows = []
    for values, alike in groups(runs, conditions) if conditions else [({}, runs)]:
        label = condition_text(values, runs) or "all"
        for emulated, own in by_emulation(alike):
            found = [_winner(number, own[own["workers"] == place], contestants) for number, place in enumerate(places)]
            marks = tuple(mark for mark in found if mark is not None)
            rows += [Series(label, marks, emulated=emulated)] if marks else []
    axis = Axis("workers", categories=tuple(map(chosen, places)))
    return Panel(title, axis, Axis("time to target (s)", "log10"), tuple(rows), form="cells")


def _winner(place: int, runs: "pd.DataFrame", contestants: Mapping[tuple[str, str], _Contestant]) -> Mark | None:
    """Return the best strategy of a cell; None where there is no other that it could have lost against."""
    names = dict.fromkeys(zip(runs["study"], map(arm_name, runs["run_id"]), strict=True))
    found = [contestants[name] for name in names if name in contestants]
    if runs["strategy"].nunique() < 2 or not found:
        return None
    best = min(found, key=lambda one: median(one.times))
    level = {one.strategy for one in found if one.strategy != best.strategy and not _loses(one, best)}
    name = best.strategy + (f" +{len(level)}" if level else "")
    num_failed = int((~is_completed(runs)).sum())
    return Mark(float(place), best.times, median_interval(best.times), num_failed=num_failed, name=name, runs=best.runs)


def _loses(one: _Contestant, best: _Contestant) -> bool:
    return one.family is best.family and one.family.pair(one.place, best.place).verdict is Verdict.LOSES
