"""The maps of strategies by workers: what each reaches and sends, and which of them reaches the target first."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Chart, Mark, MissingRowsError
from dlbench.report.figures import winners
from dlbench.report.figures._table import TABLE
from tests.unit.report.figures.makers import Row, report_data, run

FAST, SLOW = [10.0, 10.1, 10.2, 9.9, 9.8], [20.0, 20.1, 20.2, 19.9, 19.8]
TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9, "target_stop": False, "epochs_to_target": 3}
SENT = {"messages": 100, "bytes_sent": 4e6, "samples_seen": 1000, "workers": 2}


def rows(strategy: str, times: list[float] | list[None] | list[float | None] = FAST, **settings: Any) -> list[Row]:
    values: dict[str, Any] = {"train_time_s": 100.0, **TARGET, **SENT, **settings}
    return [run(strategy=strategy, repeat=repeat, time_to_target_s=time, **values) for repeat, time in enumerate(times)]


def exchange(folder: Path, *parts: list[Row]) -> Chart:
    return TABLE["exchange"].chart(report_data(*chain(*parts), tmp_path=folder))


def cells(chart: Chart, measure: str = "") -> dict[tuple[str, str], Mark]:
    """Return the marks of the first map, or that of a measure, by row and workers."""
    panel = next(panel for panel in chart.panels if panel.y.label.startswith(measure))
    assert panel.form == "cells"
    return {(one.label, panel.x.categories[int(mark.x)]): mark for one in panel.series for mark in one.marks}


def first(folder: Path, *parts: list[Row]) -> dict[tuple[str, str], str]:
    """Return the name of the strategy in each cell, by row and workers."""
    chart = winners.chart(report_data(*chain(*parts), tmp_path=folder))
    assert len(chart.panels) == 1
    return {place: mark.name for place, mark in cells(chart).items()}


def test_each_measure_has_a_map_of_strategies_and_workers(tmp_path: Path) -> None:
    found = exchange(
        tmp_path,
        rows("ring"), rows("ring", workers=4, bytes_sent=8e6),
        rows("asynchronous", staleness_mean=1.0), rows("asynchronous", workers=4, staleness_mean=3.0),
    )  # fmt: skip
    assert [panel.y.label for panel in found.panels] == [
        "time to target (s)", "validation accuracy at the end", "bytes sent / sample", "mean staleness (updates)",
    ]  # fmt: skip
    assert {place: mark.interval and mark.interval.value for place, mark in cells(found, "bytes").items()} == {
        ("ring", "2"): 4000.0, ("ring", "4"): 8000.0, ("asynchronous", "2"): 4000.0, ("asynchronous", "4"): 4000.0,
    }  # fmt: skip
    # All maps have the same rows.
    assert {place: mark.points for place, mark in cells(found, "mean staleness").items()} == {
        ("asynchronous", "2"): (1.0,) * 5, ("asynchronous", "4"): (3.0,) * 5, ("ring", "2"): (), ("ring", "4"): (),
    }  # fmt: skip


def test_a_target_that_was_missed_is_later_than_all_others(tmp_path: Path) -> None:
    late = rows("asynchronous", [None, None], epochs_to_target=None, train_time_s=50.0)
    found = cells(exchange(tmp_path, rows("ring", [20.0, 20.0]), late), "time to target")
    assert found["ring", "2"].points == (20.0, 20.0)
    assert found["asynchronous", "2"].ended == (50.0, 50.0)
    assert found["asynchronous", "2"].interval is None


def test_conditions_have_maps_of_their_own_and_variants_rows(tmp_path: Path) -> None:
    bounds = [{"strategy.bound": bound, "train_samples": samples} for bound in (0, 2) for samples in (10, 20)]
    variants = [rows("stale_synchronous", **one) for one in bounds]
    found = exchange(tmp_path, *variants, *(rows("ring", train_samples=samples) for samples in (10, 20)))
    titles = [panel.title for panel in found.panels if panel.y.label.startswith("bytes")]
    assert titles == ["train samples 10", "train samples 20"]
    assert {name for name, _ in cells(found, "bytes")} == {
        "ring", "stale_synchronous, strategy.bound=0", "stale_synchronous, strategy.bound=2",
    }  # fmt: skip


def test_runs_without_messages_of_nodes_or_with_one_strategy_make_no_map(tmp_path: Path) -> None:
    for parts in ([rows("mpi", messages=None), rows("ring", messages=None)], [rows("ring")]):
        with pytest.raises(MissingRowsError, match="two or more strategies"):
            exchange(tmp_path, *parts)


def test_each_cell_names_the_fastest_and_who_cannot_be_told_apart_from_it(tmp_path: Path) -> None:
    close = rows("mpi", [*FAST[:3], 10.05, 9.95], workers=4)
    found = first(tmp_path, rows("mpi"), rows("ring", SLOW), close, rows("ring", workers=4))
    assert found["all", "2"] == "mpi"
    assert found["all", "4"] in ("mpi +1", "ring +1")


def test_conditions_are_rows_and_of_a_strategys_variants_the_best_counts(tmp_path: Path) -> None:
    found = first(
        tmp_path,
        rows("mpi", SLOW, train_samples=100), rows("mpi", train_samples=200),
        rows("ring", train_samples=100, algorithm="a"), rows("ring", SLOW, train_samples=100, algorithm="b"),
        rows("ring", SLOW, train_samples=200, algorithm="a"),
    )  # fmt: skip
    assert found == {("train samples 100", "2"): "ring", ("train samples 200", "2"): "mpi"}


def test_who_misses_the_target_or_diverges_in_half_of_the_runs_wins_nothing(tmp_path: Path) -> None:
    late: list[float | None] = [5.0, 5.1, None, None, None]
    never = {**TARGET, "epochs_to_target": None, "workers": 2, "status": "diverged"}
    diverged = [*rows("mpi", [1.0]), *(run(strategy="mpi", repeat=repeat, **never) for repeat in range(1, 5))]
    others = (rows("ring"), rows("mpi", workers=4), rows("ring", SLOW, workers=4))
    for bad in (rows("mpi", late), diverged):
        assert first(tmp_path, bad, *others) == {("all", "2"): "ring", ("all", "4"): "mpi"}


def test_a_run_that_was_interrupted_costs_its_arm_no_win(tmp_path: Path) -> None:
    stopped = run(strategy="mpi", repeat=5, **TARGET | {"epochs_to_target": None}, workers=2, status="interrupted")
    others = (rows("ring", SLOW), rows("mpi", workers=4), rows("ring", SLOW, workers=4))
    assert first(tmp_path, [*rows("mpi"), stopped], *others) == {("all", "2"): "mpi", ("all", "4"): "mpi"}


def test_a_map_of_the_first_needs_a_target_and_two_strategies_that_reach_it_at_two_places(tmp_path: Path) -> None:
    alone = [rows(name, [None] * 3, workers=n) for name, n in (("ring", 2), ("mpi", 4), ("ring", 4))]
    for parts in (
        [rows("mpi"), rows("mpi", workers=4)], [rows("mpi"), rows("ring", SLOW)], [rows("mpi", FAST[:3]), *alone],
    ):  # fmt: skip
        with pytest.raises(MissingRowsError, match="two or more strategies"):
            first(tmp_path, *parts)
    with pytest.raises(MissingRowsError, match="needs a target"):
        first(tmp_path, [run(), run(strategy="ring")])


def test_tasks_of_a_table_have_maps_of_their_own(tmp_path: Path) -> None:
    lines = [
        rows(strategy, times, workers=workers, command="imported", **{"imported.benchmark": task})
        for task in ("bert", "cnn")
        for workers in (2, 4)
        for strategy, times in (("ring", FAST), ("asynchronous", SLOW))
    ]
    found = winners.chart(report_data(*chain(*lines), tmp_path=tmp_path))
    assert [panel.title.partition(":")[0] for panel in found.panels] == ["benchmark bert", "benchmark cnn"]
