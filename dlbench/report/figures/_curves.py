"""The rows of `epochs.csv` as lines: who is in each, and what is known of them at each epoch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dlbench.analysis.statistics.intervals import median_interval
from dlbench.records.outcome import Status
from dlbench.report.chart import Mark, MissingRowsError, Series
from dlbench.report.data import RUN
from dlbench.report.figures._rows import learned
from dlbench.report.lines import Part, series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

# What a run is called here, so that its epochs are found fast.
NUMBER = "number"
# Columns of `epochs.csv` that say how far a run was.
PLACES = ("epoch", "steps", "train_time_s")
VALUES = ("train_loss", "validation_loss", "train_accuracy", "validation_accuracy")
# More marks than this on one line are hard to distinguish.
MOST_MARKS = 100


@dataclass(frozen=True, eq=False)
class Curves:
    """The epochs of the runs that can be shown.

    Attributes:
        runs: Runs, failed ones too, each with a NUMBER of its own.
        epochs: A row for each epoch of a run, by NUMBER: steps and the slowest worker's training time so far, and
            losses and accuracies, which are of all workers.
    """

    runs: "pd.DataFrame"
    epochs: "pd.DataFrame"


@dataclass(frozen=True, eq=False)
class Line:
    """The completed runs of one series.

    Attributes:
        series: Its label, role and emulation; its marks are not those of the curve.
        numbers: The NUMBER of each of its runs, failed ones too.
        epochs: Their rows, by run and epoch.
        num_failed: How many of its runs did not complete.
        planned: The last epoch that they were to train.
        names: The run_id of each of its runs by NUMBER.
    """

    series: Series
    numbers: frozenset[float]
    epochs: "pd.DataFrame"
    num_failed: int
    planned: float
    names: Mapping[float, str]

    def of(self, value: str) -> Series:
        """Return the median over repeats at each epoch; failed runs are counted where the others ended."""
        found: dict[float, list[float]] = {}
        names: dict[float, list[str]] = {}
        known = self.epochs[[NUMBER, "epoch", value]].dropna().astype("float64")
        for number, epoch, one in known.itertuples(index=False):
            found.setdefault(epoch, []).append(one)
            names.setdefault(epoch, []).append(self.names[number])
        last = float(self.epochs["epoch"].max()) if len(self.epochs) else self.planned
        marks = {
            epoch: Mark(epoch, tuple(found[epoch]), median_interval(found[epoch]), runs=tuple(names[epoch]))
            for epoch in _few(sorted(found))
        }
        if self.num_failed:
            marks[last] = replace(marks.get(last, Mark(last)), num_failed=self.num_failed)
        return replace(self.series, marks=tuple(marks[epoch] for epoch in sorted(marks)))

    def places(self, column: str) -> Mapping[float, float]:
        """Return where the line is at each epoch: the median of its runs' steps or times; an epoch is where it is."""
        if column == "epoch":
            return {epoch: epoch for epoch in (*self.epochs["epoch"].astype("float64").unique().tolist(), self.planned)}
        medians = self.epochs[["epoch", column]].dropna().astype("float64").groupby("epoch")[column].median()
        return dict(zip(medians.index.tolist(), medians.tolist(), strict=True))


def _few(epochs: Sequence[float]) -> Sequence[float]:
    """Return epochs in equal steps up to the last one."""
    step = -(-len(epochs) // MOST_MARKS)
    return epochs[::-1][::step][::-1] if step > 1 else epochs


def curves(data: "ReportData") -> Curves:
    """Return the epochs of runs that learned something.

    Raises:
        MissingRowsError: There are none.
    """
    if data.completed.empty:
        raise MissingRowsError("needs completed runs with rows in epochs.csv; no run is completed")
    runs = learned(data.runs)
    rows = data.epochs
    if rows.empty:
        raise MissingRowsError("needs epochs.csv beside runs.csv, with rows of completed runs")
    slowest = rows.groupby([*RUN, "epoch"])["train_time_s"].transform("max")
    first = rows.assign(train_time_s=slowest)[rows["worker"] == 0]
    numbered = runs.assign(**{NUMBER: range(len(runs))})
    epochs = first.merge(numbered[[*RUN, NUMBER]], on=RUN)[[NUMBER, *PLACES, *VALUES]].sort_values([NUMBER, "epoch"])
    if epochs.empty:
        raise MissingRowsError("needs rows in epochs.csv of completed runs, on data that can be learned")
    failed = (numbered["status"] != Status.COMPLETED).astype(bool)
    return Curves(numbered[failed | numbered[NUMBER].isin(epochs[NUMBER])], epochs)


def lines(part: Part, found: Curves) -> Iterator[Line]:
    """Yield the lines of a part, with the series of `dlbench.report.lines.series`."""
    names = dict(zip(part.runs[NUMBER].astype("float64"), part.runs["run_id"].astype(str), strict=True))
    for one in series(part, NUMBER, NUMBER):
        everyone = frozenset(mark.x for mark in one.marks)
        planned = part.runs[part.runs[NUMBER].isin(everyone)]["epochs_per_worker"].astype("float64").max()
        rows = found.epochs[found.epochs[NUMBER].isin([mark.x for mark in one.marks if mark.points])]
        yield Line(one, everyone, rows, sum(mark.num_failed for mark in one.marks), float(planned), names)
