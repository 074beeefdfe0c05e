"""Time and epochs to the target against batch size or workers; runs that never reached it are counted."""

from typing import TYPE_CHECKING

from dlbench.analysis.groups import groups
from dlbench.plugins import Options
from dlbench.report.chart import Axis, Chart, MissingRowsError, Panel
from dlbench.report.figures._places import Placed, against, placed, spread
from dlbench.report.figures._rows import synthetic_note
from dlbench.report.figures._shown import in_chart, left_out_note, select_panels
from dlbench.report.figures._target import TARGET, end_notes, ended, target_name, with_ends, with_target
from dlbench.report.lines import censored_series

if TYPE_CHECKING:
    from dlbench.report.data import ReportData

OPTIONS = Options
ORDER = 5
SHOWN = {
    "time_to_target_s": Axis("time to target (s)", low=0.0),
    "epochs_to_target": Axis("epochs to target", low=0.0),
}


def chart(data: "ReportData") -> Chart:
    """Return time and epochs to the target against batch size or workers.

    Raises:
        MissingRowsError: No run had a target, none of them completed, or there are no two arms of one task.
    """
    runs = with_ends(data.runs)
    targets = list(groups(runs, TARGET))
    only = target_name(targets[0][0]) if len(targets) == 1 else ""
    candidates = [
        (one.part, _panels("" if only else target_name(values), one))
        for values, rows in targets
        for one in placed(rows)
    ]
    found = select_panels(candidates, MissingRowsError("needs completed runs of two or more arms with one target"))
    return Chart(
        title=against(f"Time and epochs to a {only}" if only else "Time and epochs to the targets", found.panels),
        panels=found.panels,
        columns=len(SHOWN),
        notes=(
            *end_notes(found.runs),
            *synthetic_note(with_target(data.runs)),
            *left_out_note(found.left_out, "without a second arm"),
        ),
        runs=in_chart(found.runs, [*SHOWN, *map(ended, SHOWN)]),
    )


def _panels(title: str, one: Placed) -> list[Panel]:
    name = ": ".join(filter(None, (title, one.part.title)))
    made = {reached: censored_series(one.part, one.x, reached, ended(reached)) for reached in SHOWN}
    return [Panel(name, one.axis, spread(SHOWN[reached], lines), lines) for reached, lines in made.items()]
