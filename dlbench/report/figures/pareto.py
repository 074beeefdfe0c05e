"""Training time against device-hours: what no other arm beats in both, and where more devices stop paying."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dlbench.analysis.groups import TASK, described, groups
from dlbench.analysis.metrics.pareto import Point, front, knee
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Role, Series, hued, line_mark
from dlbench.report.figures._rows import is_completed, learned, numbers
from dlbench.report.figures._scaling import is_emulated
from dlbench.report.figures._shown import in_chart, left_out_note
from dlbench.report.figures._target import TARGET, target_name
from dlbench.report.formatting import brief
from dlbench.report.lines import Part, censored_series, parts

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 100
HOUR_S = 3600.0
# Columns made here: place and time of a run, and the time it had taken when it ended before its target.
PLACE, TIME, ENDED = "device_hours", "time_s", "time_s.ended"
# So many arms of a front are named.
MOST_NAMED = 5
# More panels of one field than this cannot be read: those without an arm of the front are then left out.
MOST_PANELS = 12
# Axes go so many times beyond the outermost values.
ROOM = 1.1
FRONT = "Pareto front"


@dataclass(frozen=True, eq=False)
class _Field:
    """Runs whose arms compete: of one task and one target, all on real hardware or all emulated."""

    title: str
    target: str
    runs: "pd.DataFrame"


def chart(data: "ReportData") -> Chart:
    """Return the time of every arm against its device-hours, with the Pareto front and the knee of each task.

    Time is that to the target where one was set, else the whole training's.

    Raises:
        MissingRowsError: No task has completed runs of two or more arms.
    """
    every = list(_fields(_with_costs(data.runs)))
    fields = [field for field in every if _num_arms(field.runs) > 1]
    if not fields:
        raise MissingRowsError("needs completed runs of two or more arms of one task")
    found = [_drawn(field) for field in fields]
    return Chart(
        title="Time against device-hours",
        panels=_coloured(hued(tuple(panel for panels, _ in found for panel in panels))),
        columns=3,
        notes=(
            "Device-hours: workers x time / 3600; an arm stands at its runs' median.",
            *(note for _, notes in found for note in notes),
            *_left_out(every, fields),
        ),
        runs=frozenset(run for field in fields for run in in_chart(field.runs, [PLACE])),
    )


def _coloured(panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
    """Return the panels with a hue for the front that no arm has: it is no arm's line."""
    hue = 1 + max(one.hue for panel in panels for one in panel.series)
    return tuple(
        replace(
            panel,
            series=tuple(replace(one, hue=hue) if one.role is Role.FITTED else one for one in panel.series),
        )
        for panel in panels
    )


def _with_costs(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs with TIME, ENDED and the PLACE of their arm.

    TIME is the time to the target, or the training's where none was set; a completed run that did not reach its
    target has ENDED in its place. A failed run stands where its arm does, if any other of it completed.
    """
    completed, has_target = is_completed(runs), runs["target_value"].notna()
    whole = numbers(runs, "train_time_s").where(completed)
    to_target = numbers(runs, "time_to_target_s").where(completed)
    time_s, late = to_target.where(has_target, whole), whole.where(has_target & to_target.isna())
    hours = numbers(runs, "workers") * time_s.fillna(late) / HOUR_S
    arms = [runs["arm"], is_emulated(runs), *(runs[key] for key in TARGET)]
    places = hours.where(hours > 0).groupby(arms, dropna=False).transform("median")
    return runs.assign(**{TIME: time_s, ENDED: late, PLACE: places})


def _fields(runs: "pd.DataFrame") -> Iterator[_Field]:
    """Yield the runs that may be compared, with what distinguishes them from the others as a title."""
    keys = [key for key in (*TARGET, *TASK) if runs[key].nunique(dropna=False) > 1]
    for values, alike in groups(runs, keys):
        task = described({key: value for key, value in values.items() if key in TASK})
        has_target = alike["target_value"].notna().all()
        target = target_name({key: alike[key].iloc[0] for key in TARGET}) if has_target else ""
        wanted = f"to a {target}" if target and set(keys) & set(TARGET) else ""
        emulated = is_emulated(alike)
        for word, chosen in (("", ~emulated), ("emulated", emulated)):
            if chosen.any():
                yield _Field(", ".join(filter(None, (task, wanted, word))), target, alike[chosen])


def _num_arms(runs: "pd.DataFrame") -> int:
    return int(runs["arm"][runs[PLACE].notna()].nunique())


def _drawn(field: _Field) -> tuple[list[Panel], list[str]]:
    """Return a field's panels, each with as many arms as are legible and the front of all, and its notes.

    They have the same axes, so that arms of different panels can be compared.
    """
    shown = [(part, censored_series(part, PLACE, TIME, ENDED)) for part in parts(field.runs, x="")]
    names = {place: _name(part, one) for part, series in shown for one in series for place in _places([one])}
    best = front(names)
    turn = knee(best)
    x, y = _axes(field, [mark for _, series in shown for one in series for mark in one.marks])
    panels = [
        Panel(": ".join(filter(None, (field.title, part.title))), x, y, (*_named(series, turn), *_line(best)))
        for part, series in shown
        if series
    ]
    kept = _first(panels, best)
    left_out = [panel.title for panel in panels if panel not in kept]
    return kept, [
        *_front_note(field, best, turn, names),
        *_accuracy_note(field),
        *left_out_note(left_out, "without an arm of the front"),
    ]


def _first(panels: list[Panel], best: list[Point]) -> list[Panel]:
    """Return the panels in which an arm of the front is, and as many of the others as there is room for, in order."""
    # Base lines are in every panel that they are equal to.
    arms = [(panel, [one for one in panel.series if one.role is Role.MEASURED]) for panel in panels]
    with_front = [panel for panel, own in arms if set(_places(own)) & set(best)]
    others = [panel for panel in panels if panel not in with_front]
    kept = [*with_front, *others[: max(0, MOST_PANELS - len(with_front))]]
    return [panel for panel in panels if panel in kept]


def _name(part: Part, one: Series) -> str:
    return ", ".join(filter(None, (part.title, one.label)))


def _axes(field: _Field, marks: list[Mark]) -> tuple[Axis, Axis]:
    """Return axes on which every mark of a field has its place."""
    times = [value for mark in marks for value in (*mark.points, *mark.ended) if value > 0]
    label = f"time to a {field.target} (s)" if field.target else "training time (s)"
    return _axis("device-hours", [mark.x for mark in marks]), _axis(label, times)


def _axis(label: str, values: list[float]) -> Axis:
    if not values:
        return Axis(label, "log10")
    return Axis(label, "log10", low=min(values) / ROOM, high=max(values) * ROOM)


def _places(series: Iterable[Series]) -> Iterator[Point]:
    """Yield device-hours and median time of each arm that has a median above zero."""
    for one in series:
        for mark in one.marks:
            if mark.interval is not None and mark.x > 0 and mark.interval.value > 0:
                yield mark.x, mark.interval.value


def _named(series: Iterable[Series], turn: Point | None) -> Iterator[Series]:
    for one in series:
        yield replace(one, label=f"{one.label} (knee)") if turn in list(_places([one])) else one


def _line(best: list[Point]) -> Iterator[Series]:
    """Yield the line through the front."""
    if best:
        marks = tuple(line_mark(hours, time_s) for hours, time_s in best)
        yield Series(FRONT, marks, Role.FITTED)


def _front_note(field: _Field, best: list[Point], turn: Point | None, names: Mapping[Point, str]) -> Iterator[str]:
    """Yield which arms no other beats, which of them is the knee and how it was found, or why there is none."""
    if not best:
        return
    where = f" of {field.title}" if field.title else ""
    known = [f"{names[place]} ({brief(place[1])} s, {brief(place[0])} device-hours)" for place in best]
    if len(best) == 1:
        yield f"Pareto front{where}: one arm has both the least time and the fewest device-hours, {known[0]}."
        return
    yield f"Pareto front{where}, from the fewest device-hours to the least time: {_listed(known)}."
    if turn is not None:
        yield (
            f"Its knee: {names[turn]}, which lies farthest below the line between the front's ends, in logarithms "
            "scaled to the front."
        )
    elif len(best) > 2:
        yield "It has no knee: no arm on it lies below the line between its ends."
    else:
        yield "A knee needs a third arm between them."


def _listed(known: list[str]) -> str:
    """Return the arms of a front for a sentence: its ends always, and how many are between where they are many."""
    if len(known) <= MOST_NAMED:
        return "; ".join(known)
    return f"{known[0]}; {len(known) - 2} more; {known[-1]}"


def _accuracy_note(field: _Field) -> Iterator[str]:
    """Yield by how much the arms' accuracy differs where no target made it alike."""
    if field.target:
        return
    where = f" for {field.title}" if field.title else ""
    known = learned(field.runs[field.runs[PLACE].notna()])
    medians = numbers(known, "validation_accuracy").where(is_completed(known)).groupby(known["arm"]).median().dropna()
    if medians.empty:
        yield f"Time alone is compared{where}: what the arms learned was not measured as an accuracy."
        return
    low, high = str(medians.idxmin()), str(medians.idxmax())
    if medians[low] == medians[high]:
        yield f"No target was set{where}; the median validation accuracy of all arms is {medians[low]:.4f}."
        return
    yield (
        f"No target was set{where}, so that the arms do not end alike: median validation accuracy goes from "
        f"{medians[low]:.4f} ({_label(known, low)}) to {medians[high]:.4f} ({_label(known, high)})."
    )


def _label(runs: "pd.DataFrame", arm: str) -> str:
    labels: list[Any] = runs["label"][(runs["arm"] == arm).astype(bool)].dropna().tolist()
    return str(labels[0]) if labels else arm


def _left_out(every: list[_Field], fields: list[_Field]) -> Iterator[str]:
    """Yield how many arms have no place, and how many stand alone in their task."""
    lost = sum(int(field.runs["arm"][field.runs[PLACE].isna()].nunique()) for field in every)
    if lost:
        yield f"Left out: {lost} arm{'' if lost == 1 else 's'} without the time of any completed run."
    alone = sum(_num_arms(field.runs) for field in every if field not in fields)
    if alone:
        arms = f"{alone} arm{'' if alone == 1 else 's'}"
        yield f"Left out: {arms} with no other of the same task and target, real or emulated alike, beside it."
