"""Training time, which decides between arms, and the samples seen in it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, Panel
from dlbench.report.figures._places import Placed, against, placed, spread
from dlbench.report.figures._rows import labels, numbers
from dlbench.report.figures._shown import in_chart, left_out_note, needs_two, select_panels
from dlbench.report.lines import series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 10
TIME = Axis("training time (s)", low=0.0)
SEEN = Axis("samples seen", low=0.0)
# Amounts of work that differ by less than this share are alike.
ALIKE = 0.01
UNEQUAL = "The arms saw unequal numbers of samples."


def chart(data: "ReportData") -> Chart:
    """Return training time against batch size or workers, and the samples seen where arms saw different amounts.

    Raises:
        MissingRowsError: There are no two completed arms of one task with a training time.
    """
    runs = data.runs
    unequal = sees_unequally(runs)
    candidates = [(one.part, list(_panels(one, unequal=unequal))) for one in placed(runs)]
    arms = list(dict.fromkeys(labels(data.completed)))
    found = select_panels(candidates, needs_two("completed runs of two or more arms with a training time", arms))
    return Chart(
        title=against("Training time", found.panels),
        panels=found.panels,
        columns=2 if len(found.panels) > 1 else 1,
        lead=UNEQUAL if unequal else "",
        notes=(
            "Training time is end to end: the first step is in it, evaluations are not.",
            *left_out_note(found.left_out, "without a second arm"),
        ),
        runs=in_chart(found.runs, ["train_time_s"]),
    )


def sees_unequally(runs: "pd.DataFrame") -> bool:
    """Whether completed runs of one model and data set saw numbers of samples that differ by more than ALIKE."""
    seen = numbers(runs, "samples_seen").where(runs["train_time_s"].notna())
    by_task = seen.groupby([runs["model"], runs["dataset"]], dropna=False)
    return bool((by_task.max() > (1 + ALIKE) * by_task.min()).any())


def _panels(one: Placed, *, unequal: bool) -> Iterator[Panel]:
    made = series(one.part, one.x, "train_time_s")
    yield Panel(one.part.title, one.axis, spread(TIME, made), made)
    if unequal:
        yield Panel(one.part.title, one.axis, SEEN, series(one.part, one.x, "samples_seen"))
