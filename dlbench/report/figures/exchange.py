"""What workers exchanged: bytes for each sample, staleness of gradients and samples in an update."""

from typing import TYPE_CHECKING

from dlbench.analysis.groups import is_alone
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.figures._places import Placed, against, placed, spread
from dlbench.report.figures._rows import numbers
from dlbench.report.figures._shown import in_chart, left_out_note, select_panels
from dlbench.report.lines import series

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 28
PER_SAMPLE = "bytes_per_sample"
SHOWN = {
    PER_SAMPLE: Axis("bytes sent / sample", low=0.0),
    "staleness_mean": Axis("staleness of a gradient (updates)", low=0.0),
    "samples_per_update": Axis("samples in an update", low=0.0),
}
NOTES = (
    "Bytes are those of all workers and servers in messages of the strategy, over the samples that entered updates.",
    "Staleness is the version of the parameters at the update minus the version that the gradient was computed at.",
)


def chart(data: "ReportData") -> Chart:
    """Return bytes for each sample, mean staleness and samples in an update, against batch size or workers.

    Raises:
        MissingRowsError: No completed run has a strategy that sends messages, or there are no two arms of one task.
    """
    runs = _exchanging(data.completed)
    missing = MissingRowsError("needs completed runs of two or more arms whose strategies send messages")
    if not numbers(runs, "messages").notna().any():
        raise missing
    found = select_panels([(one.part, _panels(one)) for one in placed(runs)], missing)
    return Chart(
        title=against("What workers exchanged", found.panels),
        panels=found.panels,
        columns=len(SHOWN),
        notes=(*NOTES, *left_out_note(found.left_out, "without a second arm")),
        runs=in_chart(found.runs, list(SHOWN)),
    )


def _exchanging(runs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the runs of several workers that count their bytes, with bytes / sample."""
    runs = runs[~is_alone(runs) & numbers(runs, "bytes_sent").notna()]
    samples = numbers(runs, "samples_seen")
    return runs.assign(**{PER_SAMPLE: (numbers(runs, "bytes_sent") / samples).where(samples > 0)})


def _panels(one: Placed) -> list[Panel]:
    made = {shown: series(one.part, one.x, shown) for shown in SHOWN}
    return [Panel(one.part.title, one.axis, spread(SHOWN[shown], lines), lines) for shown, lines in made.items()]
