"""Throughput against workers, with the ideal line through the measured single worker."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.groups import ALONE, described, groups, is_alone
from dlbench.plugins import Options
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis, Chart, Panel, Role, Series, hued, line_mark
from dlbench.report.figures._scaling import WORKERS, equal_settings, is_emulated, meanings, reasons, scaled
from dlbench.report.figures._shown import (
    RATE,
    RATE_AXIS,
    in_chart,
    left_out_note,
    listed_titles,
    needs_two,
    num_known,
    rate_note,
    with_rate,
)
from dlbench.report.lines import Part, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 30
# What an ideal line goes through.
BASE_LINE, OWN, NOTHING = "base line", "own", "nothing"


@dataclass(frozen=True, eq=False)
class Ideal:
    """The ideal lines of the real or of the emulated runs of one panel.

    Attributes:
        emulated: Whether these are the emulated runs.
        through: Runs of one worker alone, each series' own single worker, or nothing.
        lines: One, or one for each series.
        single: The runs that they go through.
    """

    emulated: bool
    through: str
    lines: tuple[Series, ...]
    single: "pd.DataFrame"


def chart(data: "ReportData") -> Chart:
    """Return samples/s against workers on logarithmic axes, weak and strong scaling in panels apart.

    Raises:
        MissingRowsError: No completed runs at two numbers of workers with samples/s are equal in all else.
    """
    import pandas as pd

    known = with_rate(data.completed)
    parts = [(part, list(_ideals(part, known[is_alone(known)]))) for part in scaled(data.runs)]
    made = [(part, ideals, _panel(part, ideals)) for part, ideals in parts]
    kept = [(part, ideals, panel) for part, ideals, panel in made if num_known(panel) > 1]
    if not kept:
        counts = sorted(known["workers"].dropna().unique().tolist())
        raise needs_two("completed runs with samples/s at two or more numbers of workers", counts)
    runs = pd.concat([part.runs for part, _, _ in kept])
    single = [ideal.single for _, ideals, _ in kept for ideal in ideals if len(ideal.single)]
    titles = [part.title for part, _, panel in made if num_known(panel) < 2]
    return Chart(
        title="Throughput by number of workers",
        panels=hued(tuple(panel for _, _, panel in kept)),
        columns=min(3, len(kept)),
        notes=(
            *meanings(runs),
            *_ideal_notes([(part.title, ideal) for part, ideals, _ in kept for ideal in ideals]),
            *rate_note(runs),
            *left_out_note(titles, "with one number of workers only"),
        ),
        runs=in_chart(pd.concat([runs, *single]), [RATE]),
    )


def _panel(part: Part, ideals: Sequence[Ideal]) -> Panel:
    lines = [line for ideal in ideals for line in ideal.lines]
    return Panel(part.title, WORKERS, Axis(RATE_AXIS.label, "log10"), (*series(part, "workers", RATE), *lines))


def _ideals(part: Part, alone: "pd.DataFrame") -> Iterator[Ideal]:
    """Yield what real runs of several workers could reach at best, then the same of emulated ones.

    Args:
        part: The runs of one panel.
        alone: All completed runs of one worker alone that have a rate.
    """
    rows = part.runs[(part.runs["status"] == Status.COMPLETED) & part.runs[RATE].notna() & ~is_alone(part.runs)]
    for emulated in (False, True):
        alike = rows[is_emulated(rows) == emulated]
        if len(alike):
            single = equals(alone[is_emulated(alone) == emulated], alike)
            if len(single):
                yield Ideal(emulated, BASE_LINE, (_line(f"ideal: {ALONE} x workers", single, alike),), single)
            else:
                yield _through_own(emulated, part.keys, alike)


def equals(alone: "pd.DataFrame", rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the single workers of the same study that are a base line of each of the rows (`analysis.arms.EQUAL`)."""
    found = alone[alone["study"].isin(rows["study"])]
    for key in equal_settings(rows):
        values = rows[key].dropna().unique().tolist()
        if len(values) > 1:
            return alone.iloc[:0]
        found = found[(found[key] == values[0]).fillna(False).astype(bool)] if values else found[found[key].isna()]
    return found


def _through_own(emulated: bool, keys: Sequence[str], rows: "pd.DataFrame") -> Ideal:
    """Return a line through each series' own single worker, which has a communication library and no peer."""
    first = rows[(rows["workers"] == 1).fillna(False).astype(bool)]
    lines = []
    for values, alike in groups(rows, keys):
        if len(own := first[first.index.isin(alike.index)]):
            lines.append(_line(f"ideal: 1 worker{_of(values)} x workers", own, alike))
    return Ideal(emulated, OWN if lines else NOTHING, tuple(lines), first)


def _of(values: Mapping[str, object]) -> str:
    return f" of {text}" if (text := described(values)) else ""


def _line(label: str, single: "pd.DataFrame", rows: "pd.DataFrame") -> Series:
    """Return a straight line through the median of single workers, from one worker as far as the rows go."""
    rate = median(single[RATE].astype("float64").tolist())
    places = sorted({1.0, *map(float, rows["workers"].dropna().tolist())})
    marks = tuple(line_mark(x, rate * x, len(single)) for x in places)
    return Series(label, marks, Role.IDEAL, reasons(single))


def _ideal_notes(ideals: Sequence[tuple[str, Ideal]]) -> Iterator[str]:
    titles = {
        kind: [_called(title, ideal) for title, ideal in ideals if ideal.through == kind]
        for kind in (BASE_LINE, OWN, NOTHING)
    }
    if titles[BASE_LINE]:
        yield "The ideal line is the measured median of one worker alone, without any communication library, x workers."
    if titles[OWN]:
        yield (
            f"No run of one worker alone is the equal of the arms of {listed_titles(titles[OWN])}: there the ideal "
            "line goes through the strategy's own single worker."
        )
    if titles[NOTHING]:
        yield f"No ideal line where no single worker was measured: {listed_titles(titles[NOTHING])}."


def _called(title: str, ideal: Ideal) -> str:
    """Return a panel's title, and that only its emulated runs are meant where it is so."""
    return ", ".join(filter(None, (title, "emulated runs"))) if ideal.emulated else title
