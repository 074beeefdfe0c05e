"""The studies in the repository, and what any chart has to keep to."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from dlbench.report.chart import Chart, Panel, Role
from dlbench.report.data import ReportData, read
from tests.unit.report.figures.makers import report_data

ROOT = Path(__file__).parents[4]
STUDIES = {
    "cifar10": ROOT / "results" / "cifar10-resnet20",
    "digits": ROOT / "results" / "digits-batch-workers",
    "dividing": ROOT / "results" / "dividing",
    "fixture": ROOT / "tests" / "fixtures" / "study-v1",
}


def study(name: str) -> ReportData:
    """Read one of them."""
    return read([STUDIES[name]])


def drawn(
    chart: Callable[[ReportData], Chart],
    *rows: Mapping[str, Any],
    tmp_path: Path,
    sensors: Iterable[Mapping[str, Any]] = (),
) -> Chart:
    """Return a sound chart of rows."""
    found = report_data(*rows, sensors=sensors, tmp_path=tmp_path)
    made = chart(found)
    check(made, found)
    return made


def check(made: Chart, found: ReportData) -> None:
    """Assert what holds of every chart: real runs, marks in order, finite numbers, medians within their intervals."""
    assert made.runs
    assert made.runs <= set(zip(found.runs["study"], found.runs["run_id"], strict=True))
    assert made.panels
    assert len({(panel.title, panel.x.label, panel.y.label) for panel in made.panels}) == len(made.panels)
    assert not made.title.endswith(".")
    assert all(note.endswith(".") for note in made.notes)
    for panel in made.panels:
        assert panel.series
        _check_panel(panel)


def _check_panel(panel: Panel) -> None:
    lines = [(series.label, series.emulated, series.role) for series in panel.series]
    assert len(set(lines)) == len(lines)
    for series in panel.series:
        places = [mark.x for mark in series.marks]
        assert places == sorted(set(places))
        for mark in series.marks:
            assert all(math.isfinite(value) for value in (mark.x, *mark.points, *mark.ended))
            assert mark.interval is not None or not mark.points or mark.ended
            assert series.role in (Role.MEASURED, Role.BASE_LINE) or not mark.points
            interval = mark.interval
            if interval is not None and interval.low is not None and interval.high is not None:
                assert interval.low <= interval.value <= interval.high
