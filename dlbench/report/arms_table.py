"""The arms of a report as tidy rows: one for each arm and metric, with its median, interval and number of repeats."""

from collections.abc import Iterator

from dlbench.analysis.arms import Arm
from dlbench.analysis.statistics.intervals import Interval
from dlbench.records.tables import line
from dlbench.report.data import ReportData
from dlbench.report.table import defused

COLUMNS = (
    "study", "arm", "label", "workers", "baseline", "emulated", "metric", "median", "low", "high", "coverage", "n",
)  # fmt: skip


def text(evidence: ReportData) -> str:
    """Return `arms.csv`: every arm with a completed run, every metric that it has."""
    rows = [line(COLUMNS)]
    for study, found in evidence.arms.items():
        rows += [line(cells) for arm in found for cells in _cells(study, arm)]
    return "".join(rows)


def _cells(study: str, arm: Arm) -> Iterator[tuple[object, ...]]:
    found: dict[str, Interval | None] = {**arm.metrics, "efficiency": arm.efficiency}
    for metric, interval in found.items():
        if interval is not None:
            names = (defused(study), arm.name, defused(arm.label), arm.workers, arm.baseline, defused(arm.emulated))
            yield (*names, metric, interval.value, interval.low, interval.high, interval.coverage, interval.n)
