"""`summary.csv` and `arms.csv`: the settings that vary and the results, in the order in which they are read."""

import csv
import io
import random
from typing import Any

import pytest

from dlbench.analysis.summary_tables import defused, tables


def row(strategy: str, workers: int, momentum: float, repeat: int, **more: Any) -> dict[str, Any]:
    name = f"mlp-{strategy}-w{workers}-m{momentum:g}"
    return {
        "study": "s", "run_id": f"{name}-r{repeat}", "attempt": 1, "label": name, "repeat": repeat, "baseline": False,
        "status": "completed", "model": "mlp", "dataset": "digits", "strategy": strategy, "workers": workers,
        "batch_size": 16, "momentum": momentum, "train_time_s": 1.0 + repeat, "samples_per_s": None,
        "validation_accuracy": 0.9, "validation_loss": 0.3, "epochs": 2, **more,
    }  # fmt: skip


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    found = [row("mpi", n, momentum, r) for n in (2, 10, 1) for momentum in (0.9, 0.0) for r in range(3)]
    found += [row("single", 1, 0.0, r, baseline=True) for r in range(3)]
    random.Random(1).shuffle(found)
    return found


def test_a_row_for_each_run_with_what_varies_and_the_results(rows: list[dict[str, Any]]) -> None:
    again = {**rows[0], "attempt": 2, "status": "failed", "train_time_s": None}
    found = read(tables([*rows, again])["summary.csv"])
    assert list(found[0]) == [
        "run_id", "strategy", "workers", "batch_size", "momentum", "baseline", "repeat", "status",
        "train_time_s", "samples_per_s", "validation_accuracy", "validation_loss",
    ]  # fmt: skip
    assert len(found) == len(rows)
    keys = [(one["strategy"], int(one["workers"]), float(one["momentum"]), int(one["repeat"])) for one in found]
    assert keys == sorted(keys)
    (failed,) = [one for one in found if one["status"] == "failed"]
    assert (failed["run_id"], failed["train_time_s"]) == (again["run_id"], "")


@pytest.mark.parametrize(
    "values",
    [{"time_to_target_s": "0.5", "emulated": "oversubscribed"}, {"validation_mean_squared_error": "0.25"}],
)
def test_what_only_some_studies_have_has_columns_there(rows: list[dict[str, Any]], values: dict[str, str]) -> None:
    found = read(tables([{**one, **values} for one in rows])["summary.csv"])
    assert [{name: one[name] for name in values} for one in found] == [values] * len(rows)


def test_a_row_for_each_arm_and_metric(rows: list[dict[str, Any]]) -> None:
    found = read(tables(rows)["arms.csv"])
    assert {one["metric"] for one in found} == {"train_time_s", "validation_accuracy", "validation_loss"}
    assert len({one["arm"] for one in found}) == 7
    times = [one for one in found if one["metric"] == "train_time_s"]
    assert {(one["median"], one["low"], one["high"], one["n"]) for one in times} == {("2.0", "1.0", "3.0", "3")}
    assert {one["momentum"] for one in times} == {"0.0", "0.9"}


def test_no_cell_is_a_formula_and_no_run_makes_no_table(rows: list[dict[str, Any]]) -> None:
    odd = [{**one, "label": "=1+1", "model": "-m:net"} for one in rows[:9]] + rows[9:]
    text = tables(odd)["summary.csv"] + tables(odd)["arms.csv"]
    assert "'=1+1" in text
    assert "'-m:net" in text
    assert ",=1" not in text
    assert tables([]) == {}


def test_a_target_that_half_never_reached_has_no_median(rows: list[dict[str, Any]]) -> None:
    some = [{**one, "target_value": 0.9, "time_to_target_s": 0.5 if one["repeat"] == 0 else None} for one in rows]
    assert "time_to_target_s" not in {one["metric"] for one in read(tables(some)["arms.csv"])}


def test_what_a_spreadsheet_takes_for_a_formula_is_text():
    cases = {
        "=cmd|'/c calc'!A0": "'=cmd|'/c calc'!A0", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\t=1": "'\t'=1",
        "\uff1d1": "'\uff1d1", "a;=1": "a;'=1", "a;b": "a;b", "a=1": "a=1", "'=1": "'=1", "": "", -1: -1, None: None,
    }  # fmt: skip
    assert {value: defused(value) for value in cases} == cases
