"""Published numbers beside what was measured here, as they are and relative to the first place."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.plugins import Options
from dlbench.records.columns import TABLES
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, hued
from dlbench.report.figures._rows import batch_axis, identities, learned
from dlbench.scenario.claims import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData
    from dlbench.report.references import ReferenceComparison
    from dlbench.scenario.reference import Reference

OPTIONS = Options
ORDER = 5
AXES = {
    "workers": Axis("workers", "log2"),
    "batch_size_per_worker": Axis("batch size of one worker (samples)", "log2"),
    "batch_size_global": Axis("batch size of all workers (samples)", "log2"),
}
# Columns that mean nothing where a run trained on random numbers.
SCORES = ("loss", "accuracy")
_UNITS = {column.name: column.unit for column in TABLES["runs"]}


def chart(data: "ReportData") -> Chart:
    """Return for each column of each reference the published and the measured curves, as they are and relative.

    Raises:
        MissingRowsError: No study has a reference, or no completed run has a column of it.
        UserError: A `reference.csv` is not of the form.
    """
    from dlbench.report.references import compared

    found = compared(data)
    if not found:
        raise MissingRowsError("needs a study whose scenario names published numbers (`reference: NAME`)")
    rows = [row for one in found for row in _rows(one, data)]
    if not rows:
        columns = ", ".join(dict.fromkeys(column for one in found for column in one.reference.columns))
        raise MissingRowsError(f"needs completed runs with what its reference holds: {columns}")
    width = max(map(len, rows))
    return Chart(
        title=f"Published and measured: {'; '.join(one.reference.source for one in found)}",
        panels=hued(tuple(panel for row in rows for panel in _filled(row, width))),
        columns=width,
        notes=tuple(note for one in found for note in _notes(one.reference)),
        runs=identities(data.runs[data.runs["study"].isin([name for one in found for name in one.studies])]),
    )


def _rows(one: "ReferenceComparison", data: "ReportData") -> "Iterator[tuple[Panel, ...]]":
    """Yield a row of panels for each part of the runs and each column: as they are, then relative."""
    from dlbench.analysis.groups import is_base_line
    from dlbench.report.lines import parts, series

    runs = data.runs[data.runs["study"].isin(one.studies)]
    own = runs[~is_base_line(runs)]
    for column in one.reference.columns:
        chosen = learned(own) if column.endswith(SCORES) else own
        if not chosen[column].notna().any():
            continue
        for part in parts(chosen, x=one.reference.x):
            made = series(part, one.reference.x, column)
            if any(mark.points for curve in made for mark in curve.marks):
                title = ": ".join(filter(None, (part.title, COLUMNS[column])))
                axis = _place_axis(one.reference, part.runs)
                yield _row(Panel(title, axis, _axis(column), made), column, one.reference)


def _row(measured: Panel, column: str, known: "Reference") -> tuple[Panel, ...]:
    """Return the panels of one column: published and measured in one where they can share it, and relative ones."""
    from dlbench.report.references import are_near, published, relative_panel, titled

    theirs = published(known, column)
    last = relative_panel(measured, theirs, known.x)
    relative = () if last is None else (last,)
    if not theirs or are_near(measured.series, theirs):
        return (replace(measured, series=(*measured.series, *theirs)), *relative)
    apart = replace(measured, title=titled(measured.title, "as published"), series=theirs)
    return (apart, replace(measured, title=titled(measured.title, "measured")), *relative)


def _filled(row: tuple[Panel, ...], width: int) -> tuple[Panel, ...]:
    """Return a row as wide as the widest: where both kinds share a panel, the published one is also shown alone."""
    both, *others = row
    theirs = tuple(one for one in both.series if one.role is Role.PUBLISHED)
    if len(row) == width or not theirs or len(theirs) == len(both.series):
        return row
    return (replace(both, title=f"{both.title}: as published", series=theirs), both, *others)


def _place_axis(known: "Reference", runs: "pd.DataFrame") -> Axis:
    return AXES.get(known.x) or batch_axis(runs)


def _axis(column: str) -> Axis:
    """Return the axis of a column: of what is a cost or a rate from 0, of scores about what there is."""
    unit = f" ({_UNITS[column]})" if _UNITS[column] else ""
    return Axis(f"{COLUMNS[column]}{unit}", low=None if column.endswith(SCORES) else 0.0)


def _notes(known: "Reference") -> Iterator[str]:
    """Say what the published numbers are, and what they can be compared for."""
    told = ", ".join(filter(None, (known.about, f"on {known.hardware}" if known.hardware else "")))
    yield f"Published: {known.source}{f' ({told})' if told else ''}, as the authors give it."
    yield "Hardware differs: shapes can be compared, times cannot."
    yield from (f"{note.rstrip('.')}." for note in known.notes)
