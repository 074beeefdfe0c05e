"""Steady throughput against batch size, and against workers with the ideal line through the measured single worker."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.groups import ALONE, described, groups, is_alone
from dlbench.plugins import Options
from dlbench.records.outcome import Status
from dlbench.report.chart import Chart, Panel, Role, Series, line_mark
from dlbench.report.figures._places import (
    Placed,
    against,
    equal_settings,
    is_emulated,
    meanings,
    placed,
    reasons,
    spread,
)
from dlbench.report.figures._rows import labels
from dlbench.report.figures._shown import (
    RATE,
    RATE_AXIS,
    flagged,
    in_chart,
    left_out_note,
    listed_titles,
    needs_two,
    rate_note,
    select_panels,
    with_rate,
)
from dlbench.report.lines import Part, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 20
# What an ideal line goes through.
BASE_LINE, OWN, NOTHING = "base line", "own", "nothing"


@dataclass(frozen=True, eq=False)
class Ideal:
    """The ideal lines of the real or of the emulated runs of one panel.

    Attributes:
        title: The panel's, and that the emulated runs are meant where it is so.
        through: Runs of one worker alone, each series' own single worker, or nothing.
        lines: One, or one for each series.
    """

    title: str
    through: str
    lines: tuple[Series, ...] = ()


def chart(data: "ReportData") -> Chart:
    """Return steady samples/s by batch size, or by workers on logarithmic axes, weak and strong apart.

    Raises:
        MissingRowsError: No two completed arms with a rate are equal in all but their way, batch size or workers.
    """
    known = with_rate(data.completed)
    alone = known[is_alone(known)]
    candidates, ideals = [], []
    for one in placed(flagged(data.runs), scaling=True):
        own = list(_ideals(one.part, alone)) if one.x == "workers" else []
        candidates.append((one.part, [_panel(one, own)]))
        ideals += own
    arms = list(dict.fromkeys(labels(known)))
    found = select_panels(candidates, needs_two("completed runs of two or more arms with steady samples/s", arms))
    return Chart(
        title=against("Steady throughput", found.panels),
        panels=found.panels,
        columns=min(3 if len(found.panels) != 4 else 2, len(found.panels)),
        notes=(
            "Steady throughput: samples of all workers per second of the timed window.",
            *(meanings(found.runs) if ideals else ()),
            *_ideal_notes(ideals),
            *rate_note(found.runs),
            *left_out_note(found.left_out, "without a second arm"),
        ),
        runs=in_chart(found.runs, [RATE]),
    )


def _panel(one: Placed, ideals: Sequence[Ideal]) -> Panel:
    made = series(one.part, one.x, RATE)
    axis = replace(RATE_AXIS, scale="log10", low=None) if one.x == "workers" else spread(RATE_AXIS, made)
    return Panel(one.part.title, one.axis, axis, (*made, *(line for ideal in ideals for line in ideal.lines)))


def _ideals(part: Part, alone: "pd.DataFrame") -> Iterator[Ideal]:
    """Yield what real runs of several workers could reach at best, then the same of emulated ones.

    Args:
        part: The runs of one panel.
        alone: All completed runs of one worker alone that have a rate.
    """
    rows = part.runs[(part.runs["status"] == Status.COMPLETED) & part.runs[RATE].notna() & ~is_alone(part.runs)]
    for emulated in (False, True):
        alike = rows[is_emulated(rows) == emulated]
        title = ", ".join(filter(None, (part.title, "emulated runs" if emulated else "")))
        if alike["workers"].nunique() and alike["workers"].max() > 1:
            single = equals(alone[is_emulated(alone) == emulated], alike)
            if len(single):
                yield Ideal(title, BASE_LINE, (_line(f"ideal: {ALONE} x workers", single, alike),))
            else:
                yield _through_own(title, part.keys, alike)


def equals(alone: "pd.DataFrame", rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the single workers of the same study that are a base line of each of the rows (`analysis.arms.EQUAL`)."""
    found = alone[alone["study"].isin(rows["study"])]
    for key in equal_settings(rows):
        values = rows[key].dropna().unique().tolist()
        if len(values) > 1:
            return alone.iloc[:0]
        found = found[(found[key] == values[0]).fillna(False).astype(bool)] if values else found[found[key].isna()]
    return found


def _through_own(title: str, keys: Sequence[str], rows: "pd.DataFrame") -> Ideal:
    """Return a line through each series' own single worker, which has a communication library and no peer."""
    first = rows[(rows["workers"] == 1).fillna(False).astype(bool)]
    lines = []
    for values, alike in groups(rows, keys):
        if len(own := first[first.index.isin(alike.index)]):
            lines.append(_line(f"ideal: 1 worker{_of(values)} x workers", own, alike))
    return Ideal(title, OWN if lines else NOTHING, tuple(lines))


def _of(values: Mapping[str, object]) -> str:
    return f" of {text}" if (text := described(values)) else ""


def _line(label: str, single: "pd.DataFrame", rows: "pd.DataFrame") -> Series:
    """Return a straight line through the median of single workers, from one worker as far as the rows go."""
    rate = median(single[RATE].astype("float64").tolist())
    places = sorted({1.0, *map(float, rows["workers"].dropna().tolist())})
    marks = tuple(line_mark(x, rate * x, len(single)) for x in places)
    return Series(label, marks, Role.IDEAL, reasons(single))


def _ideal_notes(ideals: Sequence[Ideal]) -> Iterator[str]:
    titles = {kind: [ideal.title for ideal in ideals if ideal.through == kind] for kind in (BASE_LINE, OWN, NOTHING)}
    if titles[BASE_LINE]:
        yield "The ideal line is the measured median of one worker alone, without any communication library, x workers."
    if titles[OWN]:
        yield (
            f"No run of one worker alone is the equal of the arms of {listed_titles(titles[OWN])}: there the ideal "
            "line goes through the strategy's own single worker."
        )
    if titles[NOTHING]:
        yield f"No ideal line where no single worker was measured: {listed_titles(titles[NOTHING])}."
