"""Training time against device time: what no other arm beats in both, and where more devices stop paying."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median

from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import counted, joined, number
from dlbench.analysis.groups import (
    by_emulation,
    condition_text,
    described,
    groups,
    task_columns,
    values_of,
    without_base_lines,
)
from dlbench.analysis.metrics.pareto import front, knee
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.data import ReportData
from dlbench.report.figures._shown import (
    UNEQUAL,
    ends_apart,
    in_chart,
    label,
    learning_rates,
    sees_unequally,
    with_faults,
)
from dlbench.report.figures._target import TARGET, TIME, late, target_name
from dlbench.report.lines import Part, brief_keys, ended, parts, series, ways_vary

ORDER = 70
# The column made here: where an arm stands.
PLACE, DEVICE_TIME = "device_time_s", "device-seconds"
OF_SLOTS = "slots of workers, and of servers with slots of their own"
FRONT = "Pareto front"
FAULT = "a run failed, learned nothing or missed the target"
OF_SOUND = f", leaving out those of which {FAULT}"


def chart(data: ReportData) -> Chart:
    """Return the time of every arm against its device time, with the Pareto front and the knee of each task.

    Time is that to the target where one was set, else the whole training's. Device time is time x slots.

    Raises:
        MissingRowsError: No task has completed runs with a time of two or more arms.
    """
    fields = [field for field in _fields(_placed(data)) if len(field.arms) > 1]
    if not fields:
        raise MissingRowsError("needs completed runs with a time, of two or more arms of one task")
    targets = [_target(field.arms) for field in fields]
    drawn = [_drawn(field) for field in fields]
    panels = tuple(panel for shown, _, _ in drawn for panel in shown)
    untargeted = [field.arms for field in fields if not _target(field.arms)]
    lead = joined(
        any(map(sees_unequally, untargeted)) and UNEQUAL,
        ends_apart(chain(*untargeted), data.metrics),
        _front_in_words([(len(shown), num_arms) for shown, num_arms, _ in drawn], panels),
        any(targets) and learning_rates([arm for field in fields for arm in field.arms]),
        sep=" ",
    )
    left_out = len(data.arms) - sum(len(field.arms) for field in fields)
    return Chart(
        title=f"{'Time to target' if all(targets) else 'Training time'} against {DEVICE_TIME}",
        panels=panels,
        columns=2,
        lead=lead,
        notes=(
            f"{DEVICE_TIME.capitalize()}: time x {OF_SLOTS}. An arm stands at its runs' median.",
            *dict.fromkeys(f"Target: {target}." for target in targets if target),
            *(note for _, _, notes in drawn for note in notes),
            *[f"Left out: {counted(left_out, 'arm')} without a median time, or alone in their task and target."]
            * (left_out > 0),
        ),
        runs=in_chart(arm for field in fields for arm in field.arms),
    )


def _front_in_words(fields: Sequence[tuple[int, int]], panels: Sequence[Panel]) -> str:
    """Say what the line is, or why there is none, by each field's number of panels and of arms on its front."""
    of_sound = "" if all(_is_sound(mark) for panel in panels for mark in panel.marks()) else OF_SOUND
    match max(num_arms for _, num_arms in fields):
        case 0:
            return f"No Pareto front: of each arm {FAULT}."
        case 1:
            return f"Pareto front: the named arm alone, which is the best in both{of_sound}."
    of_all = f" of all panels{' of a task' * (len(fields) > 1)} together"
    are_several = any(num_panels > 1 < num_arms for num_panels, num_arms in fields)
    return f"Dashed Pareto front{of_all * are_several}: the arms that no other beats in both{of_sound}."


def _is_sound(mark: Mark) -> bool:
    """Whether all runs of an arm completed, learned something and reached the target, if they had one."""
    return not (mark.num_failed or mark.flags or mark.ended)


def _placed(data: ReportData) -> list[Arm]:
    """Return the arms that have a median time with their PLACE; arms of equal cost stay apart invisibly."""
    placed = []
    # Of equal device times the one of more slots has the least time, and is to have the least of both.
    for place, arm in enumerate(sorted(with_faults(data), key=lambda arm: arm.slots)):
        column = TIME if _target([arm]) else "train_time_s"
        times = [time_s for row in arm.completed if (time_s := row.get(column) or late(row))]
        if times and math.isfinite(median(times)):
            columns = {PLACE: arm.slots * median(times) * (1 - 1e-9 * place)}
            placed.append(replace(arm, rows=tuple({**row, ended(TIME): late(row), **columns} for row in arm.rows)))
    return placed


def _target(arms: Sequence[Arm]) -> str:
    """Return what arms of one target are to reach; empty where it is the end of training."""
    goal = {key: arms[0].get(key) for key in TARGET}
    return "" if goal["target_value"] is None else target_name(goal)


def _fields(arms: Sequence[Arm]) -> Iterator[Part]:
    """Yield the arms that compete: of one task and one target, all on real hardware or all emulated.

    The keys are those that distinguish ways in all fields, by which they are named in each.
    """
    tasks = task_columns(arms)
    apart = [key for key in TARGET if len({arm.get(key) for arm in arms}) > 1] + tasks
    along = "batch_size" if len(values_of(without_base_lines(arms), "batch_size")) > 1 else "workers"
    every = brief_keys(Part("", tuple(arms), ways_vary(arms, x=along), along)).keys
    keys = tuple(key for key in every if key not in tasks)
    for values, alike in groups(arms, apart):
        task, target = condition_text({key: values[key] for key in tasks}, arms), _target(alike)
        wanted = f"to a {target}" if target and not values.keys().isdisjoint(TARGET) else ""
        for emulated, members in by_emulation(alike):
            title = joined(task, wanted, emulated and "emulated")
            yield Part(title, tuple(members), keys, along)


def _drawn(field: Part) -> tuple[list[Panel], int, list[str]]:
    """Return a field's panels, each with as many ways as are legible and the front of all, its size, and the notes."""
    varying = {*ways_vary(field.arms, x=field.x), "study"}
    standing = {arm.get(PLACE): arm for arm in field.arms}
    panels: list[Panel] = []
    column, axis = (TIME, "time to target (s)") if _target(field.arms) else ("train_time_s", "training time (s)")
    for part in parts(field.arms, x=field.x):
        keys = tuple(key for key in field.keys if key in part.keys or key not in varying)
        lines = series(replace(part, keys=keys, x=PLACE), column)
        title = joined(field.title, part.title, sep=": ")
        panels.append(Panel(title, Axis(DEVICE_TIME, "log10"), Axis(axis, "log10"), lines, is_scatter=True))
    marks = (mark for panel in panels for mark in panel.marks())
    best = front((mark.x, m.value) for mark in marks if (m := mark.interval) and m.value > 0 and _is_sound(mark))
    turn = knee(best)
    # The arms on the front are named beside their marks; its line belongs to no series and has no colour.
    named = {x: described({field.x: standing[x].get(field.x)}) for x, _ in best}
    dashed = [Series(FRONT, tuple(line_mark(*place) for place in best), Role.IDEAL)] * (len(best) > 1)

    def with_names(curve: Series) -> Series:
        return replace(curve, marks=tuple(replace(mark, name=named.get(mark.x, "")) for mark in curve.marks))

    panels = [replace(panel, series=(*map(with_names, panel.series), *dashed)) for panel in panels]
    where = f" ({field.title})" if field.title else ""
    on_front = [f"{label(standing[x])} ({number(y)} s, {number(x)} {DEVICE_TIME})" for x, y in best]
    notes = [f"{FRONT}{where}, from the fewest {DEVICE_TIME} to the least time: {'; '.join(on_front) or 'no arm'}."]
    if turn:
        why = "which lies farthest below the line between the front's ends, in logarithms scaled to the front"
        notes.append(f"Its knee: {label(standing[turn[0]])}, {why}.")
    return panels, len(best), notes
