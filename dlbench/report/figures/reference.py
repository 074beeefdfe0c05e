"""Published numbers beside what was measured here, as they are, and times relative to one place of each line."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dlbench.analysis.arms import Arm
from dlbench.analysis.formatting import counted, joined
from dlbench.analysis.groups import values_of, without_base_lines
from dlbench.analysis.statistics.intervals import Interval, median_interval, ratio_interval
from dlbench.records.columns import TABLES
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Role, Series
from dlbench.report.data import ReportData
from dlbench.report.figures._places import batch_axis, spread
from dlbench.report.figures._shown import SEEN, in_chart, sees_unequally, with_faults
from dlbench.report.lines import brief_keys, parts, series
from dlbench.scenario.claims import COLUMNS, PLACES
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.scenario.reference import Reference

ORDER = 35
NAMES = {**COLUMNS, SEEN: "samples seen"}
_UNITS = {column.name: column.unit for column in TABLES["runs"]} | {SEEN: ""}


def chart(data: ReportData) -> Chart:
    """Return for each column of each reference the published and the measured curves, and times relative as well.

    Raises:
        MissingRowsError: No study has a reference, or no completed run has a column of it.
        UserError: A `reference.csv` is not of the form.
    """
    references = data.references
    if not references:
        raise MissingRowsError("needs a study whose scenario names published numbers (`reference: NAME`)")
    every = with_faults(data)
    chosen = {reference: [arm for arm in every if arm.study in studies] for reference, studies in references.items()}
    panels = [panel for reference, arms in chosen.items() for panel in _panels(reference, arms)]
    if not panels:
        columns = ", ".join(dict.fromkeys(column for reference in references for column in reference.shown))
        raise MissingRowsError(f"needs completed runs with what its reference holds: {columns}")
    has_numbers = any(reference.rows for reference in references)
    what = "Published and measured" if has_numbers else "Measured, of what was published"
    return Chart(
        title=f"{what}: {'; '.join(reference.source for reference in references)}",
        panels=tuple(panels),
        columns=3 if len(panels) == 3 else 2,
        lead="Published on other hardware: shapes can be compared, times cannot." if has_numbers else "",
        notes=tuple(note for reference in references for note in _notes(reference)),
        runs=in_chart(arm for arms in chosen.values() for arm in arms),
    )


def _panels(reference: Reference, arms: Sequence[Arm]) -> Iterator[Panel]:
    """Yield the panels of each column and part of the arms, then the samples seen where arms saw different amounts.

    Costs and rates are also shown relative to one of their places.
    """
    measured_arms, x = without_base_lines(arms), reference.x
    for column in (*reference.shown, *[SEEN] * sees_unequally(measured_arms)):
        is_score, unit = column in SCORE_COLUMNS, _UNITS[column]
        # What is a cost or a rate is shown from 0, scores about what there is.
        low, most = None if is_score else 0.0, 1.0 if column.endswith("accuracy") else None
        y = Axis(f"{NAMES[column]} ({unit})" if unit else NAMES[column], low=low, most=most)
        for part in parts([arm for arm in measured_arms if arm.scores_mean_something or not is_score], x=x):
            measured = series(brief_keys(part), column)
            if any(mark.points for curve in measured for mark in curve.marks):
                lines = (*measured, *published(reference, column, measured))
                title = joined(part.title, y.name, sep=": ")
                panel = Panel(title, _place_axis(x, part.arms), spread(y, lines), lines)
                yield panel
                if not is_score and (relative_to_base := relative_panel(panel, x)):
                    yield relative_to_base


def _place_axis(x: str, arms: Sequence[Arm]) -> Axis:
    if x == "batch_size":
        return batch_axis(arms)
    label = f"{PLACES[x]} (samples)" if x.startswith("batch_size") else x
    # Places that are an option's may be 0.
    return Axis(label, "log2" if all(place > 0 for place in values_of(arms, x)) else "linear")


def published(reference: Reference, column: str, measured: Sequence[Series] = ()) -> tuple[Series, ...]:
    """Return the published curves of a column, one for each series that has any value.

    Each has the colour of the first of the `measured` ones that bears its name, such as scale-up.
    """
    curves = []
    for name in reference.names:
        curve = reference.curve(column, name)
        if marks := tuple(Mark(x, values if len(values) > 1 else (), median_interval(values)) for x, values in curve):
            namesakes = [line.label for line in measured if name and name in line.label.split(", ")]
            curves.append(Series(joined(reference.source, name), marks, Role.PUBLISHED, like=(*namesakes, "")[0]))
    return tuple(curves)


def relative_panel(panel: Panel, x: str) -> Panel | None:
    """Return a panel in which each measured and published curve is divided by its own median at one place.

    That is the first place at which all published curves and a measured one have a value. Curves without a value
    there or with no other one, base lines and ideals are left out; None without such a place or a published curve.

    Args:
        panel: The measured and the published curves.
        x: What the places are called.
    """
    ours, theirs = ([curve for curve in panel.series if curve.role is role] for role in (Role.MEASURED, Role.PUBLISHED))
    shared = set.intersection(*map(_valued_places, theirs)) if theirs else set()
    base = min(shared & set().union(*map(_valued_places, ours)), default=None)
    if base is None:
        return None
    curves = (relative(curve, base) for curve in (*ours, *theirs) if len(_valued_places(curve)) > 1)
    shown = tuple(filter(None, curves))
    if not any(curve.role is Role.MEASURED for curve in shown):
        return None
    # Such as `at batch size 8`, `at 1 worker`.
    at = f"at {counted(int(base), 'worker')}" if x == "workers" else f"at {PLACES.get(x, x)} {base:g}"
    title = joined(panel.title, f"relative to its own {at}", sep=": ")
    return replace(panel, title=title, y=Axis(f"{panel.y.name} / the line's own {at}", low=0.0), series=shown)


def _valued_places(curve: Series) -> set[float]:
    return {mark.x for mark in curve.marks if mark.interval is not None}


def relative(curve: Series, base: float) -> Series | None:
    """Return a curve divided by its median at `base`; None where that is unknown or not above zero.

    Intervals are those of the ratio of two medians; at the base itself it is 1 by definition and has none.
    """
    first = next((mark for mark in curve.marks if mark.interval is not None and mark.x == base), None)
    if first is None or first.interval is None or not first.interval.value > 0:
        return None
    marks, unit = [], first.interval.value
    for mark in curve.marks:
        points, ended = (tuple(value / unit for value in values) for values in (mark.points, mark.ended))
        interval = mark.interval and Interval(mark.interval.value / unit, None, None, mark.interval.n, None)
        if interval and mark is not first and mark.points and first.points and min(first.points) > 0:
            interval = ratio_interval(mark.points, first.points)
        marks.append(replace(mark, points=points, interval=interval, ended=ended, flags="", name=""))
    return replace(curve, marks=tuple(marks))


def _notes(reference: Reference) -> Iterator[str]:
    """Say what the published numbers are, and what they can be compared for."""
    about = joined(reference.about, reference.hardware and f"on {reference.hardware}")
    ending = ", as the authors give it" if reference.rows else ": claims, without numbers"
    yield f"Published: {reference.source}{f' ({about})' if about else ''}{ending}."
    yield from (f"{note.rstrip('.')}." for note in reference.notes)
