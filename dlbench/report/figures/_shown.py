"""Which arms and panels a chart shows, how they are called, and the notes on those that it cannot show or compare."""

from collections.abc import Iterable, Iterator, Sequence

from dlbench.analysis.arms import Arm, Row
from dlbench.analysis.formatting import counted, listed
from dlbench.analysis.groups import groups
from dlbench.records.outcome import Status
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS
from dlbench.report.chart import Axis

RATE = "samples_per_s"
RATE_AXIS = Axis("steady throughput (samples/s)", low=0.0)
# Flags of a rate, by the word in `Mark.flags`; the table of arms has a mark for each.
FLAGS = {
    "extended": "were timed in steps added after training",
    "unsteady": "had a rate that was not steady",
}
WINDOW = f"a timed window of at least {MIN_TIMED_STEPS} steps and {MIN_TIMED_S:g} s"
# Where arms saw different amounts of work, their samples stand beside their times; below this share they are alike.
SEEN, ALIKE = "samples_seen", 0.01
UNEQUAL = "The arms saw unequal numbers of samples."


def identities(arms: Iterable[Arm]) -> frozenset[tuple[str, str]]:
    """Return study and run_id of each run, as `Chart.runs` holds them."""
    return frozenset((row["study"], row["run_id"]) for arm in arms for row in arm.rows)


def in_chart(arms: Iterable[Arm], columns: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return the runs in a chart of these columns, as `Chart.runs` holds them: those with a value, and failed ones."""

    def is_shown(row: Row) -> bool:
        return row["status"] != Status.COMPLETED or any(row.get(name) is not None for name in columns)

    return frozenset((row["study"], row["run_id"]) for arm in arms for row in filter(is_shown, arm.rows))


def label(arm: Arm) -> str:
    """Return the label of an arm; that of several workers says their strategy."""
    strategy = arm.get("strategy") or ""
    is_said = arm.baseline or arm.is_alone or strategy in arm.label
    return arm.label if is_said else f"strategy={strategy} {arm.label}"


def synthetic_note(arms: Iterable[Arm]) -> Iterator[str]:
    """Say how many runs are left out because they trained on random numbers; nothing where none is."""
    if left_out := sum(len(arm.rows) for arm in arms if not arm.scores_mean_something):
        runs = counted(left_out, "run")
        yield f"{runs} on synthetic input left out: losses and accuracies of random numbers mean nothing."


def sees_unequally(arms: Iterable[Arm]) -> bool:
    """Whether completed runs of one model and data set saw numbers of samples that differ by more than ALIKE."""
    by_task = [[seen for arm in alike for seen in arm.values(SEEN)] for _, alike in groups(arms, ("model", "dataset"))]
    return any(max(seen) > (1 + ALIKE) * min(seen) for seen in by_task if seen)


def rate_note(arms: Iterable[Arm]) -> Iterator[str]:
    """Say how many completed runs have no steady samples/s, and why; nothing where all have."""
    completed = [row for arm in arms for row in arm.completed]
    if without := sum(row.get(RATE) is None for row in completed):
        runs = counted(len(completed), "run")
        yield f"{without} of {runs} that completed without steady samples/s: a rate needs {WINDOW}."


def left_out_note(titles: Iterable[str], why: str) -> Iterator[str]:
    """Name what has no panel; nothing where all has."""
    if named := [title for title in titles if title]:
        yield f"Left out, {why}: {listed_titles(named)}."


def listed_titles(titles: Iterable[str]) -> str:
    """Return the titles of panels for a sentence, the first few of them; they hold commas themselves."""
    return listed((title or "this chart" for title in dict.fromkeys(titles)), separator="; ")
