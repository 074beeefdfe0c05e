"""Efficiency against workers: the rate of one of them over that of one worker alone."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, efficiencies
from dlbench.analysis.formatting import listed
from dlbench.analysis.groups import is_alone
from dlbench.analysis.statistics.intervals import Interval
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Mark, MissingRowsError, Panel, Role, Series, hued, line_mark
from dlbench.report.figures._scaling import WORKERS, meanings, scaled
from dlbench.report.figures._shown import RATE, in_chart, rate_note, with_rate
from dlbench.report.lines import Part, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 40
# Of a run: its efficiency, and the number of its arm, both NaN where it has none.
EFFICIENCY, ARM = "efficiency", "arm_number"
# An axis of 0 to 110 %; what lies higher makes it longer.
AXIS = Axis("efficiency", low=0.0, high=1.1, percent=True)
WHOLE = "as fast as one worker alone"
DEFINITION = (
    "Efficiency is samples/s of one of the workers over samples/s of one worker alone at the same batch size; "
    "the interval is that of the ratio of their medians."
)


def chart(data: "ReportData") -> Chart:
    """Return efficiency against workers from 0 to 110 %, weak and strong scaling in panels apart.

    Median and interval are `dlbench.analysis.arms.Arm.efficiency`; a point is the rate of one run's workers over the
    median of its base line.

    Raises:
        MissingRowsError: No arm has a base line that is its equal, both with samples/s.
    """
    import pandas as pd

    with_rate(data.completed)
    found = _arms(data)
    runs = _measured(data.runs, list(found))
    parts = [part for part in scaled(runs[~is_alone(runs)]) if part.runs[EFFICIENCY].notna().any()]
    if not parts:
        raise MissingRowsError(
            "needs completed runs with samples/s of one worker alone (`strategy: single` or `baseline: auto`) that are "
            "equal to other arms in model, data, batch size, cores and precision, and as real or emulated as they are"
        )
    shown = pd.concat([part.runs for part in parts])
    return Chart(
        title="Efficiency by number of workers",
        panels=hued(tuple(_panel(part, list(found.values())) for part in parts)),
        columns=min(3, len(parts)),
        notes=(
            DEFINITION,
            *meanings(shown),
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


def _panel(part: Part, found: list[Arm]) -> Panel:
    which = {_place(one, mark): set(mark.points) for one in series(part, "workers", ARM) for mark in one.marks}
    made = tuple(
        replace(one, marks=tuple(_judged(mark, which.get(_place(one, mark), set()), found) for mark in one.marks))
        for one in series(part, "workers", EFFICIENCY)
    )
    return Panel(part.title, WORKERS, AXIS, (*made, _whole(made)))


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
    """Return the line at 100 %, from one worker to the most."""
    places = sorted({1.0, *(mark.x for one in made for mark in one.marks)})
    return Series(WHOLE, tuple(line_mark(x, 1.0) for x in places), Role.IDEAL)


def _without_base_line(completed: "pd.DataFrame", found: Mapping[tuple[str, str], Arm]) -> Iterator[str]:
    """Name the arms that have a rate and nothing to compare it with."""
    rows = completed[completed[RATE].notna() & ~is_alone(completed)]
    named = zip(rows["study"], rows["arm"], rows["label"].fillna(rows["arm"]), strict=True)
    labels = dict.fromkeys(str(label) for study, arm, label in named if (str(study), str(arm)) not in found)
    if labels:
        yield f"No efficiency is known where no base line is the equal: {listed(labels)}."
