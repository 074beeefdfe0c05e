"""Published numbers beside what was measured here, as they are, and times relative to one place of each line."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.plugins import Options
from dlbench.records.columns import TABLES
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Series
from dlbench.report.figures._places import spread
from dlbench.report.figures._rows import batch_axis, identities, learned, sees_unequally
from dlbench.scenario.claims import COLUMNS, PLACES

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData
    from dlbench.report.references import ReferenceComparison
    from dlbench.scenario.reference import Reference

OPTIONS = Options
ORDER = 35
AXES = {
    "workers": Axis("workers", "log2"),
    "batch_size_per_worker": Axis("batch size of one worker (samples)", "log2"),
    "batch_size_global": Axis("batch size of all workers (samples)", "log2"),
    "servers": Axis("servers", "log2"),
}
SEEN = Axis("samples seen", low=0.0)
# Columns that mean nothing where a run trained on random numbers.
SCORES = ("loss", "accuracy")
_UNITS = {column.name: column.unit for column in TABLES["runs"]}


def chart(data: "ReportData") -> Chart:
    """Return for each column of each reference the published and the measured curves, and times relative as well.

    Raises:
        MissingRowsError: No study has a reference, or no completed run has a column of it.
        UserError: A `reference.csv` is not of the form.
    """
    from dlbench.report.references import compared

    found = compared(data)
    if not found:
        raise MissingRowsError("needs a study whose scenario names published numbers (`reference: NAME`)")
    panels = [panel for one in found for panel in _panels(one, data)]
    if not panels:
        columns = ", ".join(dict.fromkeys(column for one in found for column in one.reference.shown))
        raise MissingRowsError(f"needs completed runs with what its reference holds: {columns}")
    has_numbers = any(one.reference.rows for one in found)
    what = "Published and measured" if has_numbers else "Measured, of what was published"
    return Chart(
        title=f"{what}: {'; '.join(one.reference.source for one in found)}",
        panels=tuple(panels),
        columns=len(panels) if len(panels) < 4 else 2,
        lead="Published on other hardware: shapes can be compared, times cannot." if has_numbers else "",
        notes=tuple(note for one in found for note in _notes(one.reference)),
        runs=identities(data.runs[data.runs["study"].isin([name for one in found for name in one.studies])]),
    )


def _panels(one: "ReferenceComparison", data: "ReportData") -> "Iterator[Panel]":
    """Yield the panels of each column and part of the runs, then the samples seen where arms saw different amounts."""
    from dlbench.analysis.groups import is_base_line
    from dlbench.report.lines import brief_keys, parts, series

    runs = data.runs[data.runs["study"].isin(one.studies)]
    own, x = runs[~is_base_line(runs)], one.reference.x
    for column in one.reference.shown:
        chosen = learned(own) if column.endswith(SCORES) else own
        for part in parts(chosen, x=x) if chosen[column].notna().any() else ():
            made = series(brief_keys(part, x), x, column)
            if any(mark.points for curve in made for mark in curve.marks):
                title = ": ".join(filter(None, (part.title, COLUMNS[column])))
                yield from _of_column(Panel(title, _place_axis(one.reference, part.runs), SEEN, made), column, one)
    for part in parts(own, x=x) if sees_unequally(own) else ():
        title = ": ".join(filter(None, (part.title, "samples seen")))
        made = series(brief_keys(part, x), x, "samples_seen")
        yield Panel(title, _place_axis(one.reference, part.runs), SEEN, made)


def _of_column(measured: Panel, column: str, one: "ReferenceComparison") -> "Iterator[Panel]":
    """Yield the panel of published and measured curves; of costs and rates also each relative to one of its places."""
    from dlbench.report.references import published, relative_panel

    lines: tuple[Series, ...] = (*measured.series, *published(one.reference, column, measured.series))
    axis = _axis(column)
    is_score = column.endswith(SCORES)
    panel = replace(measured, y=axis if is_score else spread(axis, lines), series=lines)
    yield panel
    relative = None if is_score else relative_panel(panel, one.reference.x)
    if relative is not None:
        yield relative


def _place_axis(known: "Reference", runs: "pd.DataFrame") -> Axis:
    if known.x not in PLACES:  # an option, whose places may be 0
        return Axis(known.x, "log2" if (runs[known.x].astype("float64") > 0).all() else "linear")
    return AXES.get(known.x) or batch_axis(runs)


def _axis(column: str) -> Axis:
    """Return the axis of a column: of what is a cost or a rate from 0, of scores about what there is."""
    unit = f" ({_UNITS[column]})" if _UNITS[column] else ""
    return Axis(f"{COLUMNS[column]}{unit}", low=None if column.endswith(SCORES) else 0.0)


def _notes(known: "Reference") -> Iterator[str]:
    """Say what the published numbers are, and what they can be compared for."""
    told = ", ".join(filter(None, (known.about, f"on {known.hardware}" if known.hardware else "")))
    ending = ", as the authors give it" if known.rows else ": claims, without numbers"
    yield f"Published: {known.source}{f' ({told})' if told else ''}{ending}."
    yield from (f"{note.rstrip('.')}." for note in known.notes)
