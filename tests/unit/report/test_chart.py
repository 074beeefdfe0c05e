"""A chart as rows: what is known is there, what is not is empty, and no cell is a formula."""

import csv

from dlbench.analysis.statistics.intervals import Interval
from dlbench.analysis.summary_tables import defused
from dlbench.report.chart import COLUMNS, Axis, Chart, Mark, Role, Series, chart_csv, chart_rows, line_mark
from tests.unit.report.charts import EVERY, HOSTILE, bars, hostile, lines, mark


def read(name: str, chart: Chart) -> list[dict[str, str]]:
    return list(csv.DictReader(chart_csv(name, chart).splitlines(keepends=True)))


def test_every_mark_is_a_row_with_all_columns() -> None:
    for chart in EVERY.values():
        found = chart_rows("rate", chart)
        assert len(found) == sum(len(panel.marks()) for panel in chart.panels)
        assert all(tuple(row) == COLUMNS for row in found)


def test_what_is_known_of_a_mark_is_in_its_row() -> None:
    chart = lines(Series("mpi", (mark(2, 1.0, 3.0, 2.0, failed=4, ended=(5.0,)),), emulated="simulated"))
    (row,) = chart_rows("rate", chart)
    assert row["n"] == 3
    assert (row["value"], row["low"], row["high"], row["coverage"]) == (2.0, 1.0, 3.0, 0.75)
    assert (row["num_ended"], row["num_failed"], row["emulated"]) == (1, 4, "simulated")
    assert (row["x"], row["category"], row["role"]) == (2, None, "measured")
    assert isinstance(row["x"], int)


def test_ideals_and_published_numbers_stand_for_no_runs() -> None:
    marks = (line_mark(2, 1.0), Mark(4, interval=Interval(float("nan"), None, None, 1, None)))
    for role in (Role.IDEAL, Role.PUBLISHED, Role.FITTED):
        found = chart_rows("rate", lines(Series("x", marks, role)))
        assert [row["n"] for row in found] == [None, None]
        assert [row["value"] for row in found] == [1.0, None]
    (failed,) = chart_rows("rate", lines(Series("x", (mark(2, failed=1),))))
    assert (failed["n"], failed["value"]) == (0, None)


def test_categories_are_named() -> None:
    first, second, *_ = chart_rows("steps", bars())
    assert (first["category"], second["category"]) == ("one worker alone", "mpi, 2 workers, batch 32")
    beyond = lines(Series("x", (mark(1, 1.0), mark(0.5, 1.0))), x=Axis("", categories=("a",)))
    assert [row["category"] for row in chart_rows("x", beyond)] == [None, None]


def test_no_text_is_a_formula_and_numbers_stay_numbers() -> None:
    texts = ("figure", "panel", "series", "x_label", "category", "y_label")
    found = read("=1+1", hostile())
    assert tuple(found[0]) == COLUMNS
    assert not [row[name] for row in found for name in texts if defused(row[name]) != row[name]]
    assert found[0]["figure"] == "'=1+1"
    assert {text for text in HOSTILE if defused(text) == text} <= {row["series"] for row in found}
    assert read("x", lines(Series("loss", (mark(1, -2.0),))))[0]["value"] == "-2.0"
