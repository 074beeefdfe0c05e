"""The table of arms fits a terminal: no word is broken, numbers get narrower, then columns go, which is said."""

import io

import pytest
from rich.console import Console

from dlbench.analysis.arms import Arm, arms
from dlbench.cli.fitted import DISPENSABLE, fitted
from tests.unit.analysis.made import ALONE, timed

GIVEN = {"target_metric": "validation_accuracy", "target_value": 0.9}


def study() -> list[Arm]:
    rows = [
        *timed("single", 9.0, **GIVEN, **ALONE, batch_size=32),
        *timed("ring", 5.0, strategy="stale_synchronous", batch_size=32, **GIVEN),
        *timed("mpi", 6.0, strategy="mpi", batch_size=32, **GIVEN),
    ]
    return arms([row | {"time_to_target_s": row["train_time_s"] / 2 if row["repeat"] else None} for row in rows])


def drawn(columns: int) -> tuple[str, tuple[str, ...]]:
    _, table, left_out = fitted(study(), columns)
    console = Console(file=io.StringIO(), width=columns)
    console.print(table)
    return console.file.getvalue(), left_out  # type: ignore[attr-defined]


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
def test_no_line_is_too_long_and_no_word_broken(columns: int) -> None:
    text, left_out = drawn(columns)
    assert max(map(len, text.splitlines())) <= columns
    # Heading, rule, rows and two empty lines: no row is folded.
    rows = [line for line in text.splitlines() if any(name in line for name in ("alone", "stale_sync", " mpi"))]
    assert len(rows) == 3
    assert "stale_synchronous" in text
    assert "4/5" in text or "reached" in left_out
    assert list(left_out) == [name for name in DISPENSABLE if name in left_out]


def test_a_wide_terminal_shows_intervals_and_a_narrow_one_margins() -> None:
    wide, nothing = drawn(200)
    narrow, left_out = drawn(80)
    assert "[" in wide
    assert "±" not in wide
    assert nothing == ()
    assert "±" in narrow
    assert "[" not in narrow
    assert left_out[:1] == ("validation loss",)


def test_each_axis_has_a_column_and_the_base_line_is_named() -> None:
    table, _, _ = fitted(study(), 200)
    assert list(table.columns)[:3] == ["strategy", "n", "reached"]
    assert [row[:3] for row in table.rows] == [
        ("one worker alone", "5", "4/5"), ("stale_synchronous", "5", "4/5"), ("mpi", "5", "4/5"),
    ]  # fmt: skip
    assert table.texts == {"strategy"}


def test_a_time_that_some_runs_did_not_come_to_says_so() -> None:
    rows = [
        row | {"time_to_target_s": None} for name in ("ring", "mpi") for row in timed(name, 5.0, strategy=name, **GIVEN)
    ]
    for name, repeat in (("ring", 0), ("ring", 1), ("ring", 2), ("mpi", 0), ("mpi", 1)):
        next(row for row in rows if row["run_id"] == f"{name}-r{repeat}")["time_to_target_s"] = 2.0 + repeat
    table, _, _ = fitted(arms(rows), 200)
    assert table.columns["time to target, s"] == ["4 (3/5 reached)", "not reached"]
    assert table.columns["reached"] == ["3/5", "2/5"]


def test_labels_name_the_base_line_as_columns_do() -> None:
    rows = [*timed("a", 5.0, **ALONE), *timed("b", 6.0, **ALONE)]
    table, _, _ = fitted(arms([row | {"label": "baseline x=1"} for row in rows]), 200)
    assert [row[0] for row in table.rows] == ["one worker alone x=1"] * 2


def test_arms_that_no_setting_tells_apart_have_their_labels() -> None:
    rows = [*timed("a", 5.0), *timed("b", 6.0)]
    table, _, _ = fitted(arms(rows), 200)
    assert next(iter(table.columns)) == "arm"
    assert [row[0] for row in table.rows] == ["label of a", "label of b"]


def test_base_lines_are_named_where_nothing_else_completed() -> None:
    rows = [*timed("a", 5.0, **ALONE, batch_size=8), *timed("b", 6.0, **ALONE, batch_size=16)]
    table, _, _ = fitted(arms(rows), 200)
    assert [row[:2] for row in table.rows] == [("one worker alone", "8"), ("one worker alone", "16")]
