"""Steady throughput of each way to train at each batch size or number of workers, as a map."""

from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.analysis.groups import is_alone
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Panel, Role
from dlbench.report.figures._places import Placed, against, placed
from dlbench.report.figures._rows import is_completed
from dlbench.report.figures._shown import (
    RATE,
    RATE_AXIS,
    flagged,
    in_chart,
    left_out_note,
    needs_two,
    rate_note,
    with_rate,
)
from dlbench.report.formatting import tick
from dlbench.report.lines import series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 90


def chart(data: "ReportData") -> Chart:
    """Return median steady samples/s by way to train (rows) and batch size or workers (columns).

    Raises:
        MissingRowsError: No completed runs of two strategies with steady samples/s are equal in all else.
    """
    import pandas as pd

    known = with_rate(data.completed)
    places = list(placed(flagged(data.runs), scaling=True))
    kept = [one for one in places if _num_strategies(one.part.runs) > 1]
    if not kept:
        names = dict.fromkeys(known[~is_alone(known)]["strategy"].dropna()) or dict.fromkeys(known["strategy"].dropna())
        raise needs_two("completed runs with steady samples/s of two or more strategies", names)
    runs = pd.concat([one.part.runs for one in kept])
    panels = tuple(map(_panel, kept))
    return Chart(
        title=against("Steady throughput of each way", panels),
        panels=panels,
        columns=min(2, len(kept)),
        notes=(
            *rate_note(runs),
            *left_out_note([one.part.title for one in places if one not in kept], "with one strategy only"),
        ),
        runs=in_chart(runs, [RATE]),
    )


def _num_strategies(runs: "pd.DataFrame") -> int:
    """Return how many strategies have a completed run with a rate; one worker alone does not synchronise."""
    known = runs[is_completed(runs) & runs[RATE].notna() & ~is_alone(runs)]
    return int(known["strategy"].nunique())


def _panel(one: Placed) -> Panel:
    made = series(one.part, one.x, RATE)
    places = sorted({mark.x for line in made for mark in line.marks})
    columns = {place: float(number) for number, place in enumerate(places)}
    # The base line is what the others are compared with: first.
    rows = sorted(made, key=lambda line: line.role is not Role.BASE_LINE)
    return Panel(
        one.part.title,
        Axis(one.axis.label, categories=tuple(map(tick, places))),
        Axis(RATE_AXIS.label),
        tuple(replace(line, marks=tuple(replace(mark, x=columns[mark.x]) for mark in line.marks)) for line in rows),
        form="cells",
    )
