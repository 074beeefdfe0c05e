"""What each message-passing strategy reaches, as maps: time to the target, accuracy, bytes and staleness by workers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dlbench.analysis.arms import Arm, quotient
from dlbench.analysis.groups import condition_text, groups, values_of, varying, ways
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.figures._places import WORKERS, with_categories
from dlbench.report.figures._shown import in_chart
from dlbench.report.figures._target import TARGET, TIME, end_notes, late, target_name
from dlbench.report.figures.winners import belongs_to_strategy
from dlbench.report.lines import Part, brief_keys, ended, series

if TYPE_CHECKING:
    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 42
# Maps of all strategies need all of them.
ALL_ARMS = True
PER_SAMPLE = "bytes_per_sample"
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
    columns = {PER_SAMPLE: lambda row: quotient(row.get("bytes_sent"), row.get("samples_seen")), ended(TIME): late}
    arms = [arm.having(**columns) for arm in ways(data.arms)]
    panels = tuple(_panels(arms))
    if not panels or not values_of(arms, "messages"):
        raise MissingRowsError("needs completed runs of two or more strategies, one of which sends messages")
    aimed = [arm for arm in arms if arm.get("target_value") is not None]
    targets = [target_name(values) for values, _ in groups(aimed, TARGET)]
    return Chart(
        title="What each way of synchronising comes to",
        panels=panels,
        columns=2,
        lead=f"The target is a {targets[0]}." if len(targets) == 1 else "",
        notes=(*NOTES, *(end_notes(aimed) if aimed else ())),
        runs=in_chart(arms, [*SHOWN, ended(TIME)]),
    )


def _panels(arms: Sequence[Arm]) -> Iterator[Panel]:
    """Yield the maps of each condition; real and emulated runs have rows of their own."""
    keys = varying(arms, x="workers")
    variants = [key for key in keys if key != "strategy" and belongs_to_strategy(key)]
    for values, alike in groups(arms, [key for key in keys if not belongs_to_strategy(key)]):
        if len(values_of(alike, "strategy")) > 1:
            part = brief_keys(Part("", tuple(alike), ("strategy", *variants), "workers"))
            for column, axis in SHOWN.items():
                rows = series(part, column)
                if any(mark.points or mark.ended for one in rows for mark in one.marks):
                    yield with_categories(Panel(condition_text(values, arms), WORKERS, axis, rows, form="cells"))
