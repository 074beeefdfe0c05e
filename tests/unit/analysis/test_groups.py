"""In what runs differ, and what it is called."""

import pandas as pd
import pytest

from dlbench.analysis.groups import described, frame, groups, is_alone, naming, varying, with_placement

COLUMNS = {
    "baseline": False,
    "model": "cnn",
    "dataset": "digits",
    "strategy": "mpi",
    "algorithm": None,
    "workers": 2,
    "batch_size": 32,
    "epochs": 3,
    "collectives": "mpi",
    "model.filters": "[8]",
    "emulated": None,
}


def runs(*changes: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame([COLUMNS | change for change in changes])


KNOWN = {"dataset": "digits", "train_samples": 9}, {"dataset": "text", "train_samples": 7}
BASE = {"baseline": True, "strategy": "single", "workers": 1}


@pytest.mark.parametrize(
    ("changes", "x", "expected"),
    [
        # In the order of the settings.
        ([{"batch_size": 8, "workers": 1}, {"batch_size": 16, "workers": 1}, {"workers": 2}], "", "workers batch_size"),
        # What follows from the strategy is left out, what varies within one or has nothing to do with it is not.
        ([{"strategy": "horovod", "collectives": "gloo"}, {"collectives": "mpi"}], "", "strategy"),
        ([{"strategy": "horovod", "collectives": "gloo"}, {"strategy": "horovod"}], "", "collectives"),
        ([{"strategy": "horovod", "batch_size": 64}, {"batch_size": 8}], "workers", "strategy batch_size"),
        # Runs of two studies, or on two devices, are no repeats of each other.
        ([{"study": "a", "device_name": "X"}, {"study": "b", "device_name": "Y"}], "", "study"),
        ([{"study": "a", "model": "cnn"}, {"study": "b", "model": "lstm"}], "", "model"),
        ([{"study": "a", "device_name": "X"}, {"study": "a", "device_name": "Y"}], "", "device_name"),
        # A failed run that does not know a setting makes no difference.
        ([*KNOWN, {"dataset": "text", "train_samples": None}], "", "dataset"),
        # What follows from the horizontal axis is left out, and the axis itself.
        ([{"batch_size": 8}, {"batch_size": 16}], "batch_size", ""),
        ([{"batch_size": 8, "epochs": 2}, {"batch_size": 16, "epochs": 4}], "batch_size", ""),
        ([{"batch_size": 8, "epochs": 2}, {"batch_size": 16, "epochs": 4}], "workers", "batch_size epochs"),
        # Options of plugins count, unknown cells do not.
        ([{"model.filters": "[8]"}, {"model.filters": "[16]"}, {"model.filters": None}], "", "model.filters"),
        ([{"algorithm": None}, {"algorithm": "ring"}], "", ""),
        # Base lines do not count unless there is nothing else.
        ([{}, BASE], "", ""),
        ([BASE, BASE | {"batch_size": 64}], "", "batch_size"),
    ],
)
def test_what_varies(changes: list[dict[str, object]], x: str, expected: str) -> None:
    assert varying(runs(*changes), x=x) == tuple(expected.split())


def test_groups_come_by_size_and_by_letter() -> None:
    found = runs({"batch_size": 128}, {"batch_size": 16}, {"strategy": "horovod", "batch_size": 16})
    keys = [tuple(values.values()) for values, _ in groups(found, ["batch_size", "strategy"])]
    assert keys == [(16, "horovod"), (16, "mpi"), (128, "mpi")]


def test_one_group_without_keys() -> None:
    ((values, rows),) = groups(runs({}, {}), [])
    assert values == {}
    assert len(rows) == 2


def test_unknown_values_make_a_group_and_come_first() -> None:
    found = runs({"algorithm": "ring"}, {"algorithm": None})
    assert [len(rows) for _, rows in groups(found, ["algorithm"])] == [1, 1]
    assert described(next(iter(groups(found, ["algorithm"])))[0]) == ""


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"strategy": "mpi", "workers": 2, "batch_size": 32}, "mpi, 2 workers, batch 32"),
        ({"workers": 1}, "1 worker"),
        ({"learning_rate_base": 0.1}, "learning_rate=0.1"),
        ({"algorithm": None, "model": "cnn"}, "cnn"),
        ({"jit_compile": True}, "jit_compile=true"),
        ({"placement": "scale-out"}, "scale-out"),
        ({}, ""),
    ],
)
def test_values_are_said_as_people_say_them(values: dict[str, object], text: str) -> None:
    assert described(values) == text


def test_placement_is_the_mode_or_the_workers_of_a_host() -> None:
    found = with_placement(pd.DataFrame({"mode": ["scale-up", None], "workers_per_host": [2, 4]}))
    assert list(found["placement"]) == ["scale-up", "4 per host"]


def test_rows_that_were_not_read_from_a_file_have_the_same_placements_and_lists_as_text() -> None:
    common = {"run_id": "a-r0", "mode": None, "model.hidden": [8]}
    found = frame([common | {"workers_per_host": 2}, common | {"workers_per_host": None}])
    assert found["placement"].tolist()[0] == "2 per host"
    assert found["model.hidden"].tolist() == ["[8]", "[8]"]


def test_one_worker_without_a_library_is_alone() -> None:
    found = runs({"strategy": "single", "workers": 1}, {"strategy": "mpi", "workers": 1}, {"strategy": None})
    assert list(is_alone(found)) == [True, False, False]


def test_a_cell_that_does_not_fit_its_column_breaks_no_table() -> None:
    found = frame([{"mode": "scale-up", "workers_per_host": 2, "seed": 2**63, "workers": 2}])
    assert (int(found["seed"][0]), found["workers"][0], found["workers"].dtype.name) == (2**63, 2, "Int64")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{"workers": 1}, {"workers": 4}], "strategy workers"),
        ([{"model": "lstm"}, {"batch_size": 8}, {}], "model strategy batch_size"),
        ([{"strategy": "horovod"}, {"workers": 4}, BASE], "strategy workers"),
        # One worker alone has no strategy to name.
        ([BASE, BASE | {"batch_size": 64}], "batch_size"),
    ],
)
def test_names_state_the_strategy_also_where_all_have_the_same(changes: list[dict[str, object]], expected: str) -> None:
    assert naming(runs(*changes)) == tuple(expected.split())
