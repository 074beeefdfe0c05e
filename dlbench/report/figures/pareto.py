"""Training time against device time: what no other arm beats in both, and where more devices stop paying."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import counted, number
from dlbench.analysis.groups import TASK, by_emulation, described, groups, values_of, without_base_lines
from dlbench.analysis.metrics.pareto import front, knee
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


@dataclass(frozen=True, eq=False)
class _Field:
    """Arms that compete: of one task and one target, all on real hardware or all emulated.

    Attributes:
        title: What distinguishes it from other fields.
        unit: Of PLACE: SECONDS or HOURS.
        target: What is to be reached; empty where it is the end of training.
        arms: The arms.
        along: What varies within a way: batch size, or workers.
        keys: What distinguishes ways in all fields, by which they are named in each.
    """

    title: str
    unit: str
    target: str
    arms: Sequence[Arm]
    along: str
    keys: tuple[str, ...]

    @property
    def competing(self) -> list[Arm]:
        """The arms that have a place."""
        return [arm for arm in self.arms if arm.get(PLACE) is not None]


def chart(data: "ReportData") -> Chart:
    """Return the time of every arm against its device time, with the Pareto front and the knee of each task.

    Time is that to the target where one was set, else the whole training's. Device time is workers x time, in
    device-hours where an arm took one or more, else in device-seconds.

    Raises:
        MissingRowsError: No task has completed runs of two or more arms.
    """
    arms = [_with_place(arm, number) for number, arm in enumerate(data.arms)]
    unit = HOURS if max(values_of(arms, PLACE), default=0.0) >= HOUR_S else SECONDS
    if unit == HOURS:
        arms = [arm.having(**{PLACE: lambda row: row[PLACE] and row[PLACE] / HOUR_S}) for arm in arms]
    every = list(_fields(arms, unit))
    fields = [field for field in every if len(field.competing) > 1]
    if not fields:
        raise MissingRowsError("needs completed runs of two or more arms of one task")
    drawn = [_drawn(field) for field in fields]
    panels = tuple(panel for shown, _ in drawn for panel in shown)
    lost = sum(len(field.arms) - len(field.competing) for field in every)
    alone = sum(len(field.competing) == 1 for field in every)
    has_front = any(one.label == FRONT for panel in panels for one in panel.series)
    return Chart(
        title=f"{'Time to target' if all(field.target for field in fields) else 'Training time'} against {unit}",
        panels=panels,
        columns=min(2, len(panels)),
        lead=" ".join(
            [UNEQUAL] * any(sees_unequally(field.arms) for field in fields if not field.target)
            + ["Dashed: the arms that no other beats in both."] * has_front
        ),
        notes=(
            f"{unit.capitalize()}: workers x time in {unit.removeprefix('device-')}.",
            "An arm stands at its runs' median.",
            *dict.fromkeys(f"Target: {field.target}." for field in fields if field.target),
            *(note for _, notes in drawn for note in notes),
            *[f"Left out: {counted(lost, 'arm')} without the time of any completed run."] * (lost > 0),
            *[f"Left out: {counted(alone, 'arm')} with no other of the same task and target."] * (alone > 0),
        ),
        runs=frozenset(run for field in fields for run in in_chart(field.arms, [PLACE])),
    )


def _with_place(arm: Arm, number: int) -> Arm:
    """Return the arm with its PLACE in device-seconds, and with the time of runs that ended before their target.

    Arms of equal cost stay apart by an invisible amount.
    """
    arm = arm.having(**{ended(TIME): late})
    column = _time_of(arm)
    times = [time_s for row in arm.completed if (time_s := row.get(column) or row.get(ended(column)))]
    place = arm.workers * median(times) * (1 + 1e-9 * number) if times else None
    return arm.having(**{PLACE: lambda _: place})


def _time_of(arm: Arm) -> str:
    """Return the column with the time that arms like this are compared by."""
    return "train_time_s" if arm.get("target_value") is None else TIME


def _fields(arms: Sequence[Arm], unit: str) -> Iterator[_Field]:
    """Yield the arms that may be compared, with what distinguishes them from the others as a title."""
    apart = [key for key in (*TARGET, *TASK) if len({arm.get(key) for arm in arms}) > 1]
    along = "batch_size" if len(values_of(without_base_lines(arms), "batch_size")) > 1 else "workers"
    every = brief_keys(Part("", tuple(arms), ways_vary(arms, x=along), along)).keys
    keys = tuple(key for key in every if key not in TASK)
    for values, alike in groups(arms, apart):
        task = described({key: value for key, value in values.items() if key in TASK})
        goal = {key: alike[0].get(key) for key in TARGET}
        target = target_name(goal) if goal["target_value"] is not None else ""
        wanted = f"to a {target}" if target and values.keys() & goal.keys() else ""
        for emulated, own in by_emulation(alike):
            title = ", ".join(filter(None, (task, wanted, "emulated" if emulated else "")))
            yield _Field(title, unit, target, own, along, keys)


def _drawn(field: _Field) -> tuple[list[Panel], list[str]]:
    """Return a field's panels, each with as many ways as are legible and the front of all, and its notes.

    They have the same axes, so that arms of different panels can be compared.
    """
    along = field.along
    own = {*ways_vary(field.arms, x=along), "study"}
    shown: list[tuple[Part, tuple[Series, ...]]] = []
    for part in parts(field.arms, x=along):
        keys = tuple(key for key in field.keys if key in part.keys or key not in own)
        if lines := series(replace(part, keys=keys, x=PLACE), _time_of(field.arms[0])):
            shown.append((part, lines))
    marks = [
        (mark, ", ".join(filter(None, (part.common, one.label))))
        for part, lines in shown
        for one in lines
        for mark in one.marks
    ]
    at = {arm.get(PLACE): described({along: arm.get(along)}) for arm in field.arms}
    names = {
        (mark.x, mark.interval.value): f"{way}, {at[mark.x]}"
        for mark, way in marks
        if mark.interval and mark.interval.value > 0
    }
    best = front(names)
    turn = knee(best)
    x = _axis(field.unit, [mark.x for mark, _ in marks])
    times = [value for mark, _ in marks for value in (*mark.points, *mark.ended) if value > 0]
    y = _axis("time to target (s)" if field.target else "training time (s)", times)
    # The front's ends and its knee are named beside their marks; its line belongs to no series and has no colour.
    named = {place[0]: at[place[0]] for place in (*best[:1], *best[-1:], turn) if place is not None}
    line = [Series(FRONT, tuple(line_mark(*place) for place in best), Role.IDEAL)] * (len(best) > 1)
    panels = []
    for part, lines in shown:
        with_names = [
            replace(one, marks=tuple(replace(mark, name=named.get(mark.x, "")) for mark in one.marks)) for one in lines
        ]
        title = ": ".join(filter(None, (field.title, part.title)))
        panels.append(Panel(title, x, y, (*with_names, *line), is_scatter=True))
    return panels, list(_notes(field, [(names[place], *place) for place in best], turn and names[turn]))


def _axis(label: str, values: Sequence[float]) -> Axis:
    """Return an axis on which every mark of a field has its place."""
    low, high = (min(values) / ROOM, max(values) * ROOM) if values else (None, None)
    return Axis(label, "log10", low=low, high=high)


def _notes(field: _Field, best: Sequence[tuple[str, float, float]], turn: str | None) -> Iterator[str]:
    """Yield which arms no other beats, which of them is the knee, and how their accuracy differs without a target."""
    where = f" ({field.title})" if field.title else ""
    known = [f"{name} ({number(time_s)} s, {number(place)} {field.unit})" for name, place, time_s in best]
    if len(known) > MOST_NAMED:  # its ends always
        known[1:-1] = [f"{len(known) - 2} more"]
    if known:
        yield f"Pareto front{where}, from the fewest {field.unit} to the least time: {'; '.join(known)}."
    if turn:
        yield f"Its knee: {turn}, which lies farthest below the line between the front's ends, in logarithms."
    if field.target:
        return
    learned = [arm for arm in field.competing if arm.scores_mean_something]
    medians = {arm: median(scores) for arm in learned if (scores := arm.values("validation_accuracy"))}
    if not medians:
        yield f"Time alone is compared{where}: what the arms learned was not measured as an accuracy."
        return
    low, high = (end(medians, key=medians.__getitem__) for end in (min, max))
    if medians[low] == medians[high]:
        yield f"No target was set{where}; the median validation accuracy of all arms is {medians[low]:.4f}."
    else:
        yield (
            f"No target was set{where}: arms end at different accuracies, medians range from "
            f"{medians[low]:.4f} ({label(low)}) to {medians[high]:.4f} ({label(high)})."
        )
