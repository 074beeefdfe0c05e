"""The map of the strategies that reach a target first."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import MissingRowsError
from dlbench.report.figures.winners import chart
from tests.unit.report.figures.makers import report_data, run

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9, "target_stop": False, "epochs_to_target": 3}


def rows(strategy: str, times: list[float | None], **settings: Any) -> list[dict[str, Any]]:
    return [
        run(strategy=strategy, repeat=repeat, time_to_target_s=time, train_time_s=100.0, **TARGET | settings)
        for repeat, time in enumerate(times)
    ]


def cells(folder: Path, *found: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[str, float]]:
    """Return name and time by row and workers."""
    made = chart(report_data(*(row for part in found for row in part), tmp_path=folder))
    (panel,) = made.panels
    assert panel.form == "cells"
    return {
        (series.label, panel.x.categories[int(mark.x)]): (mark.name, mark.interval.value if mark.interval else 0.0)
        for series in panel.series
        for mark in series.marks
    }


FAST, SLOW = [10.0, 10.1, 10.2, 9.9, 9.8], [20.0, 20.1, 20.2, 19.9, 19.8]


def test_each_cell_names_the_fastest_and_who_cannot_be_told_apart_from_it(tmp_path: Path) -> None:
    found = cells(
        tmp_path,
        rows("mpi", FAST, workers=2), rows("ring", SLOW, workers=2),
        rows("mpi", [*FAST[:3], 10.05, 9.95], workers=4), rows("ring", FAST, workers=4),
    )  # fmt: skip
    assert found["all", "2"] == ("mpi", 10.0)
    assert found["all", "4"][0] in ("mpi +1", "ring +1")


def test_conditions_are_rows_and_of_a_strategys_variants_the_best_counts(tmp_path: Path) -> None:
    found = cells(
        tmp_path,
        rows("mpi", SLOW, workers=2, train_samples=100), rows("mpi", FAST, workers=2, train_samples=200),
        rows("ring", FAST, workers=2, train_samples=100, algorithm="a"),
        rows("ring", SLOW, workers=2, train_samples=100, algorithm="b"),
        rows("ring", SLOW, workers=2, train_samples=200, algorithm="a"),
    )  # fmt: skip
    assert {row: name for (row, _), (name, _) in found.items()} == {
        "train samples 100": "ring",
        "train samples 200": "mpi",
    }


def test_who_did_not_reach_the_target_in_half_of_the_runs_wins_nothing(tmp_path: Path) -> None:
    late: list[float | None] = [5.0, 5.1, None, None, None]
    found = cells(
        tmp_path,
        rows("mpi", late, workers=2), rows("ring", FAST, workers=2), rows("mpi", FAST, workers=4),
        rows("ring", SLOW, workers=4),
    )  # fmt: skip
    assert {place: name for (_, place), (name, _) in found.items()} == {"2": "ring", "4": "mpi"}


def test_who_alone_reaches_the_target_somewhere_makes_no_map(tmp_path: Path) -> None:
    late: list[float | None] = [None] * 3
    with pytest.raises(MissingRowsError):
        cells(
            tmp_path, rows("mpi", FAST[:3], workers=2),
            *(rows(name, late, workers=n) for name, n in (("ring", 2), ("mpi", 4), ("ring", 4))),
        )  # fmt: skip


def test_who_diverges_most_of_the_time_wins_nothing(tmp_path: Path) -> None:
    failed = [run(strategy="mpi", repeat=repeat, workers=2, status="diverged", **TARGET | {"epochs_to_target": None})
              for repeat in range(1, 5)]  # fmt: skip
    found = cells(
        tmp_path, [*rows("mpi", [1.0], workers=2), *failed], rows("ring", FAST, workers=2),
        rows("mpi", FAST, workers=4), rows("ring", SLOW, workers=4),
    )  # fmt: skip
    assert {place: name for (_, place), (name, _) in found.items()} == {"2": "ring", "4": "mpi"}


def test_a_map_needs_a_target_and_two_strategies_at_two_places(tmp_path: Path) -> None:
    with pytest.raises(MissingRowsError, match="two or more strategies"):
        cells(tmp_path, rows("mpi", FAST, workers=2), rows("mpi", FAST, workers=4))
    with pytest.raises(MissingRowsError, match="two or more strategies"):
        cells(tmp_path, rows("mpi", FAST, workers=2), rows("ring", SLOW, workers=2))
    with pytest.raises(MissingRowsError, match="needs a target"):
        chart(report_data(run(), run(strategy="ring"), tmp_path=tmp_path))
