"""Which strategy reaches the target first, by workers and by what else varies, as a map."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from dlbench.analysis.answer.comparison_group import comparison_groups
from dlbench.analysis.answer.decide import Wanted, families
from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import joined
from dlbench.analysis.groups import by_emulation, condition_text, groups, task_columns, values_of, varying, ways
from dlbench.analysis.judge import Family, Verdict
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Series
from dlbench.report.data import ReportData
from dlbench.report.figures._places import WORKERS, belongs_to_strategy, with_categories
from dlbench.report.figures._shown import in_chart
from dlbench.report.figures._target import TARGET, TIME, end_notes, target_name, with_ends
from dlbench.report.lines import ended, marks

ORDER = 6
# A map of the best needs all of them.
ALL_ARMS = True
# By study and name of an arm whose runs reached the target: its place in the family that it was judged in.
Judged = Mapping[tuple[str | None, str], tuple[int, Family]]


def chart(data: ReportData) -> Chart:
    """Return the strategy with the least median time to the target for each number of workers and each condition.

    Raises:
        MissingRowsError: No two strategies reached a target under the same conditions.
    """
    arms = ways(with_ends(data.arms))
    conditions = [key for study in data.studies if study.scenario for key in study.scenario.given]
    judged: dict[tuple[str | None, str], tuple[int, Family]] = {}
    for group in comparison_groups(data.judged_arms, conditions):
        for metric, members, family in families(group, Wanted(metrics=data.metrics)):
            if metric.column == TIME:
                judged |= {(arm.study, arm.name): (place, family) for place, arm in enumerate(members)}
    of_tasks = task_columns(arms)
    tasks = [key for key in varying(arms, x="workers") if key in of_tasks]
    panels = []
    for values, alike in groups(arms, [*TARGET, *tasks]):
        task = condition_text({key: values[key] for key in tasks}, arms)
        panel = _panel(joined(task, f"to a {target_name(values)}", sep=": "), alike, judged)
        if len(panel.marks()) > 1:
            panels.append(panel)
    if not panels:
        raise MissingRowsError("needs runs of two or more strategies that reached one target, at two places or more")
    return Chart(
        title="Which strategy reaches the target first",
        panels=tuple(panels),
        columns=1,
        lead="Each cell names the strategy with the least median time of those that reached the target in every run.",
        notes=(
            "+n: n other strategies there are not shown to be slower, judged over all arms as in the answer.",
            *end_notes(arms),
        ),
        runs=in_chart(arms, [TIME, ended(TIME)]),
    )


def _panel(title: str, arms: Sequence[Arm], judged: Judged) -> Panel:
    """Return the map of one task and target: conditions are rows, real and emulated ones apart, workers are columns."""
    rows = []
    for values, alike in groups(arms, [key for key in varying(arms, x="workers") if not belongs_to_strategy(key)]):
        for emulated, members in by_emulation(alike):
            cells = (_winner(there, judged) for _, there in groups(members, ["workers"]))
            if named := tuple(filter(None, cells)):
                rows.append(Series(condition_text(values, arms) or "all", named, emulated=emulated))
    return with_categories(Panel(title, WORKERS, Axis("time to target (s)", "log10"), tuple(rows), form="cells"))


def _winner(arms: Sequence[Arm], judged: Judged) -> Mark | None:
    """Return the best strategy of a cell; None where there is no other that it could have lost against."""
    judged_here = {arm: judged[arm.study, arm.name] for arm in arms if (arm.study, arm.name) in judged}
    if len(values_of(arms, "strategy")) < 2 or not judged_here or not values_of(arms, "workers"):
        return None
    best = min(judged_here, key=lambda arm: median(arm.comparable(TIME).values()))
    place, family = judged_here[best]
    others = {arm: where for arm, where in judged_here.items() if arm.get("strategy") != best.get("strategy")}
    level = {
        arm.get("strategy")
        for arm, (other, its) in others.items()
        if its is not family or family.pair(other, place).verdict is not Verdict.LOSES
    }
    (mark,) = marks([best], "workers", TIME)
    name = str(best.get("strategy")) + (f" +{len(level)}" if level else "")
    return replace(mark, num_failed=sum(len(arm.rows) - arm.n for arm in arms), name=name)
