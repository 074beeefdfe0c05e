"""What several figures ask of the rows: which are completed, which values mean something, how the batch is called."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlbench.analysis.formatting import counted
from dlbench.analysis.groups import groups, is_alone, is_base_line
from dlbench.records.outcome import Status
from dlbench.report.chart import Axis

if TYPE_CHECKING:
    import pandas as pd

# Whose samples `batch_size` counts, by `batch_scope`.
OF_WHOM = {"per-worker": " of one worker", "global": " of all workers"}
SYNTHETIC = "synthetic"
# Where arms saw different amounts of work, their samples stand beside their times; below this share they are alike.
SEEN, ALIKE = "samples_seen", 0.01
UNEQUAL = "The arms saw unequal numbers of samples."


def identities(runs: "pd.DataFrame") -> frozenset[tuple[str, str]]:
    """Return study and run_id of each run, as `Chart.runs` holds them."""
    return frozenset((str(study), str(run_id)) for study, run_id in zip(runs["study"], runs["run_id"], strict=True))


def labels(runs: "pd.DataFrame") -> list[str]:
    """Return the label of each run's arm, or else its name; that of several workers says their strategy."""
    found = runs["label"].fillna(runs["arm"]).tolist()
    return [
        label if unsaid or strategy in label else f"strategy={strategy} {label}"
        for label, strategy, unsaid in zip(
            map(str, found),
            runs["strategy"].fillna("").tolist(),
            (is_base_line(runs) | is_alone(runs)).tolist(),
            strict=True,
        )
    ]


def is_completed(runs: "pd.DataFrame") -> "pd.Series[bool]":
    """Whether each run is completed."""
    return (runs["status"] == Status.COMPLETED).astype(bool)


def numbers(runs: "pd.DataFrame", column: str) -> "pd.Series[float]":
    """Return a column as floats, NaN where it is unknown: a division by zero and a missing value are then alike."""
    return runs[column].astype("float64")


def by_scope(runs: "pd.DataFrame") -> "Iterator[tuple[str, pd.DataFrame]]":
    """Yield `batch_scope` and its runs: those whose `batch_size` counts one worker's samples, and those of all.

    A scope that has base lines alone is left out, unless there is nothing else.
    """
    added = is_base_line(runs)
    for values, rows in groups(runs, ["batch_scope"]):
        if added.all() or not added[rows.index].all():
            yield str(values["batch_scope"]), rows


def batch_axis(runs: "pd.DataFrame") -> Axis:
    """Return the axis of `batch_size`, which states whose samples it counts where all runs count alike."""
    scopes = runs["batch_scope"].dropna().unique().tolist()
    of_whom = OF_WHOM.get(scopes[0], "") if len(scopes) == 1 else ""
    return Axis(f"batch size{of_whom} (samples)", "log2")


def learned(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs whose losses and accuracies mean something: those that did not train on random numbers."""
    return runs[(runs["input"].fillna("") != SYNTHETIC).astype(bool)]


def synthetic_note(runs: "pd.DataFrame") -> tuple[str, ...]:
    """Say how many runs are left out because they trained on random numbers; nothing where none is."""
    left_out = len(runs) - len(learned(runs))
    text = (
        f"{counted(left_out, 'run')} on synthetic input left out: losses and accuracies of random numbers mean nothing."
    )
    return (text,) if left_out else ()


def sees_unequally(runs: "pd.DataFrame") -> bool:
    """Whether completed runs of one model and data set saw numbers of samples that differ by more than ALIKE."""
    seen = numbers(runs, SEEN).where(runs["train_time_s"].notna())
    by_task = seen.groupby([runs["model"], runs["dataset"]], dropna=False)
    return bool((by_task.max() > (1 + ALIKE) * by_task.min()).any())
