"""The studies in the repository, and what any chart of them has to keep to."""

import math
from pathlib import Path

from dlbench.report.chart import Chart
from dlbench.report.evidence import Evidence, read

ROOT = Path(__file__).parents[4]
STUDIES = {
    "cifar10": ROOT / "results" / "cifar10-resnet20",
    "digits": ROOT / "results" / "digits-batch-workers",
    "dividing": ROOT / "results" / "dividing",
    "fixture": ROOT / "tests" / "fixtures" / "study-v1",
}


def study(name: str) -> Evidence:
    """Read one of them."""
    return read([STUDIES[name]])


def check(chart: Chart, evidence: Evidence) -> None:
    """Assert what holds of every chart: real runs, marks in order, finite numbers, medians within their intervals."""
    known = set(zip(evidence.runs["study"], evidence.runs["run_id"], strict=True))
    assert chart.runs
    assert chart.runs <= known
    assert chart.panels
    assert all(note.endswith(".") for note in chart.notes)
    for panel in chart.panels:
        assert panel.series
        for one in panel.series:
            places = [mark.x for mark in one.marks]
            assert places == sorted(set(places))
            for mark in one.marks:
                assert all(math.isfinite(value) for value in (mark.x, *mark.points, *mark.ended))
                interval = mark.interval
                if interval is not None and interval.low is not None and interval.high is not None:
                    assert interval.low <= interval.value <= interval.high
