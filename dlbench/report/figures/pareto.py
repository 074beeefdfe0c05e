"""Training time against device time: what no other arm beats in both, and where more devices stop paying."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import accuracy, counted, number
from dlbench.analysis.groups import TASK, described, groups, is_base_line
from dlbench.analysis.metrics.pareto import Point, front, knee
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._places import is_emulated
from dlbench.report.figures._rows import UNEQUAL, is_completed, labels, learned, numbers, sees_unequally
from dlbench.report.figures._shown import in_chart
from dlbench.report.figures._target import TARGET, target_name
from dlbench.report.lines import Part, brief_keys, parts, series, ways_vary

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 70
HOUR_S = 3600.0
# Units of device time; hours where an arm took one or more.
SECONDS, HOURS = "device-seconds", "device-hours"
# Columns made here: place (in device-seconds or device-hours) and time of a run, and the time it had taken when it
# ended before its target.
PLACE, TIME, ENDED = "device_time", "time_s", "time_s.ended"
# So many arms of a front are named.
MOST_NAMED = 5
# Axes go so many times beyond the outermost values.
ROOM = 1.1
FRONT = "Pareto front"


@dataclass(frozen=True, eq=False)
class _Field:
    """Runs whose arms compete: of one task and one target, all on real hardware or all emulated.

    Attributes:
        title: What distinguishes it from other fields.
        unit: Of PLACE: SECONDS or HOURS.
        target: What is to be reached; empty where it is the end of training.
        runs: The runs.
        along: What varies within a way: batch size, or workers.
        keys: What distinguishes ways in all fields, by which they are named in each.
    """

    title: str
    unit: str
    target: str
    runs: "pd.DataFrame"
    along: str
    keys: tuple[str, ...]


def chart(data: "ReportData") -> Chart:
    """Return the time of every arm against its device time, with the Pareto front and the knee of each task.

    Time is that to the target where one was set, else the whole training's. Device time is workers x time, in
    device-hours where an arm took one or more, else in device-seconds.

    Raises:
        MissingRowsError: No task has completed runs of two or more arms.
    """
    runs = _with_costs(data.runs)
    unit = SECONDS if runs[PLACE].max() < HOUR_S else HOURS  # hours where an arm took one or more
    every = list(_fields(runs.assign(**{PLACE: runs[PLACE] / (HOUR_S if unit == HOURS else 1.0)}), unit))
    fields = [field for field in every if _num_arms(field.runs) > 1]
    if not fields:
        raise MissingRowsError("needs completed runs of two or more arms of one task")
    found = [_drawn(field) for field in fields]
    panels = tuple(panel for panels, _ in found for panel in panels)
    drawn = {one.label for panel in panels for one in panel.series}
    return Chart(
        title=f"{'Time to target' if all(field.target for field in fields) else 'Training time'} against {unit}",
        panels=panels,
        columns=min(2, len(panels)),
        lead=" ".join(
            [UNEQUAL] * any(sees_unequally(one.runs[is_completed(one.runs)]) for one in fields if not one.target)
            + ["Dashed: the arms that no other beats in both."] * (FRONT in drawn)
        ),
        notes=(
            f"{unit.capitalize()}: workers x time in {'hours' if unit == HOURS else 'seconds'}.",
            "An arm stands at its runs' median.",
            *dict.fromkeys(f"Target: {field.target}." for field in fields if field.target),
            *(note for _, notes in found for note in notes),
            *_left_out(every, fields),
        ),
        runs=frozenset(run for field in fields for run in in_chart(field.runs, [PLACE])),
    )


def _with_costs(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs with TIME, ENDED and the PLACE of their arm.

    TIME is the time to the target, or the training's where none was set; a completed run that did not reach its
    target has ENDED in its place. A failed run stands where its arm does, if any other of it completed.
    """
    import pandas as pd

    completed, has_target = is_completed(runs), runs["target_value"].notna()
    whole = numbers(runs, "train_time_s").where(completed)
    to_target = numbers(runs, "time_to_target_s").where(completed)
    time_s, late = to_target.where(has_target, whole), whole.where(has_target & to_target.isna())
    device_s = numbers(runs, "workers") * time_s.fillna(late)
    arms = [runs["arm"], is_emulated(runs), *(runs[key] for key in TARGET)]
    places = device_s.where(device_s > 0).groupby(arms, dropna=False).transform("median")
    # Arms of equal cost stay apart by an invisible amount.
    own_place = places * (1 + 1e-9 * pd.Series(pd.factorize(runs["arm"])[0], index=runs.index))
    return runs.assign(**{TIME: time_s, ENDED: late, PLACE: own_place})


def _fields(runs: "pd.DataFrame", unit: str) -> Iterator[_Field]:
    """Yield the runs that may be compared, with what distinguishes them from the others as a title."""
    keys = [key for key in (*TARGET, *TASK) if runs[key].nunique(dropna=False) > 1]
    along = "batch_size" if runs[~is_base_line(runs)]["batch_size"].nunique() > 1 else "workers"
    every = brief_keys(Part("", runs, ways_vary(runs, x=along)), along).keys
    ways = tuple(key for key in every if key not in TASK)
    for values, alike in groups(runs, keys):
        task = described({key: value for key, value in values.items() if key in TASK})
        has_target = alike["target_value"].notna().all()
        target = target_name({key: alike[key].iloc[0] for key in TARGET}) if has_target else ""
        wanted = f"to a {target}" if target and set(keys) & set(TARGET) else ""
        emulated = is_emulated(alike)
        for word, chosen in (("", ~emulated), ("emulated", emulated)):
            if chosen.any():
                yield _Field(", ".join(filter(None, (task, wanted, word))), unit, target, alike[chosen], along, ways)


def _num_arms(runs: "pd.DataFrame") -> int:
    return int(runs["arm"][runs[PLACE].notna()].nunique())


def _drawn(field: _Field) -> tuple[list[Panel], list[str]]:
    """Return a field's panels, each with as many ways as are legible and the front of all, and its notes.

    They have the same axes, so that arms of different panels can be compared.
    """
    along = field.along
    own = {*ways_vary(field.runs, x=along), "study"}
    every = [
        replace(part, keys=tuple(key for key in field.keys if key in part.keys or key not in own))
        for part in parts(field.runs, x=along)
    ]
    shown = [(part, series(part, PLACE, TIME, ENDED)) for part in every]
    at = {place: described({along: value}) for place, value in zip(field.runs[PLACE], field.runs[along], strict=True)}
    names = {
        (mark.x, mark.interval.value): ", ".join(filter(None, (part.common, one.label, at[mark.x])))
        for part, lines in shown
        for one in lines
        for mark in one.marks
        if mark.interval is not None and mark.x > 0 and mark.interval.value > 0
    }
    best = front(names)
    turn = knee(best)
    marks = [mark for _, lines in shown for one in lines for mark in one.marks]
    x = _axis(field.unit, [mark.x for mark in marks])
    times = [value for mark in marks for value in (*mark.points, *mark.ended) if value > 0]
    y = _axis("time to target (s)" if field.target else "training time (s)", times)
    # The front's ends and its knee are named beside their marks; its line belongs to no series and has no colour.
    named = {place[0]: at[place[0]] for place in (*best[:1], *best[-1:], turn) if place is not None}
    line = (Series(FRONT, tuple(line_mark(*place) for place in best), Role.IDEAL),) if len(best) > 1 else ()
    panels = []
    for part, lines in shown:
        with_names = tuple(
            replace(one, marks=tuple(replace(mark, name=named.get(mark.x, "")) for mark in one.marks)) for one in lines
        )
        if lines:
            title = ": ".join(filter(None, (field.title, part.title)))
            panels.append(Panel(title, x, y, (*with_names, *line), is_scatter=True))
    return panels, [*_front_note(field, best, turn, names), *_accuracy_note(field)]


def _axis(label: str, values: list[float]) -> Axis:
    """Return an axis on which every mark of a field has its place."""
    ends = (min(values) / ROOM, max(values) * ROOM) if values else (None, None)
    return Axis(label, "log10", low=ends[0], high=ends[1])


def _front_note(field: _Field, best: list[Point], turn: Point | None, names: Mapping[Point, str]) -> Iterator[str]:
    """Yield which arms no other beats, which of them is the knee and how it was found, or why there is none."""
    if not best:
        return
    where = f" ({field.title})" if field.title else ""
    known = [f"{names[place]} ({number(place[1])} s, {number(place[0])} {field.unit})" for place in best]
    if len(best) == 1:
        yield f"Pareto front{where}: one arm has both the least time and the fewest {field.unit}, {known[0]}."
        return
    if len(known) > MOST_NAMED:  # its ends always
        known[1:-1] = [f"{len(known) - 2} more"]
    yield f"Pareto front{where}, from the fewest {field.unit} to the least time: {'; '.join(known)}."
    if turn is not None:
        yield (
            f"Its knee: {names[turn]}, which lies farthest below the line between the front's ends, in logarithms "
            "scaled to the front."
        )
    else:
        why = "It has no knee: no arm on it lies below the line between its ends"
        yield f"{'With two arms on it, the front has no knee' if len(best) == 2 else why}."


def _accuracy_note(field: _Field) -> Iterator[str]:
    """Yield by how much the arms' accuracy differs where no target made it alike."""
    if field.target:
        return
    where = f" ({field.title})" if field.title else ""
    known = learned(field.runs[field.runs[PLACE].notna()])
    medians = numbers(known, "validation_accuracy").where(is_completed(known)).groupby(known["arm"]).median().dropna()
    if medians.empty:
        yield f"Time alone is compared{where}: what the arms learned was not measured as an accuracy."
        return
    low, high = str(medians.idxmin()), str(medians.idxmax())
    first, last = (labels(known[(known["arm"] == arm).astype(bool)])[0] for arm in (low, high))
    if medians[low] == medians[high]:
        yield f"No target was set{where}; the median validation accuracy of all arms is {accuracy(medians[low])}."
        return
    yield (
        f"No target was set{where}: arms end at different accuracies, medians range from "
        f"{accuracy(medians[low])} ({first}) to {accuracy(medians[high])} ({last})."
    )


def _left_out(every: list[_Field], fields: list[_Field]) -> Iterator[str]:
    """Yield how many arms have no place, and how many stand alone in their task."""
    lost = sum(int(field.runs["arm"][field.runs[PLACE].isna()].nunique()) for field in every)
    if lost:
        yield f"Left out: {counted(lost, 'arm')} without the time of any completed run."
    alone = sum(_num_arms(field.runs) for field in every if field not in fields)
    if alone:
        yield f"Left out: {counted(alone, 'arm')} with no other of the same task and target, real or emulated alike."
