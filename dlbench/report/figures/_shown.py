"""Which panels and runs a chart shows, and the notes on those that it cannot show or compare."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dlbench.analysis.arms import unsteady
from dlbench.analysis.formatting import counted, listed
from dlbench.records.outcome import Status
from dlbench.records.result import MIN_TIMED_S, MIN_TIMED_STEPS
from dlbench.report.chart import Axis, MissingRowsError, Panel
from dlbench.report.figures._rows import identities, numbers

if TYPE_CHECKING:
    import pandas as pd

RATE = "samples_per_s"
RATE_AXIS = Axis("steady throughput (samples/s)", low=0.0)
# Flags of a rate, by the word in `Mark.flags`; the table of arms has a mark for each.
FLAGS = {
    "extended": "were timed in steps added after training",
    "unsteady": "had a rate that was not steady",
}
WINDOW = f"a timed window of at least {MIN_TIMED_STEPS} steps and {MIN_TIMED_S:g} s"


def flagged(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs with the column `flags`: the words of FLAGS that hold of each run's rate, joined by `;`."""
    holds = {"extended": numbers(runs, "extended_steps") > 0, "unsteady": unsteady(runs)}
    rows = zip(*holds.values(), strict=True)
    flags = [";".join(word for word, holds_here in zip(holds, row, strict=True) if holds_here) for row in rows]
    return runs.assign(flags=flags)


def compares(panel: Panel, least: int = 2) -> bool:
    """Whether runs have values at two marks, be they along x or in two series; emulated ones count apart."""
    marks = Counter(bool(one.emulated) for one in panel.series for mark in one.marks if mark.points or mark.ended)
    return max(marks.values(), default=0) >= least


def in_chart(runs: "pd.DataFrame", columns: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return who is in a chart of these columns, as `Chart.runs` holds them: runs with a value, and failed ones."""
    failed = (runs["status"] != Status.COMPLETED).astype(bool)
    return identities(runs[failed | runs[list(columns)].notna().any(axis=1)])


def with_rate(completed: "pd.DataFrame") -> "pd.DataFrame":
    """Return the completed runs that have steady samples/s.

    Raises:
        MissingRowsError: No run is completed, or none has a rate.
    """
    if completed.empty:
        raise MissingRowsError("needs completed runs with steady samples/s; no run is completed")
    found = completed[completed[RATE].notna()]
    if found.empty:
        raise MissingRowsError(
            f"needs completed runs with steady samples/s: {WINDOW} (`extend_window: true` steps on until it is)"
        )
    return found


def needs_two(what: str, found: Iterable[object]) -> MissingRowsError:
    """Return the error that there are no completed runs with two values of something and equal in all else.

    Args:
        what: Completed runs of what, such as `completed runs at two or more batch sizes`.
        found: The values that completed runs have.
    """
    values = list(found)
    if not values:
        return MissingRowsError(f"needs {what}; no run is completed")
    if len(values) == 1:
        return MissingRowsError(f"needs {what}; {_there_are(values)}")
    return MissingRowsError(
        f"needs {what} that are equal in all else; {_there_are(values)}, but other settings differ too"
    )


def _there_are(values: Iterable[object]) -> str:
    """Return what there is, for the end of a sentence: `there is 32 only`, `there are 32, 64`, `there is none`."""
    words = [str(value) for value in values]
    if not words:
        return "there is none"
    return f"there is {words[0]} only" if len(words) == 1 else f"there are {listed(words)}"


def rate_note(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Say how many completed runs have no steady samples/s, and why; nothing where all have. Each run counts once."""
    completed = runs[runs["status"] == Status.COMPLETED].drop_duplicates(["study", "run_id"])
    without = int(completed[RATE].isna().sum())
    of = counted(len(completed), "run")
    text = f"{without} of {of} that completed without steady samples/s: a rate needs {WINDOW}."
    return (text,) if without else ()


def left_out_note(titles: Iterable[str], why: str) -> tuple[str, ...]:
    """Name what has no panel; nothing where all has."""
    named = listed_titles(title for title in titles if title)
    return (f"Left out, {why}: {named}.",) if named else ()


def listed_titles(titles: Iterable[str]) -> str:
    """Return the titles of panels for a sentence, the first few of them; they hold commas themselves."""
    return listed((title or "this chart" for title in dict.fromkeys(titles)), separator="; ")
