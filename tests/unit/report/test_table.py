"""A chart as rows: what is known is there, what is not is empty, and no cell is a formula."""

import csv
from pathlib import Path

from dlbench.analysis.statistics.intervals import Interval
from dlbench.analysis.summary_tables import defused
from dlbench.report.chart import Axis, Mark, Role, Series, line_mark
from dlbench.report.table import COLUMNS, rows, write
from tests.unit.report.charts import EVERY, HOSTILE, bars, hostile, lines, mark


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_mark_is_a_row_with_all_columns() -> None:
    for chart in EVERY.values():
        found = rows("rate", chart)
        assert len(found) == sum(len(one.marks) for panel in chart.panels for one in panel.series)
        assert all(tuple(row) == COLUMNS for row in found)


def test_what_is_known_of_a_mark_is_in_its_row() -> None:
    chart = lines(Series("mpi", (mark(2, 1.0, 3.0, 2.0, failed=4, ended=(5.0,)),), emulated="simulated"))
    (row,) = rows("rate", chart)
    assert row["n"] == 3
    assert (row["value"], row["low"], row["high"], row["coverage"]) == (2.0, 1.0, 3.0, 0.75)
    assert (row["num_ended"], row["num_failed"], row["emulated"]) == (1, 4, "simulated")
    assert (row["x"], row["category"], row["role"]) == (2, None, "measured")
    assert isinstance(row["x"], int)


def test_ideals_and_published_numbers_stand_for_no_runs() -> None:
    marks = (line_mark(2, 1.0), Mark(4, interval=Interval(float("nan"), None, None, 1, None)))
    for role in (Role.IDEAL, Role.PUBLISHED, Role.FITTED):
        found = rows("rate", lines(Series("x", marks, role)))
        assert [row["n"] for row in found] == [None, None]
        assert [row["value"] for row in found] == [1.0, None]
    (failed,) = rows("rate", lines(Series("x", (mark(2, failed=1),))))
    assert (failed["n"], failed["value"]) == (0, None)


def test_categories_are_named() -> None:
    assert [row["category"] for row in rows("steps", bars())][:2] == ["one worker alone", "mpi, 2 workers, batch 32"]
    beyond = lines(Series("x", (mark(1, 1.0), mark(0.5, 1.0))), x=Axis("", categories=("a",)))
    assert [row["category"] for row in rows("x", beyond)] == [None, None]


def test_the_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    write(tmp_path / "rate.csv", "rate", lines())
    found = read(tmp_path / "rate.csv")
    assert tuple(found[0]) == COLUMNS
    assert found[0]["value"] == "102.0"
    assert {row["category"] for row in found} == {""}
    assert [path.name for path in tmp_path.iterdir()] == ["rate.csv"]


def test_no_text_is_a_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    write(tmp_path / "x.csv", "=1+1", hostile())
    texts = ("figure", "panel", "series", "x_label", "category", "y_label")
    found = read(tmp_path / "x.csv")
    assert not [row[name] for row in found for name in texts if defused(row[name]) != row[name]]
    assert found[0]["figure"] == "'=1+1"
    assert {text for text in HOSTILE if defused(text) == text} <= {row["series"] for row in found}
    write(tmp_path / "y.csv", "x", lines(Series("loss", (mark(1, -2.0),))))
    assert read(tmp_path / "y.csv")[0]["value"] == "-2.0"
