"""What throughput and efficiency are compared with: ideal lines through measured single workers, and base lines."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, efficiencies, equal_columns
from dlbench.analysis.formatting import listed
from dlbench.analysis.groups import ALONE, described, groups, is_alone
from dlbench.analysis.statistics.intervals import Interval
from dlbench.report.chart import Mark, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._places import Placed, is_emulated, meanings, reasons
from dlbench.report.figures._rows import is_completed, labels
from dlbench.report.figures._shown import RATE, flagged, rate_note, with_rate
from dlbench.report.lines import series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

# Of a run: its efficiency, and the number of its arm, both NaN where it has none.
EFFICIENCY, ARM = "efficiency", "arm_number"
WHOLE = "as fast as one worker alone"
DEFINITION = (
    "Efficiency is steady samples/s of one of the workers over those of one worker alone at the same batch size; "
    "the interval is Welch's, of logarithms."
)


def rows_with_rate(data: "ReportData") -> "pd.DataFrame":
    """Return the runs with the flags of their rates.

    Raises:
        MissingRowsError: None has a rate.
    """
    with_rate(data.completed)
    return flagged(data.runs)


def ideals(data: "ReportData", one: Placed, panel: Panel) -> tuple[list[Series], list[str]]:
    """Return what real runs of several workers could reach at best, then the same of emulated ones, with notes."""
    if one.x != "workers":
        return [], []
    rows = one.part.runs[is_completed(one.part.runs) & one.part.runs[RATE].notna() & ~is_alone(one.part.runs)]
    alone = data.completed[is_alone(data.completed) & data.completed[RATE].notna()]
    lines: list[Series] = []
    notes = list(meanings(one.part.runs))
    for emulated in (False, True):
        alike = rows[is_emulated(rows) == emulated]
        if not alike["workers"].nunique() or alike["workers"].max() <= 1:
            continue
        where = ", ".join(filter(None, (panel.title, "emulated runs" if emulated else ""))) or "this chart"
        single = _equals(alone[is_emulated(alone) == emulated], alike)
        own = [] if len(single) else list(_through_own(one.part.keys, alike))
        lines += [_line(f"ideal: {ALONE} x workers", single, alike)] if len(single) else own
        if len(single):
            notes.append(
                "The ideal line is the measured median of one worker alone, without any communication library, "
                "x workers."
            )
        elif own:
            notes.append(
                f"No run of one worker alone is the equal of the arms of {where}: there the ideal line goes through "
                "the strategy's own single worker."
            )
        else:
            notes.append(f"No ideal line where no single worker was measured: {where}.")
    return lines, notes


def _equals(alone: "pd.DataFrame", rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the single workers of the same study that are a base line of each of the rows (`analysis.arms.EQUAL`)."""
    found = alone[alone["study"].isin(rows["study"])]
    for key in equal_columns(rows.columns):
        values = rows[key].dropna().unique().tolist()
        if len(values) > 1:
            return alone.iloc[:0]
        found = found[(found[key] == values[0]).fillna(False).astype(bool)] if values else found[found[key].isna()]
    return found


def _through_own(keys: Sequence[str], rows: "pd.DataFrame") -> Iterator[Series]:
    """Yield a line through each series' own single worker, which has a communication library and no peer."""
    first = rows[(rows["workers"] == 1).fillna(False).astype(bool)]
    for values, alike in groups(rows, keys):
        if len(own := first[first.index.isin(alike.index)]):
            of = f" of {text}" if (text := described(values)) else ""
            yield _line(f"ideal: 1 worker{of} x workers", own, alike)


def _line(label: str, single: "pd.DataFrame", rows: "pd.DataFrame") -> Series:
    """Return a straight line through the median of single workers, from one worker as far as the rows go."""
    rate = median(single[RATE].astype("float64").tolist())
    places = sorted({1.0, *map(float, rows["workers"].dropna().tolist())})
    marks = tuple(line_mark(x, rate * x, len(single)) for x in places)
    return Series(label, marks, Role.IDEAL, reasons(single))


def rows_with_efficiency(data: "ReportData") -> "pd.DataFrame":
    """Return the runs with their efficiency and the number of their arm among those that have one.

    Raises:
        MissingRowsError: No run has a rate, or no arm a base line that is its equal.
    """
    import pandas as pd

    runs = rows_with_rate(data)
    places = {name: float(place) for place, name in enumerate(_arms(data))}
    names = zip(runs["study"], runs["arm"], strict=True)
    place = pd.Series([places.get((str(study), str(arm))) for study, arm in names], index=runs.index, dtype="float64")
    value = efficiencies(runs).where(place.notna())
    found = runs.assign(**{EFFICIENCY: value, ARM: place.where(value.notna())})[~is_alone(runs)]
    if found[EFFICIENCY].isna().all():
        raise MissingRowsError(
            "needs completed runs with steady samples/s of one worker alone (`strategy: single` or `baseline: auto`) "
            "that are equal to other arms in model, data, batch size, cores and precision, and as real or emulated"
        )
    return found


def _arms(data: "ReportData") -> dict[tuple[str, str], Arm]:
    """Return the arms that have an efficiency, by study and name; a base line counts in its own study only."""
    return {(study, arm.name): arm for study, found in data.arms.items() for arm in found if arm.efficiency is not None}


def efficiency_series(data: "ReportData", one: Placed, column: str) -> tuple[Series, ...]:
    """Return efficiencies with the intervals of `dlbench.analysis.arms.Arm.efficiency`."""
    arms = list(_arms(data).values())
    numbered = series(one.part, one.x, ARM)
    which = {(line.label, line.emulated, mark.x): set(mark.points) for line in numbered for mark in line.marks}
    return tuple(
        replace(
            line,
            marks=tuple(_judged(mark, which.get((line.label, line.emulated, mark.x)), arms) for mark in line.marks),
        )
        for line in series(one.part, one.x, column)
    )


def _judged(mark: Mark, places: set[float] | None, arms: Sequence[Arm]) -> Mark:
    """Return the mark with its arm's interval; of several arms at one place, only the median of all is known."""
    if not mark.points or not places:
        return mark
    if len(places) == 1:
        return replace(mark, interval=arms[int(next(iter(places)))].efficiency)
    return replace(mark, interval=Interval(median(mark.points), None, None, len(mark.points), None))


def whole(_: "ReportData", one: Placed, panel: Panel) -> tuple[list[Series], Iterable[str]]:
    """Return the line at 100 %."""
    places = sorted({mark.x for line in panel.series for mark in line.marks})
    return [Series(WHOLE, tuple(line_mark(x, 1.0) for x in places), Role.IDEAL)], (
        meanings(one.part.runs) if one.x == "workers" else ()
    )


def efficiency_notes(data: "ReportData", _: "pd.DataFrame") -> Iterator[str]:
    """Define efficiency, and name the arms that have a rate and nothing to compare it with."""
    yield DEFINITION
    arms = _arms(data)
    rows = data.completed[data.completed[RATE].notna() & ~is_alone(data.completed)]
    named = zip(rows["study"], rows["arm"], labels(rows), strict=True)
    without = dict.fromkeys(label for study, arm, label in named if (str(study), str(arm)) not in arms)
    if without:
        yield f"No efficiency, for lack of a base line with equal settings: {listed(without)}."
    yield from rate_note(data.runs)
