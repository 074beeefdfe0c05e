"""Training time against device time: what no other arm beats in both, and where more devices stop paying."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import accuracy, counted, number
from dlbench.analysis.groups import TASK, by_emulation, described, groups, values_of, without_base_lines
from dlbench.analysis.metrics.pareto import Point, front, knee
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._shown import UNEQUAL, in_chart, label, sees_unequally
from dlbench.report.figures._target import TARGET, TIME, late, target_name
from dlbench.report.lines import Part, brief_keys, ended, parts, series, ways_vary

if TYPE_CHECKING:
    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 70
HOUR_S = 3600.0
# Units of device time; hours where an arm took one or more.
SECONDS, HOURS = "device-seconds", "device-hours"
# The column made here: where an arm stands.
PLACE = "device_time"
# So many arms of a front are named.
MOST_NAMED = 5
# Axes go so many times beyond the outermost values.
ROOM = 1.1
FRONT = "Pareto front"


def chart(data: "ReportData") -> Chart:
    """Return the time of every arm against its device time, with the Pareto front and the knee of each task.

    Time is that to the target where one was set, else the whole training's. Device time is workers x time, in
    device-hours where an arm took one or more, else in device-seconds.

    Raises:
        MissingRowsError: No task has completed runs of two or more arms.
    """
    arms, unit = _placed(data.arms)
    every = list(_fields(arms))
    fields = [field for field in every if len(field.arms) > 1]
    if not fields:
        raise MissingRowsError("needs completed runs of two or more arms of one task")
    targets = [_target(field.arms) for field in fields]
    drawn = [_drawn(field, unit) for field in fields]
    panels = tuple(panel for shown, _ in drawn for panel in shown)
    lost, alone = len(data.arms) - len(arms), len(every) - len(fields)
    has_front = any(one.label == FRONT for panel in panels for one in panel.series)
    return Chart(
        title=f"{'Time to target' if all(targets) else 'Training time'} against {unit}",
        panels=panels,
        columns=min(2, len(panels)),
        lead=" ".join(
            [UNEQUAL] * any(sees_unequally(field.arms) for field in fields if not _target(field.arms))
            + ["Dashed: the arms that no other beats in both."] * has_front
        ),
        notes=(
            f"{unit.capitalize()}: workers x time in {unit.removeprefix('device-')}.",
            "An arm stands at its runs' median.",
            *dict.fromkeys(f"Target: {target}." for target in targets if target),
            *(note for _, notes in drawn for note in notes),
            *[f"Left out: {counted(lost, 'arm')} without the time of any completed run."] * (lost > 0),
            *[f"Left out: {counted(alone, 'arm')} with no other of the same task and target."] * (alone > 0),
        ),
        runs=frozenset(run for field in fields for run in in_chart(field.arms)),
    )


def _placed(every: Sequence[Arm]) -> tuple[list[Arm], str]:
    """Return the arms that have a time with their PLACE, and its unit; arms of equal cost stay apart invisibly."""
    costs: dict[Arm, float] = {}
    for place, arm in enumerate(every):
        column = TIME if _target([arm]) else "train_time_s"
        if times := [time_s for row in arm.completed if (time_s := row.get(column) or late(row))]:
            costs[arm.having(**{ended(TIME): late})] = arm.workers * median(times) * (1 + 1e-9 * place)
    unit, scale = (HOURS, HOUR_S) if max(costs.values(), default=0.0) >= HOUR_S else (SECONDS, 1.0)
    arms = [replace(arm, rows=tuple({**row, PLACE: cost / scale} for row in arm.rows)) for arm, cost in costs.items()]
    return arms, unit


def _target(arms: Sequence[Arm]) -> str:
    """Return what arms of one target are to reach; empty where it is the end of training."""
    goal = {key: arms[0].get(key) for key in TARGET}
    return "" if goal["target_value"] is None else target_name(goal)


def _fields(arms: Sequence[Arm]) -> Iterator[Part]:
    """Yield the arms that compete: of one task and one target, all on real hardware or all emulated.

    The keys are those that distinguish ways in all fields, by which they are named in each.
    """
    apart = [key for key in (*TARGET, *TASK) if len({arm.get(key) for arm in arms}) > 1]
    along = "batch_size" if len(values_of(without_base_lines(arms), "batch_size")) > 1 else "workers"
    every = brief_keys(Part("", tuple(arms), ways_vary(arms, x=along), along)).keys
    keys = tuple(key for key in every if key not in TASK)
    for values, alike in groups(arms, apart):
        task, target = described({key: value for key, value in values.items() if key in TASK}), _target(alike)
        wanted = f"to a {target}" if target and not values.keys().isdisjoint(TARGET) else ""
        for emulated, own in by_emulation(alike):
            title = ", ".join(filter(None, (task, wanted, "emulated" if emulated else "")))
            yield Part(title, tuple(own), keys, along)


def _drawn(field: Part, unit: str) -> tuple[list[Panel], list[str]]:
    """Return a field's panels, each with as many ways as are legible and the front of all, and its notes.

    They have the same axes, so that arms of different panels can be compared.
    """
    target = _target(field.arms)
    own = {*ways_vary(field.arms, x=field.x), "study"}
    at = {arm.get(PLACE): described({field.x: arm.get(field.x)}) for arm in field.arms}
    names: dict[Point, str] = {}
    shown: list[tuple[str, tuple[Series, ...]]] = []
    for part in parts(field.arms, x=field.x):
        keys = tuple(key for key in field.keys if key in part.keys or key not in own)
        lines = series(replace(part, keys=keys, x=PLACE), TIME if target else "train_time_s")
        shown.append((": ".join(filter(None, (field.title, part.title))), lines))
        for line in lines:
            for mark in line.marks:
                if mark.interval and mark.interval.value > 0:
                    name = ", ".join(filter(None, (part.common, line.label, at[mark.x])))
                    names[mark.x, mark.interval.value] = name
    best = front(names)
    turn = knee(best)
    marks = [mark for _, lines in shown for one in lines for mark in one.marks]
    x = _axis(unit, [mark.x for mark in marks])
    y = _axis(
        "time to target (s)" if target else "training time (s)",
        [value for mark in marks for value in (*mark.points, *mark.ended) if value > 0],
    )
    # The front's ends and its knee are named beside their marks; its line belongs to no series and has no colour.
    named = {place[0]: at[place[0]] for place in (*best[:1], *best[-1:], turn) if place is not None}
    dashed = [Series(FRONT, tuple(line_mark(*place) for place in best), Role.IDEAL)] * (len(best) > 1)
    panels = []
    for title, lines in shown:
        with_names = [
            replace(one, marks=tuple(replace(mark, name=named.get(mark.x, "")) for mark in one.marks)) for one in lines
        ]
        panels.append(Panel(title, x, y, (*with_names, *dashed), is_scatter=True))
    return panels, list(_notes(field, unit, [(names[place], *place) for place in best], turn and names[turn]))


def _axis(label: str, values: Sequence[float]) -> Axis:
    """Return an axis on which every mark of a field has its place."""
    low, high = (min(values) / ROOM, max(values) * ROOM) if values else (None, None)
    return Axis(label, "log10", low=low, high=high)


def _notes(field: Part, unit: str, best: Sequence[tuple[str, float, float]], turn: str | None) -> Iterator[str]:
    """Yield which arms no other beats, which of them is the knee, and how their accuracy differs without a target."""
    where = f" ({field.title})" if field.title else ""
    known = [f"{name} ({number(time_s)} s, {number(place)} {unit})" for name, place, time_s in best]
    if len(known) > MOST_NAMED:  # its ends always
        known[1:-1] = [f"{len(known) - 2} more"]
    if known:
        yield f"Pareto front{where}, from the fewest {unit} to the least time: {'; '.join(known)}."
    if turn:
        below = "lies farthest below the line between the front's ends, in logarithms scaled to the front"
        yield f"Its knee: {turn}, which {below}."
    if _target(field.arms):
        return
    learned = [arm for arm in field.arms if arm.scores_mean_something]
    medians = {arm: median(scores) for arm in learned if (scores := arm.values("validation_accuracy"))}
    if not medians:
        yield f"Time alone is compared{where}: what the arms learned was not measured as an accuracy."
        return
    low, high = (end(medians, key=medians.__getitem__) for end in (min, max))
    if medians[low] == medians[high]:
        yield f"No target was set{where}; the median validation accuracy of all arms is {accuracy(medians[low])}."
    else:
        yield (
            f"No target was set{where}: arms end at different accuracies, medians range from "
            f"{accuracy(medians[low])} ({label(low)}) to {accuracy(medians[high])} ({label(high)})."
        )
