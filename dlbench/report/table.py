"""A chart as tidy rows, one for each mark but without single points."""

import math
from pathlib import Path

from dlbench.analysis.summary_tables import defused
from dlbench.records import files
from dlbench.records.tables import line
from dlbench.report.chart import Axis, Chart, Mark, Panel, Role, Series

COLUMNS = (
    "figure",
    "panel",
    "series",
    "role",
    "x_label",
    "x",
    "category",
    "y_label",
    "value",
    "low",
    "high",
    "n",
    "coverage",
    "num_ended",
    "num_failed",
    "emulated",
    "flags",
)
# Series of which a number of runs can be told.
OF_RUNS = (Role.MEASURED, Role.BASE_LINE, Role.TOTAL)


def rows(name: str, chart: Chart) -> list[dict[str, object]]:
    """Return a row for each mark of a chart, with the keys COLUMNS in order; what is unknown is None.

    Args:
        name: The figure's.
        chart: What it shows.
    """
    return [
        {"figure": name, **_row(panel, series, mark)}
        for panel in chart.panels
        for series in panel.series
        for mark in series.marks
    ]


def write(path: Path, name: str, chart: Chart) -> None:
    """Replace a CSV file by the rows of a chart; texts that a spreadsheet would compute get a `'` in front.

    Raises:
        OSError: The file cannot be written; it is then as it was.
    """
    lines = (line(map(defused, row.values())) for row in rows(name, chart))
    files.write_text(path, line(COLUMNS) + "".join(lines))


def _row(panel: Panel, series: Series, mark: Mark) -> dict[str, object]:
    interval = mark.interval
    return {
        "panel": panel.title or None,
        "series": series.label or None,
        "role": str(series.role),
        "x_label": panel.x.label or None,
        "x": _place(mark.x),
        "category": _category(panel.x, mark.x),
        "y_label": panel.y.label or None,
        "value": _number(interval.value) if interval else None,
        "low": _number(interval.low) if interval else None,
        "high": _number(interval.high) if interval else None,
        "n": _num_runs(series, mark),
        "coverage": _number(interval.coverage) if interval else None,
        "num_ended": len(mark.ended),
        "num_failed": mark.num_failed,
        "emulated": series.emulated or None,
        "flags": mark.flags or None,
    }


def _num_runs(series: Series, mark: Mark) -> int | None:
    """Return how many runs a value stands for; an ideal, a fit and a published number stand for none."""
    if series.role not in OF_RUNS:
        return None
    return mark.interval.n if mark.interval else len(mark.points)


def _category(axis: Axis, x: float) -> str | None:
    is_one = math.isfinite(x) and float(x).is_integer() and 0 <= x < len(axis.categories)
    return axis.categories[int(x)] if is_one else None


def _place(x: float) -> float | int | None:
    """Return a place as a number, without a point where it is a whole one."""
    found = _number(x)
    return int(found) if found is not None and found.is_integer() and abs(found) < 2**53 else found


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
