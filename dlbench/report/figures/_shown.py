"""Which arms and panels a chart shows, how they are called, and the notes on those that it cannot show or compare."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from dlbench.analysis.answer.doubts import scores_of
from dlbench.analysis.arms import Arm, window_needed
from dlbench.analysis.formatting import counted, listed, quantity
from dlbench.analysis.groups import groups, learning_rate_note
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis
from dlbench.report.data import ReportData, run_of
from dlbench.report.lines import FLAGS
from dlbench.scenario import metrics

RATE = metrics.RATE.column
RATE_AXIS = Axis("steady throughput (samples/s)", low=0.0)
SCORES = {
    "train_loss": Axis("training loss (nats)"),
    "validation_loss": Axis("validation loss (nats)"),
    "train_accuracy": Axis("training accuracy", most=1.0),
    "validation_accuracy": Axis("validation accuracy", most=1.0),
}
# Where arms saw different amounts of work, their samples stand beside their times; below this share they are alike.
SEEN, ALIKE = "samples_seen", 0.01
UNEQUAL = "The arms saw unequal numbers of samples."


def in_chart(arms: Iterable[Arm], columns: Iterable[str] = ("run_id",)) -> frozenset[tuple[str, str]]:
    """Return the runs in a chart of these columns, as `Chart.runs` holds them: those with a value, and failed ones."""
    names, rows = list(columns), (row for arm in arms for row in arm.rows)
    return frozenset(
        run_of(row) for row in rows if row["status"] != Status.COMPLETED or {*map(row.get, names)} - {None}
    )


def label(arm: Arm) -> str:
    """Return the label of an arm; that of several workers says their strategy."""
    strategy = arm.get("strategy") or ""
    says_it = arm.baseline or arm.is_alone or strategy in arm.label
    return arm.label if says_it else f"strategy={strategy} {arm.label}"


def synthetic_note(arms: Iterable[Arm]) -> Iterator[str]:
    """Say how many runs are left out because they trained on random numbers; nothing where none is."""
    if left_out := sum(len(arm.rows) for arm in arms if not arm.scores_mean_something):
        runs = counted(left_out, "run")
        yield f"{runs} on synthetic input left out: losses and accuracies of random numbers mean nothing."


def sees_unequally(arms: Iterable[Arm]) -> bool:
    """Whether completed runs of one model and data set saw numbers of samples that differ by more than ALIKE."""
    by_task = [[seen for arm in alike for seen in arm.values(SEEN)] for _, alike in groups(arms, ("model", "dataset"))]
    return any(max(seen) > (1 + ALIKE) * min(seen) for seen in by_task if seen)


def ends_apart(arms: Iterable[Arm], by_column: metrics.Metrics) -> str:
    """Say from which score to which arms of one model and data set end, where that is more than what matters."""
    ranges = []
    for _, alike in groups(arms, ("model", "dataset")):
        values = {name: [arm.comparable(name).values() for arm in alike] for name in scores_of(by_column)}
        if name := next((name for name, scores in values.items() if any(scores)), ""):
            score, ends = by_column[name], [median(scores) for scores in values[name] if scores]
            low, high = min(ends), max(ends)
            if high - low > score.margin_at(high if score.is_higher_better else low):
                ranges.append(f"{score.title} {quantity(score, low)} to {quantity(score, high)}")
    return f"Arms end at {listed(ranges, 2, '; ')}." if ranges else ""


def with_faults(data: ReportData) -> list[Arm]:
    """Return all arms with flags where the time of a run is no result."""
    return [arm.having(**{FLAGS: data.faults_of}) for arm in data.arms]


def rate_note(_: Iterable[Arm], shown: Iterable[Arm]) -> Iterator[str]:
    """Say how many completed runs have no steady samples/s, and why; nothing where all have."""
    completed = [row for arm in shown for row in arm.completed]
    if without := sum(row.get(RATE) is None for row in completed):
        runs = counted(len(completed), "run")
        needs = f"a rate needs a timed window of at least {window_needed(completed)}"
        yield f"{without} of {runs} that completed without steady samples/s: {needs}."


def learning_rates(arms: Sequence[Arm]) -> str:
    """Say, as a sentence, at which learning rates arms were measured that may each need another one."""
    note = learning_rate_note(arms)
    return f"{note.capitalize()}." if note else ""


def left_out_note(titles: Iterable[str], why: str) -> Iterator[str]:
    """Name what has no panel, the first few of them; nothing where all has. Titles of panels hold commas themselves."""
    if named := list(dict.fromkeys(filter(None, titles))):
        yield f"Left out, {why}: {listed(named, separator='; ')}."
