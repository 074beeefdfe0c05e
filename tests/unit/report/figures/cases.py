"""Cases of figures: rows, and what their chart then shows, at which place, and says."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Chart, Mark, Panel, Role
from dlbench.report.data import ReportData
from tests.unit.report.figures.makers import Row, report_data

# The values of a series by place: a median (None without one), all points as a tuple, or `see` for the rest of a mark.
Values = Mapping[float, object]


@dataclass(frozen=True)
class Case:
    """Rows of runs and what a figure makes of them; what is not given is not looked at.

    Attributes:
        name: What the case is about.
        rows: Of `runs.csv`.
        shows: By a panel's title or number: all of its series by label, `LABEL (emulated)` for emulated ones, each with
            its values, or ... for a series that is only there.
        titles: Titles of all panels.
        says: Parts of the notes.
        silent: What no note holds.
        num_runs: How many runs are in the chart.
        more: Rows of other tables, by name.
    """

    name: str
    rows: Sequence[Row]
    shows: Mapping[str | int, Mapping[str, Any]] = field(default_factory=dict)
    titles: Sequence[str] | None = None
    says: Sequence[str] = ()
    silent: Sequence[str] = ()
    num_runs: int | None = None
    more: Mapping[str, Sequence[Row]] = field(default_factory=dict)


def see(*points: float, **others: object) -> tuple[tuple[float, ...], dict[str, object]]:
    """Return what is expected of a mark: points in any order, and `ended`, `flags`, `low`, `high`, `num_failed`."""
    return tuple(sorted(points)), others


def drawn(chart: Callable[[ReportData], Chart], *rows: Row, tmp_path: Path, **more: Iterable[Row]) -> Chart:
    """Return a sound chart of rows."""
    found = report_data(*rows, tmp_path=tmp_path, **more)  # type: ignore[arg-type]
    made = chart(found)
    check(made, found)
    return made


def check_cases(chart: Callable[[ReportData], Chart], cases: Sequence[Case], tmp_path: Path) -> None:
    """Draw every case, and name the one that is not as it should be."""
    for case in cases:
        try:
            _check_case(drawn(chart, *case.rows, tmp_path=tmp_path, **case.more), case)
        except AssertionError as error:
            raise AssertionError(f"{case.name}: {error}") from error


def _check_case(made: Chart, case: Case) -> None:
    notes = " ".join(made.notes)
    assert case.titles is None or [panel.title for panel in made.panels] == list(case.titles)
    assert case.num_runs in (None, len(made.runs))
    for part in case.says:
        assert part in notes
    for part in case.silent:
        assert part not in notes
    for key, lines in case.shows.items():
        found = made.panels[key] if isinstance(key, int) else next(one for one in made.panels if one.title == key)
        series = {f"{one.label}{' (emulated)' if one.emulated else ''}": one for one in found.series}
        assert set(series) == set(lines), f"series of {key!r}"
        for label, values in lines.items():
            if values is not ...:
                marks = {mark.x: mark for mark in series[label].marks}
                assert sorted(marks) == pytest.approx(sorted(values)), f"places of {label!r} in {key!r}"
                for mark, expected in zip(marks.values(), dict(sorted(values.items())).values(), strict=True):
                    _check_mark(mark, expected, f"{label!r} in {key!r} at {mark.x}")


def _check_mark(mark: Mark, expected: object, where: str) -> None:
    if not isinstance(expected, tuple):
        assert (mark.interval and mark.interval.value) == (expected if expected is None else pytest.approx(expected)), (
            where
        )
        return
    points, others = expected
    assert sorted(mark.points) == pytest.approx(points), where
    for name, value in others.items():
        found = getattr(mark if name in ("ended", "num_failed", "flags") else mark.interval, name)
        assert found == (value if value is None or isinstance(value, str) else pytest.approx(value)), (
            f"{name} of {where}"
        )


def check(made: Chart, found: ReportData) -> None:
    """Assert what holds of every chart: real runs, marks in order, finite numbers, medians within their intervals."""
    assert made.runs
    assert made.runs <= {(row["study"], row["run_id"]) for row in found.runs}
    assert made.panels
    assert len({(panel.title, panel.x.label, panel.y.label) for panel in made.panels}) == len(made.panels)
    assert made.title
    assert not made.title.endswith(".")
    assert all(note.endswith(".") for note in made.notes)
    for panel in made.panels:
        assert panel.series
        assert panel.y.label
        _check_panel(panel)


def _check_panel(panel: Panel) -> None:
    lines = [(series.label, series.emulated, series.role) for series in panel.series]
    assert len(set(lines)) == len(lines)
    for series in panel.series:
        places = [mark.x for mark in series.marks]
        assert places == sorted(set(places))
        for mark in series.marks:
            assert all(map(math.isfinite, (mark.x, *mark.points)))
            assert not any(map(math.isnan, mark.ended))
            assert mark.interval is not None or not mark.points or mark.ended
            assert series.role in (Role.MEASURED, Role.BASE_LINE, Role.TOTAL) or not mark.points
            interval = mark.interval
            if interval is not None and interval.low is not None and interval.high is not None:
                assert interval.low <= interval.value <= interval.high
