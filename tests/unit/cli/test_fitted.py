"""The table of arms fits a terminal: no word is broken, numbers get narrower, then columns go, which is said."""

import io
from itertools import chain, product

import pytest
from rich.console import Console

from dlbench.analysis.arms import Arm, arms
from dlbench.cli.fitted import fitted
from tests.unit.analysis.made import ALONE, timed

GIVEN = {"target_metric": "validation_accuracy", "target_value": 0.9}


def study() -> list[Arm]:
    rows = [
        *timed("single", 9.0, **GIVEN, **ALONE, batch_size=32),
        *timed("ring", 5.0, strategy="stale_synchronous", batch_size=32, **GIVEN),
        *timed("mpi", 6.0, strategy="mpi", batch_size=32, **GIVEN),
    ]
    return arms([row | {"time_to_target_s": row["train_time_s"] / 2 if row["repeat"] else None} for row in rows])


def six_settings() -> list[Arm]:
    axes = {
        "strategy": ("ring_all_reduce", "stale_synchronous"),
        "workers": (2, 4),
        "batch_size": (32, 1024),
        "model.batch_norm": (True, False),
        "communicator.bandwidth_bytes_per_s": (1.25e8, 1.25e9),
        "strategy.gradient_compression": ("deflated_top_k", "none"),
    }
    points = (dict(zip(axes, values, strict=True)) for values in product(*axes.values()))
    made = (timed(f"arm-{seed}", 5.0 + seed % 7, seed=seed, **point, **GIVEN) for seed, point in enumerate(points))
    return arms(
        [row | {"time_to_target_s": row["train_time_s"] / 2 if row["repeat"] else None} for row in chain(*made)]
    )


def drawn(columns: int, found: list[Arm] | None = None) -> tuple[str, tuple[str, ...]]:
    _, table, left_out = fitted(found or study(), columns)
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
    assert "4/5" in text or "reached 4/5" in left_out[0]


def test_six_settings_fit_a_terminal_of_100_columns() -> None:
    text, left_out = drawn(100, six_settings())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert sum("ring_all_reduce  " in line or "stale_synchronous  " in line for line in lines) == 64
    assert "training" in text
    equal, too_wide = left_out
    assert equal == "equal in all arms: n 5, reached 4/5"
    # Measures go before settings, and of these the ones that readers look for last.
    assert too_wide.startswith("too wide for this terminal: validation loss, steady samples/s, validation accuracy")
    assert too_wide.endswith("strategy.gradient_compression")
    _, narrower = drawn(60, six_settings())
    assert narrower[1].endswith("model.batch_norm, batch_size")


def test_a_wide_terminal_shows_intervals_and_a_narrow_one_margins() -> None:
    wide, nothing = drawn(200)
    narrow, left_out = drawn(80)
    assert "[" in wide
    assert "±" not in wide
    assert nothing == ()
    assert "±" in narrow
    assert "[" not in narrow
    assert left_out[0].startswith("equal in all arms: n 5, reached 4/5")


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


def test_a_regression_has_its_error() -> None:
    rows = [*timed("a", 5.0, workers=2), *timed("b", 6.0, workers=4)]
    rows = [row | {"validation_mean_squared_error": 0.25, "validation_accuracy": None} for row in rows]
    table, _, _ = fitted(arms(rows), 200)
    assert table.columns["validation mean squared error"] == ["0.250 [0.250, 0.250]"] * 2
