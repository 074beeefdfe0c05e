"""Throughput of each strategy at each number of workers, as a map."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dlbench.analysis.arms import option_columns
from dlbench.analysis.groups import SETTINGS, TASK, described, groups, is_alone, is_base_line, varying
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Panel, Role, Series
from dlbench.report.figures._scaling import SCALING, meanings
from dlbench.report.figures._shown import RATE, RATE_AXIS, in_chart, left_out_note, needs_two, rate_note, with_rate
from dlbench.report.lines import Part, having, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 60
# Settings that distinguish the rows of a map: ways to synchronise, and the placement of workers.
WAYS = ("strategy", "algorithm", "communicator", "collectives", "placement")
WAYS_OPTIONS = ("strategy.", "launcher.")


def chart(data: "ReportData") -> Chart:
    """Return median samples/s by strategy (rows) and number of workers (columns).

    Raises:
        MissingRowsError: No completed runs of two strategies with samples/s are equal in all else.
    """
    import pandas as pd

    known = with_rate(data.completed)
    found = list(_parts(data.runs))
    kept = [part for part in found if _num_ways(part) > 1]
    if not kept:
        names = dict.fromkeys(known[~is_alone(known)]["strategy"].dropna()) or dict.fromkeys(known["strategy"].dropna())
        raise needs_two("completed runs with samples/s of two or more strategies", names)
    runs = pd.concat([part.runs for part in kept])
    titles = [part.title for part in found if _num_ways(part) < 2]
    return Chart(
        title="Throughput by strategy and number of workers",
        panels=tuple(map(_panel, kept)),
        columns=min(2, len(kept)),
        notes=(
            *meanings(runs),
            *rate_note(runs),
            *left_out_note(titles, "with one strategy only"),
        ),
        runs=in_chart(runs, [RATE]),
    )


def _parts(runs: "pd.DataFrame") -> Iterator[Part]:
    """Yield the runs of each map: equal in all but their strategy and their workers."""
    import pandas as pd

    ways = tuple(key for key in varying(runs, x="workers") if _is_way(key))
    is_base = is_base_line(runs)
    for values, rows in groups(runs[~is_base], ["batch_scope", *_apart(runs[~is_base])]):
        base = having(runs[is_base], values)
        yield Part(_title(values), pd.concat([rows, base]) if len(base) else rows, ways)


def _apart(runs: "pd.DataFrame") -> list[str]:
    """Return the settings in which the runs of one map must not differ, also where these follow from the strategy.

    What follows from the task or from the workers is the same in each column anyway.
    """
    options = option_columns(runs.columns)
    names = [name for name in (*SETTINGS, *options) if not _is_way(name) and name not in ("workers", "batch_scope")]
    found = [name for name in names if runs[name].nunique() > 1]
    leading = (*TASK, "workers")
    return [name for name in found if name in TASK or not any(_follows(runs, name, lead) for lead in leading)]


def _follows(runs: "pd.DataFrame", name: str, lead: str) -> bool:
    return bool((runs.groupby(lead, dropna=False)[name].nunique() <= 1).all())


def _is_way(key: str) -> bool:
    return key in WAYS or key.startswith(WAYS_OPTIONS)


def _title(values: Mapping[str, Any]) -> str:
    others = {key: value for key, value in values.items() if key != "batch_scope"}
    return ", ".join(filter(None, (SCALING.get(str(values["batch_scope"]), ""), described(others))))


def _num_ways(part: Part) -> int:
    """Return how many ways have a completed run with a rate; one worker alone does not synchronise and is none."""
    rows = part.runs[~is_alone(part.runs)]
    made = series(replace(part, runs=rows), "workers", RATE)
    return len({one.label for one in made if any(mark.points for mark in one.marks)})


def _panel(part: Part) -> Panel:
    made = series(part, "workers", RATE)
    counts = sorted({mark.x for one in made for mark in one.marks})
    columns = {count: float(number) for number, count in enumerate(counts)}
    x = Axis("workers", categories=tuple(f"{count:g}" for count in counts))
    # The base line is what the others are compared with: first.
    rows = sorted(made, key=lambda one: one.role is not Role.BASE_LINE)
    return Panel(part.title, x, Axis(RATE_AXIS.label), tuple(_row(one, columns) for one in rows), form="cells")


def _row(one: Series, columns: Mapping[float, float]) -> Series:
    return replace(one, marks=tuple(replace(mark, x=columns[mark.x]) for mark in one.marks))
