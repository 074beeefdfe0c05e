"""What tells runs apart, and what it is called."""

import pandas as pd
import pytest

from dlbench.analysis.groups import described, frame, groups, is_alone, varying, with_placement

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


def test_what_varies_is_named_in_the_order_of_the_settings() -> None:
    found = runs({"batch_size": 8, "workers": 1}, {"batch_size": 16, "workers": 1}, {"batch_size": 8, "workers": 2})
    assert varying(found) == ("workers", "batch_size")


def test_the_horizontal_axis_tells_no_series_apart() -> None:
    assert varying(runs({"batch_size": 8}, {"batch_size": 16}), x="batch_size") == ()


def test_what_follows_from_the_strategy_is_left_out() -> None:
    found = runs({"strategy": "horovod", "collectives": "gloo"}, {"strategy": "mpi", "collectives": "mpi"})
    assert varying(found) == ("strategy",)


def test_a_library_that_varies_within_a_strategy_is_not_left_out() -> None:
    found = runs({"strategy": "horovod", "collectives": "gloo"}, {"strategy": "horovod", "collectives": "mpi"})
    assert varying(found) == ("collectives",)


def test_other_settings_that_differ_with_the_strategy_are_told() -> None:
    found = runs({"strategy": "horovod", "batch_size": 64}, {"strategy": "mpi", "batch_size": 8})
    assert varying(found, x="workers") == ("strategy", "batch_size")


def test_runs_of_two_studies_are_no_repeats_of_each_other() -> None:
    found = runs({"study": "a", "device_name": "X"}, {"study": "b", "device_name": "Y"})
    assert varying(found) == ("study",)
    assert varying(runs({"study": "a", "model": "cnn"}, {"study": "b", "model": "lstm"})) == ("model",)
    assert varying(runs({"study": "a", "device_name": "X"}, {"study": "a", "device_name": "Y"})) == ("device_name",)


def test_a_failed_run_that_does_not_know_a_setting_makes_no_difference() -> None:
    known = {"dataset": "digits", "train_samples": 9}, {"dataset": "text", "train_samples": 7}
    assert varying(runs(*known, {"dataset": "text", "train_samples": None})) == ("dataset",)


def test_what_follows_from_the_axis_is_left_out() -> None:
    found = runs({"batch_size": 8, "epochs": 2}, {"batch_size": 16, "epochs": 4})
    assert varying(found, x="batch_size") == ()
    assert varying(found, x="workers") == ("batch_size", "epochs")


def test_options_of_plugins_count_and_unknown_cells_do_not() -> None:
    found = runs({"model.filters": "[8]"}, {"model.filters": "[16]"}, {"model.filters": None})
    assert varying(found) == ("model.filters",)
    assert varying(runs({"algorithm": None}, {"algorithm": "ring"})) == ()


def test_base_lines_do_not_count_unless_there_is_nothing_else() -> None:
    base = {"baseline": True, "strategy": "single", "workers": 1}
    assert varying(runs({}, base)) == ()
    assert varying(runs(base, base | {"batch_size": 64})) == ("batch_size",)


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
        ({"learning_rate_base": 0.1}, "learning_rate_base=0.1"),
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
