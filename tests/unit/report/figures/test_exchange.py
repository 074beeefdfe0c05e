"""The maps of what each strategy of nodes comes to."""

from pathlib import Path
from typing import Any

import pytest

from dlbench.report.chart import Chart, Mark, MissingRowsError
from dlbench.report.figures._table import TABLE
from tests.unit.report.figures.makers import report_data, run

TARGET = {"target_metric": "validation_accuracy", "target_value": 0.9, "target_stop": False}


def rows(strategy: str, **settings: Any) -> list[dict[str, Any]]:
    given = {
        "time_to_target_s": 20.0, "train_time_s": 100.0, "epochs_to_target": 3,
        "messages": 100, "bytes_sent": 4e6, "samples_seen": 1000,
    }  # fmt: skip
    return [run(strategy=strategy, repeat=repeat, **given | TARGET | settings) for repeat in (0, 1)]


def made(folder: Path, *found: list[dict[str, Any]]) -> Chart:
    return TABLE["exchange"].chart(report_data(*(row for part in found for row in part), tmp_path=folder))


def cells(found: Chart, measure: str) -> dict[tuple[str, str], Mark]:
    """Return the marks of one measure by row and workers."""
    panel = next(panel for panel in found.panels if panel.y.label.startswith(measure))
    assert panel.form == "cells"
    return {(one.label, panel.x.categories[int(mark.x)]): mark for one in panel.series for mark in one.marks}


def value(mark: Mark) -> float:
    assert mark.interval is not None
    return mark.interval.value


def test_each_measure_has_a_map_of_strategies_and_workers(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        rows("ring", workers=2, staleness_mean=None), rows("ring", workers=4, staleness_mean=None, bytes_sent=8e6),
        rows("asynchronous", workers=2, staleness_mean=1.0), rows("asynchronous", workers=4, staleness_mean=3.0),
    )  # fmt: skip
    assert [panel.y.label for panel in found.panels] == [
        "time to target (s)", "validation accuracy at the end", "bytes sent / sample", "mean staleness (updates)",
    ]  # fmt: skip
    sent = cells(found, "bytes")
    assert {place: value(mark) for place, mark in sent.items()} == {
        ("ring", "2"): 4000.0, ("ring", "4"): 8000.0, ("asynchronous", "2"): 4000.0, ("asynchronous", "4"): 4000.0,
    }  # fmt: skip
    stale = cells(found, "mean staleness")
    assert [value(stale["asynchronous", workers]) for workers in "24"] == [1.0, 3.0]
    assert ("ring", "2") not in stale


def test_a_target_that_was_missed_is_later_than_all_others(tmp_path: Path) -> None:
    late = rows("asynchronous", workers=2, time_to_target_s=None, epochs_to_target=None, train_time_s=50.0)
    found = cells(made(tmp_path, rows("ring", workers=2), late), "time to target")
    assert value(found["ring", "2"]) == 20.0
    assert found["asynchronous", "2"].ended == (50.0, 50.0)
    assert found["asynchronous", "2"].interval is None


def test_conditions_have_maps_of_their_own_and_variants_rows(tmp_path: Path) -> None:
    bounds = [{"strategy.bound": bound, "train_samples": samples} for bound in (0, 2) for samples in (10, 20)]
    found = made(
        tmp_path,
        *(rows("stale_synchronous", workers=2, **one) for one in bounds),
        *(rows("ring", workers=2, train_samples=samples) for samples in (10, 20)),
    )  # fmt: skip
    titles = [panel.title for panel in found.panels if panel.y.label.startswith("bytes")]
    assert titles == ["train samples 10", "train samples 20"]
    assert {name for name, _ in cells(found, "bytes")} == {
        "ring", "stale_synchronous, strategy.bound=0", "stale_synchronous, strategy.bound=2",
    }  # fmt: skip


def test_runs_without_messages_of_nodes_or_with_one_strategy_make_no_map(tmp_path: Path) -> None:
    for found in ([rows("mpi", messages=None), rows("ring", messages=None)], [rows("ring")]):
        with pytest.raises(MissingRowsError, match="two or more strategies"):
            made(tmp_path, *found)
