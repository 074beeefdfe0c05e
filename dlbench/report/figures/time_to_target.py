"""Training time and epochs to the target against batch size and workers; runs that never reached it are counted."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dlbench.analysis.groups import groups
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel, hued
from dlbench.report.figures._rows import batch_axis, by_scope, synthetic_note
from dlbench.report.figures._scaling import WORKERS
from dlbench.report.figures._shown import in_chart, left_out_note, select_panels
from dlbench.report.figures._target import TARGET, end_notes, ended, target_name, with_ends, with_target
from dlbench.report.lines import Part, censored_series, parts

if TYPE_CHECKING:
    import pandas as pd

    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 80
SHOWN = {
    "time_to_target_s": Axis("training time to the target (s)", low=0.0),
    "epochs_to_target": Axis("epochs to the target", low=0.0),
}


def chart(data: "ReportData") -> Chart:
    """Return time and epochs to the target against whichever of batch size and workers varies.

    Raises:
        MissingRowsError: No run had a target, none of them completed, or neither batch size nor workers vary.
    """
    runs = with_ends(data.runs)
    targets = list(groups(runs, TARGET))
    only = target_name(targets[0][0]) if len(targets) == 1 else ""
    candidates = [
        (part, _panels("" if only else target_name(values), part, x, axis))
        for values, rows in targets
        for part, x, axis in _places(rows)
    ]
    lacking = MissingRowsError("needs completed runs with one target at two or more batch sizes or numbers of workers")
    found = select_panels(candidates, lacking)
    return Chart(
        title=f"Time and epochs to a {only}" if only else "Time and epochs to the targets",
        panels=hued(found.panels),
        columns=len(SHOWN),
        notes=(
            *end_notes(found.runs),
            *synthetic_note(with_target(data.runs)),
            *left_out_note(found.left_out, "where nothing varies"),
        ),
        runs=in_chart(found.runs, [*SHOWN, *map(ended, SHOWN)]),
    )


def _places(runs: "pd.DataFrame") -> Iterator[tuple[Part, str, Axis]]:
    """Yield the parts to draw against batch size, of one worker and of all apart, then those against workers."""
    known = runs[runs["time_to_target_s"].notna() | runs[ended("time_to_target_s")].notna()]
    if known["batch_size"].nunique() > 1:
        for _, rows in by_scope(runs):
            yield from ((part, "batch_size", batch_axis(rows)) for part in parts(rows, x="batch_size"))
    if known["workers"].nunique() > 1:
        yield from ((part, "workers", WORKERS) for part in parts(runs, x="workers"))


def _panels(title: str, part: Part, x: str, axis: Axis) -> list[Panel]:
    name = ": ".join(filter(None, (title, part.title)))
    return [Panel(name, axis, SHOWN[reached], censored_series(part, x, reached, ended(reached))) for reached in SHOWN]
