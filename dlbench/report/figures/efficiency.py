"""Efficiency: the steady throughput of one of the workers over that of one worker alone."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, efficiencies
from dlbench.analysis.formatting import listed
from dlbench.analysis.groups import is_alone
from dlbench.analysis.statistics.intervals import Interval
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Role, Series, line_mark
from dlbench.report.figures._places import Placed, against, meanings, placed
from dlbench.report.figures._rows import labels
from dlbench.report.figures._shown import RATE, flagged, in_chart, rate_note, with_rate
from dlbench.report.lines import series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 30
# Of a run: its efficiency, and the number of its arm, both NaN where it has none.
EFFICIENCY, ARM = "efficiency", "arm_number"
# An axis of 0 to 110 %; what lies higher makes it longer.
AXIS = Axis("steady samples/s of a worker / one worker alone", low=0.0, high=1.1, percent=True)
WHOLE = "as fast as one worker alone"
DEFINITION = (
    "Efficiency is steady samples/s of one of the workers over those of one worker alone at the same batch size; "
    "the interval is Welch's, of logarithms."
)


def chart(data: "ReportData") -> Chart:
    """Return efficiency from 0 to 110 % against batch size, or against workers, weak and strong scaling apart.

    Median and interval are `dlbench.analysis.arms.Arm.efficiency`; a point is the rate of one run's workers over the
    median of its base line.

    Raises:
        MissingRowsError: No arm has a base line that is its equal, both with steady samples/s.
    """
    import pandas as pd

    with_rate(data.completed)
    found = _arms(data)
    runs = _measured(flagged(data.runs), list(found))
    places = [one for one in placed(runs[~is_alone(runs)], scaling=True) if one.part.runs[EFFICIENCY].notna().any()]
    if not places:
        raise MissingRowsError(
            "needs completed runs with steady samples/s of one worker alone (`strategy: single` or `baseline: auto`) "
            "that are equal to other arms in model, data, batch size, cores and precision, and as real or emulated"
        )
    shown = pd.concat([one.part.runs for one in places])
    panels = tuple(_panel(one, list(found.values())) for one in places)
    return Chart(
        title=against("Efficiency", panels),
        panels=panels,
        columns=min(3 if len(panels) != 4 else 2, len(panels)),
        notes=(
            DEFINITION,
            *(meanings(shown) if {one.x for one in places} == {"workers"} else ()),
            *_without_base_line(data.completed, found),
            *rate_note(data.runs),
        ),
        runs=in_chart(shown, [EFFICIENCY]),
    )


def _arms(data: "ReportData") -> dict[tuple[str, str], Arm]:
    """Return the arms that have an efficiency, by study and name; a base line counts in its own study only."""
    return {(study, arm.name): arm for study, found in data.arms.items() for arm in found if arm.efficiency is not None}


def _measured(runs: "pd.DataFrame", names: list[tuple[str, str]]) -> "pd.DataFrame":
    """Return the runs with their efficiency and the number of their arm among those that have one."""
    import pandas as pd

    known = {name: float(number) for number, name in enumerate(names)}
    named = zip(runs["study"], runs["arm"], strict=True)
    number = pd.Series([known.get((str(study), str(arm))) for study, arm in named], index=runs.index, dtype="float64")
    value = efficiencies(runs).where(number.notna())
    return runs.assign(**{EFFICIENCY: value, ARM: number.where(value.notna())})


def _panel(one: Placed, found: list[Arm]) -> Panel:
    numbered = series(one.part, one.x, ARM)
    which = {_place(line, mark): set(mark.points) for line in numbered for mark in line.marks}
    made = tuple(
        replace(line, marks=tuple(_judged(mark, which.get(_place(line, mark), set()), found) for mark in line.marks))
        for line in series(one.part, one.x, EFFICIENCY)
    )
    return Panel(one.part.title, one.axis, AXIS, (*made, _whole(made)))


def _place(one: Series, mark: Mark) -> tuple[str, str, float]:
    return one.label, one.emulated, mark.x


def _judged(mark: Mark, numbers: set[float], found: list[Arm]) -> Mark:
    """Return the mark with its arm's interval; of several arms at one place, only the median of all is known."""
    if not mark.points:
        return mark
    if len(numbers) == 1:
        return replace(mark, interval=found[int(next(iter(numbers)))].efficiency)
    return replace(mark, interval=Interval(median(mark.points), None, None, len(mark.points), None))


def _whole(made: tuple[Series, ...]) -> Series:
    """Return the line at 100 %."""
    places = sorted({mark.x for one in made for mark in one.marks})
    return Series(WHOLE, tuple(line_mark(x, 1.0) for x in places), Role.IDEAL)


def _without_base_line(completed: "pd.DataFrame", found: Mapping[tuple[str, str], Arm]) -> Iterator[str]:
    """Name the arms that have a rate and nothing to compare it with."""
    rows = completed[completed[RATE].notna() & ~is_alone(completed)]
    named = zip(rows["study"], rows["arm"], labels(rows), strict=True)
    without = dict.fromkeys(label for study, arm, label in named if (str(study), str(arm)) not in found)
    if without:
        yield f"No efficiency, for lack of a base line with equal settings: {listed(without)}."
