"""Published numbers beside what was measured here, as they are, and times relative to one place of each line."""

from collections.abc import Iterator, Sequence

from dlbench.analysis.arms import Arm
from dlbench.analysis.groups import values_of, without_base_lines
from dlbench.records.columns import TABLES
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.data import ReportData
from dlbench.report.figures._places import batch_axis, spread
from dlbench.report.figures._shown import SEEN, in_chart, sees_unequally
from dlbench.report.lines import brief_keys, parts, series
from dlbench.report.references import compared, published, relative_panel
from dlbench.scenario.claims import COLUMNS, PLACES
from dlbench.scenario.metrics import SCORE_COLUMNS
from dlbench.scenario.reference import Reference

ORDER = 35
NAMES = {**COLUMNS, SEEN: "samples seen"}
_UNITS = {column.name: column.unit for column in TABLES["runs"]}


def chart(data: ReportData) -> Chart:
    """Return for each column of each reference the published and the measured curves, and times relative as well.

    Raises:
        MissingRowsError: No study has a reference, or no completed run has a column of it.
        UserError: A `reference.csv` is not of the form.
    """
    by_reference = compared(data)
    if not by_reference:
        raise MissingRowsError("needs a study whose scenario names published numbers (`reference: NAME`)")
    chosen = {
        reference: [arm for arm in data.arms if arm.study in studies] for reference, studies in by_reference.items()
    }
    panels = [panel for reference, arms in chosen.items() for panel in _panels(reference, arms)]
    if not panels:
        columns = ", ".join(dict.fromkeys(column for reference in by_reference for column in reference.shown))
        raise MissingRowsError(f"needs completed runs with what its reference holds: {columns}")
    has_numbers = any(reference.rows for reference in by_reference)
    what = "Published and measured" if has_numbers else "Measured, of what was published"
    return Chart(
        title=f"{what}: {'; '.join(reference.source for reference in by_reference)}",
        panels=tuple(panels),
        columns=3 if len(panels) == 3 else 2,
        lead="Published on other hardware: shapes can be compared, times cannot." if has_numbers else "",
        notes=tuple(note for reference in by_reference for note in _notes(reference)),
        runs=in_chart(arm for arms in chosen.values() for arm in arms),
    )


def _panels(known: Reference, arms: Sequence[Arm]) -> Iterator[Panel]:
    """Yield the panels of each column and part of the arms, then the samples seen where arms saw different amounts.

    Costs and rates are also shown relative to one of their places.
    """
    measured_arms, x = without_base_lines(arms), known.x
    for column in (*known.shown, *[SEEN] * sees_unequally(measured_arms)):
        is_score = column in SCORE_COLUMNS
        chosen = [arm for arm in measured_arms if arm.scores_mean_something or not is_score]
        for part in parts(chosen, x=x):
            measured = series(brief_keys(part), column)
            if any(mark.points for curve in measured for mark in curve.marks):
                lines = (*measured, *published(known, column, measured))
                y = _axis(column)
                title = ": ".join(filter(None, (part.title, y.label.partition(" (")[0])))
                panel = Panel(title, _place_axis(known, part.arms), spread(y, lines), lines)
                yield panel
                if not is_score and (relative := relative_panel(panel, x)):
                    yield relative


def _place_axis(known: Reference, arms: Sequence[Arm]) -> Axis:
    if known.x == "batch_size":
        return batch_axis(arms)
    label = f"{PLACES[known.x]} (samples)" if known.x.startswith("batch_size") else known.x
    # Places that are an option's may be 0.
    return Axis(label, "log2" if all(place > 0 for place in values_of(arms, known.x)) else "linear")


def _axis(column: str) -> Axis:
    """Return the axis of a column: of what is a cost or a rate from 0, of scores about what there is."""
    unit = f" ({_UNITS[column]})" if _UNITS[column] and column != SEEN else ""
    return Axis(f"{NAMES[column]}{unit}", low=None if column in SCORE_COLUMNS else 0.0)


def _notes(known: Reference) -> Iterator[str]:
    """Say what the published numbers are, and what they can be compared for."""
    told = ", ".join(filter(None, (known.about, f"on {known.hardware}" if known.hardware else "")))
    ending = ", as the authors give it" if known.rows else ": claims, without numbers"
    yield f"Published: {known.source}{f' ({told})' if told else ''}{ending}."
    yield from (f"{note.rstrip('.')}." for note in known.notes)
