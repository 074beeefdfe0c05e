"""Loss and accuracy while training, against epochs, updates and training time."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import counted, listed
from dlbench.analysis.groups import TASK, is_base_line
from dlbench.plugins import Options
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Role, Series
from dlbench.report.figures._curves import NUMBER, Curves, Line, curves, lines
from dlbench.report.figures._rows import identities, synthetic_note
from dlbench.report.figures._shown import listed_titles
from dlbench.report.lines import MOST_SERIES, Part, has_several, parts, ways_vary

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 60
# Axes by column of `epochs.csv`, and what a panel's title calls them.
PLACES = {
    "epoch": (Axis("epoch"), "epochs"),
    "steps": (Axis("update"), "updates"),
    "train_time_s": (Axis("training time (s)"), "time"),
}
VALUES = {
    "train_loss": (Axis("training loss (nats)"), "training loss"),
    "validation_loss": (Axis("validation loss (nats)"), "validation loss"),
    "train_accuracy": (Axis("training accuracy", most=1.0), "training accuracy"),
    "validation_accuracy": (Axis("validation accuracy", most=1.0), "validation accuracy"),
}
# More panels than this cannot be read; arms with the fewest runs are then left out.
MOST_PANELS = 12
# With more marks the points of single runs hide the line.
FEW_MARKS = 12
# Beyond these ratios an axis is logarithmic: of the places where lines end, and of losses.
FAR_APART, FAR_DOWN = 4.0, 10.0


def chart(data: "ReportData") -> Chart:
    """Return learning curves, one line for each batch size, or for each arm where all have the same.

    A line is the median over repeats at each epoch, at the median of their updates or training times. Losses and
    accuracies are the first worker's rows: they are of all workers. Time is the slowest worker's.

    Raises:
        MissingRowsError: No completed run has two epochs with a loss or an accuracy that means something.
    """
    found = curves(data)
    values, places = ([name for name in names if found.epochs[name].notna().any()] for names in (VALUES, PLACES))
    runs, sizes = _few_batch_sizes(found.runs)
    shown, left_out = _first(_parts(runs), found, max(1, MOST_PANELS // max(1, len(places) * len(values))))
    only = shown[0].title if len(shown) == 1 else ""
    drawn = [("" if only else part.title, _with_room(list(lines(part, found)))) for part in shown]
    panels = [panel for title, own in drawn for panel in _panels(title, own, values, places)]
    if not any(map(has_several, panels)):
        raise MissingRowsError("needs completed runs of two or more epochs with a loss or an accuracy in epochs.csv")
    numbers = {number for _, own in drawn for line in own for number in line.numbers}
    in_panels = runs[runs[NUMBER].isin(numbers)]
    has_all = all(part.runs[NUMBER].isin(numbers).all() for part in shown)
    return Chart(
        title=": ".join(filter(None, ("Loss and accuracy while training", only))),
        panels=tuple(_coloured(_without_points(panel), runs) for panel in panels),
        columns=len(places),
        notes=(
            "Lines are medians over repeats at each epoch; training time is the slowest worker's, without evaluations.",
            *_notes(panels, in_panels),
            *_known_once([line for _, own in drawn for line in own], values),
            *_absent(sizes, left_out),
            *(() if has_all else (f"Base lines are left out where a panel would have more than {MOST_SERIES} lines.",)),
            *synthetic_note(data.runs),
        ),
        runs=identities(in_panels),
    )


def _few_batch_sizes(runs: "pd.DataFrame") -> "tuple[pd.DataFrame, tuple[int, ...]]":
    """Return the runs of as many batch sizes as a panel can hold, evenly chosen, and those batch sizes if not all."""
    sizes = sorted(runs["batch_size"].dropna().unique().tolist())
    if len(sizes) <= MOST_SERIES or "batch_size" not in ways_vary(runs):
        return runs, ()
    chosen = [sizes[round(number * (len(sizes) - 1) / (MOST_SERIES - 1))] for number in range(MOST_SERIES)]
    return runs[runs["batch_size"].isin(chosen)], tuple(chosen)


def _parts(runs: "pd.DataFrame") -> list[Part]:
    """Return what shares a row of panels: where batch sizes vary, runs that differ in these alone."""
    keys = ways_vary(runs)
    return parts(runs, x="", always=[key for key in keys if key != "batch_size"] if "batch_size" in keys else TASK)


def _first(candidates: list[Part], found: Curves, most: int) -> tuple[list[Part], list[str]]:
    """Return the parts with the most completed runs, then with the most workers, and the titles of the others."""
    with_curves = [part for part in candidates if part.runs[NUMBER].isin(found.epochs[NUMBER]).any()]

    def rank(part: Part) -> tuple[int, float]:
        own = part.runs[~is_base_line(part.runs)]
        return int((own["status"] == Status.COMPLETED).sum()), float(own["workers"].fillna(0).max())

    kept = {id(part) for part in sorted(with_curves, key=rank, reverse=True)[:most]}
    shown = [part for part in with_curves if id(part) in kept]
    return shown, [part.title for part in candidates if id(part) not in kept]


def _panels(part: str, shown: list[Line], values: Sequence[str], places: Sequence[str]) -> Iterator[Panel]:
    """Yield the panels of a part: a row for each value, with the same lines against each kind of place."""
    at = {column: [line.places(column) for line in shown] for column in places}
    for value in values:
        y, name = VALUES[value]
        made = [line.of(value) for line in shown]
        if max((len(one.marks) for one in made), default=0) < 2:
            continue  # the accuracy chart has what is known at one epoch alone
        for column in places:
            x, against = PLACES[column]
            moved = [_moved(one, places_of) for one, places_of in zip(made, at[column], strict=True)]
            title = ": ".join(filter(None, (part, f"{name} by {against}")))
            lines_of_panel = tuple(one for one in moved if one.marks)
            yield Panel(title, _along(x, moved), _up(y, value, moved), lines_of_panel, is_exact=True)


def _along(axis: Axis, shown: Sequence[Series]) -> Axis:
    """Return the axis, logarithmic where some lines end so early that they would be a stroke on a linear one."""
    ends = [one.marks[-1].x for one in shown if one.marks]
    return replace(axis, scale="log10") if ends and max(ends) > FAR_APART * min(ends) > 0 else axis


def _up(axis: Axis, value: str, shown: Sequence[Series]) -> Axis:
    """Return the axis, logarithmic for losses that fall so far that their ends would coincide."""
    medians = [mark.interval.value for one in shown for mark in one.marks if mark.interval]
    is_far = value.endswith("loss") and bool(medians) and max(medians) > FAR_DOWN * min(medians) > 0
    return replace(axis, scale="log10") if is_far else axis


def _with_room(found: list[Line]) -> list[Line]:
    """Return the lines, without base lines where the panel has no room for them."""
    own = [line for line in found if line.series.role is not Role.BASE_LINE]
    return found if len(found) <= MOST_SERIES or not own else own


def _moved(one: Series, places: Mapping[float, float]) -> Series:
    """Return a line by epoch as a line by another place, without the epochs whose place is unknown."""
    marks = [replace(mark, x=places[mark.x]) for mark in one.marks if not math.isnan(places.get(mark.x, math.nan))]
    return replace(one, marks=tuple(sorted(marks, key=lambda mark: mark.x)))


def _coloured(panel: Panel, runs: "pd.DataFrame") -> Panel:
    """Return the panel with colours for batch sizes or numbers of workers, where its lines stand for these."""
    sizes = bool({"batch_size", "workers"}.intersection(ways_vary(runs)))
    return replace(panel, series=tuple(replace(one, palette="sizes") for one in panel.series)) if sizes else panel


def _without_points(panel: Panel) -> Panel:
    """Return a panel whose long lines have no points of single runs."""
    return replace(
        panel,
        series=tuple(
            one
            if len(one.marks) <= FEW_MARKS
            else replace(one, marks=tuple(replace(mark, points=(), runs=()) for mark in one.marks))
            for one in panel.series
        ),
    )


def _notes(panels: Sequence[Panel], runs: "pd.DataFrame") -> Iterator[str]:
    longest = max((len(one.marks) for panel in panels for one in panel.series), default=0)
    if longest > FEW_MARKS:
        yield f"Where a line has more than {FEW_MARKS} marks, points of single runs are left out; bars are intervals."
    if failed := int((runs["status"] != Status.COMPLETED).sum()):
        yield f"{counted(failed, 'run')} that did not complete {'has' if failed == 1 else 'have'} no line."
    if runs["target_stop"].fillna(False).any():
        yield "Runs ended as soon as they reached their target: the end of a line stands for fewer of them."


def _known_once(shown: Sequence[Line], values: Sequence[str]) -> Iterator[str]:
    once = [VALUES[value][1] for value in values if max((len(line.of(value).marks) for line in shown), default=0) == 1]
    if once:
        yield f"Left out, known at one epoch alone: {listed(once)}."


def _absent(sizes: Sequence[int], left_out: Sequence[str]) -> Iterator[str]:
    if sizes:
        yield f"Of all batch sizes {len(sizes)} are shown: {listed(map(str, sizes), len(sizes))}."
    if left_out:
        yield f"Left out, without curves or beyond the number of panels: {listed_titles(left_out)}."
