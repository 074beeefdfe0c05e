"""What each strategy of nodes comes to, as maps: time to the target, accuracy, bytes and staleness by workers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import chosen
from dlbench.analysis.groups import by_emulation, condition_text, described, groups, is_alone, is_base_line, varying
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, Series
from dlbench.report.figures._rows import numbers
from dlbench.report.figures._shown import in_chart
from dlbench.report.figures._target import TARGET, end_notes, ended, target_name, with_ends
from dlbench.report.figures.winners import OF_STRATEGY
from dlbench.report.lines import marks

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 42
# Maps of all strategies need all of them.
ALL_ARMS = True
TIME, PER_SAMPLE = "time_to_target_s", "bytes_per_sample"
SHOWN = {
    TIME: Axis("time to target (s)", "log10"),
    "validation_accuracy": Axis("validation accuracy at the end"),
    PER_SAMPLE: Axis("bytes sent / sample", "log10"),
    "staleness_mean": Axis("mean staleness (updates)"),
}
NOTES = (
    "Bytes are those of all workers and servers, over the samples that entered updates.",
    "Staleness is the version of the parameters at the update minus the version that the gradient was computed at.",
)


def chart(data: "ReportData") -> Chart:
    """Return medians of what strategies come to (rows) for each number of workers (columns), one map for each measure.

    Raises:
        MissingRowsError: There are no completed runs of two strategies, one of which sends messages between nodes.
    """
    runs = _with_values(data.runs[~is_base_line(data.runs) & ~is_alone(data.runs)])
    panels = tuple(_panels(runs))
    if runs[numbers(runs, "messages").notna()].empty or not panels:
        raise MissingRowsError("needs completed runs of two or more strategies, one of which sends messages")
    targets = {target_name(values) for values, _ in groups(runs[runs["target_value"].notna()], TARGET)}
    return Chart(
        title="What each way of synchronising comes to",
        panels=panels,
        columns=2,
        lead=f"The target is a {next(iter(targets))}." if len(targets) == 1 else "",
        notes=(*NOTES, *(end_notes(runs) if targets else ())),
        runs=in_chart(runs, [*SHOWN, ended(TIME)]),
    )


def _with_values(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs with bytes / sample, and with what those that missed a target had come to."""
    samples = numbers(runs, "samples_seen")
    runs = runs.assign(**{PER_SAMPLE: (numbers(runs, "bytes_sent") / samples).where(samples > 0), ended(TIME): None})
    try:
        aimed = with_ends(runs)
    except MissingRowsError:
        return runs
    return runs.assign(**{name: aimed[name].reindex(runs.index) for name in (TIME, ended(TIME))})


def _panels(runs: "pd.DataFrame") -> Iterator[Panel]:
    """Yield the maps of each condition; real and emulated runs have rows of their own."""
    conditions = [key for key in varying(runs, x="workers") if key not in OF_STRATEGY and not _is_option(key)]
    for values, alike in groups(runs, conditions) if conditions else [({}, runs)]:
        condition = condition_text(values, runs)
        if alike["strategy"].nunique() < 2:
            continue
        places = sorted(alike["workers"].dropna().unique().tolist())
        for column, axis in SHOWN.items():
            rows = tuple(one for emulated, own in by_emulation(alike) for one in _series(own, column, places, emulated))
            if any(mark.points or mark.ended for one in rows for mark in one.marks):
                yield Panel(condition, Axis("workers", categories=tuple(map(chosen, places))), axis, rows, form="cells")


def _series(runs: "pd.DataFrame", column: str, places: Sequence[float], emulated: str) -> Iterator[Series]:
    variants = [key for key in varying(runs, x="workers") if key in OF_STRATEGY[1:] or _is_option(key)]
    for values, rows in groups(runs, ["strategy", *variants]):
        strategy = str(values.pop("strategy"))
        # An option that others do not have says nothing where a strategy has one value of it.
        told = {key: value for key, value in values.items() if _varies(runs, strategy, key)}
        late = ended(TIME) if column == TIME else ""
        made = {mark.x: mark for mark in marks(rows, "workers", column, late)}
        found = tuple(replace(made[place], x=float(number)) for number, place in enumerate(places) if place in made)
        yield Series(", ".join(filter(None, (strategy, described(told)))), found, emulated=emulated)


def _varies(runs: "pd.DataFrame", strategy: str, key: str) -> bool:
    return bool(runs.loc[runs["strategy"] == strategy, key].nunique(dropna=False) > 1)


def _is_option(key: str) -> bool:
    return key.startswith("strategy.")
