"""A chart as tidy rows, one for each mark but without single points."""

import math
from pathlib import Path

from dlbench.analysis.summary_tables import defused
from dlbench.records import files
from dlbench.records.tables import line
from dlbench.report.chart import OF_RUNS, Chart, Mark, Panel, Series

COLUMNS = (
    "figure", "panel", "series", "role", "x_label", "x", "category", "y_label", "value", "low", "high", "n", "coverage",
    "num_ended", "num_failed", "emulated", "flags",
)  # fmt: skip


def rows(name: str, chart: Chart) -> list[dict[str, object]]:
    """Return a row for each mark of a chart, with the keys COLUMNS in order; what is unknown is None.

    Args:
        name: The figure's.
        chart: What it shows.
    """
    return [
        _row(name, panel, series, mark) for panel in chart.panels for series in panel.series for mark in series.marks
    ]


def write(path: Path, name: str, chart: Chart) -> None:
    """Replace a CSV file by the rows of a chart; texts that a spreadsheet would compute get a `'` in front.

    Raises:
        OSError: The file cannot be written; it is then as it was.
    """
    lines = (line(map(defused, row.values())) for row in rows(name, chart))
    files.write_text(path, line(COLUMNS) + "".join(lines))


def _row(name: str, panel: Panel, series: Series, mark: Mark) -> dict[str, object]:
    interval = mark.interval
    value, low, high, coverage = (_number(getattr(interval, key, None)) for key in ("value", "low", "high", "coverage"))
    # An ideal, a fit and a published number stand for no runs.
    num_runs = None if series.role not in OF_RUNS else interval.n if interval else len(mark.points)
    x = _number(mark.x)
    is_whole = x is not None and x.is_integer() and abs(x) < 2**53
    category = panel.x.categories[int(mark.x)] if is_whole and 0 <= mark.x < len(panel.x.categories) else None
    cells = (
        name, panel.title or None, series.label or None, str(series.role), panel.x.label or None,
        int(mark.x) if is_whole else x, category, panel.y.label or None, value, low, high, num_runs, coverage,
        len(mark.ended), mark.num_failed, series.emulated or None, mark.flags or None,
    )  # fmt: skip
    return dict(zip(COLUMNS, cells, strict=True))


def _number(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
