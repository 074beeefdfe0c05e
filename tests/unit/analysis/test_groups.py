"""In what runs differ, and what it is called."""

import pytest

from dlbench.analysis.arms import Arm, arms
from dlbench.analysis.groups import described, groups, naming, varying

COLUMNS = {
    "baseline": False, "model": "cnn", "dataset": "digits", "strategy": "mpi", "algorithm": None, "workers": 2,
    "batch_size": 32, "epochs": 3, "collectives": "mpi", "model.filters": "[8]", "emulated": None,
}  # fmt: skip


def made(*changes: dict[str, object]) -> list[Arm]:
    """Return an arm for each change."""
    common = COLUMNS | {"attempt": 1, "status": "completed"}
    return arms(common | change | {"run_id": f"{place}-r0"} for place, change in enumerate(changes))


KNOWN = {"dataset": "digits", "train_samples": 9}, {"dataset": "text", "train_samples": 7}
BASE = {"baseline": True, "strategy": "single", "workers": 1}


@pytest.mark.parametrize(
    ("changes", "x", "expected"),
    [
        # What was searched for distinguishes no arms; those that were not searched for it still does.
        (
            [{"learning_rate_base": size / 9, "tuned": "learning_rate", "batch_size": size} for size in (8, 16)],
            "",
            "batch_size",
        ),
        ([{"learning_rate_base": 0.1}, {"learning_rate_base": 0.3}], "", "learning_rate_base"),
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
        # What a table that was measured elsewhere leaves empty makes no difference; what dlbench left unset does.
        ([*KNOWN, {"dataset": "text", "command": "imported"}], "", "dataset"),
        ([*KNOWN, {"dataset": "text"}], "", "dataset train_samples"),
        ([{"microbatch_size": 16, "command": "imported"}, {"command": "imported"}], "", ""),
        ([{"microbatch_size": 16}, {}], "", "microbatch_size"),
        ([{"compression": "half", "compression.format": "bfloat16"}, {}], "", "compression"),
        ([{"compression": "half"}, {"strategy": "ring"}], "", "strategy compression"),
        ([{"compression": "half", "momentum": 0.0}, {"momentum": 0.9}], "", "compression momentum"),
        ([{"launcher": "local"}, {"strategy": "horovod", "launcher": "mpirun"}], "", "strategy"),
        ([{"launcher": "local"}, {"launcher": "mpirun"}], "", "launcher"),
        # A strategy may have nothing to set.
        ([{"strategy": "ring", "evaluator": "own"}, {}], "", "strategy"),
        ([{"strategy": "ring", "evaluator": "own"}, {"strategy": "ring"}, {}], "", "strategy evaluator"),
        ([{"workers": 1}, {"placement": "scale-out"}], "workers", ""),
        ([{"launcher.mca": "{}"}, {}], "", ""),
        # What follows from the horizontal axis is left out, and the axis itself.
        ([{"batch_size": 8}, {"batch_size": 16}], "batch_size", ""),
        ([{"batch_size": 8, "momentum": 0.1}, {"batch_size": 16, "momentum": 0.9}], "batch_size", ""),
        ([{"workers": 1, "collectives": "gloo"}, {"workers": 2, "collectives": "nccl"}], "workers", ""),
        ([{"batch_size": 8, "epochs": 2}, {"batch_size": 16, "epochs": 4}], "batch_size", ""),
        ([{"workers": 1, "launcher.address": "a"}, {"workers": 2, "launcher.address": "b"}], "workers", ""),
        # But not words that say what and on what.
        ([{"batch_size": 8, "optimizer": "sgd"}, {"batch_size": 16, "optimizer": "adam"}], "batch_size", "optimizer"),
        ([{"workers": 1, "imported.layers": 9}, {"workers": 2, "imported.layers": 18}], "workers", "imported.layers"),
        ([{"workers": 1, "imported.p": "A"}, {"workers": 2, "imported.p": "B"}], "workers", "imported.p"),
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
    assert varying(made(*changes), x=x) == tuple(expected.split())


def test_groups_come_by_size_and_by_letter() -> None:
    found = made({"batch_size": 128}, {"batch_size": 16}, {"strategy": "horovod", "batch_size": 16})
    keys = [tuple(values.values()) for values, _ in groups(found, ["batch_size", "strategy"])]
    assert keys == [(16, "horovod"), (16, "mpi"), (128, "mpi")]


def test_unknown_values_make_a_group_and_come_first_and_without_keys_there_is_one() -> None:
    found = made({"algorithm": "ring"}, {"algorithm": None})
    assert [(values, len(arms)) for values, arms in groups(found, ["algorithm"])] == [
        ({"algorithm": None}, 1), ({"algorithm": "ring"}, 1),
    ]  # fmt: skip
    assert list(groups(found, [])) == [({}, found)]


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


def test_one_worker_without_a_library_is_alone() -> None:
    found = made({"strategy": "single", "workers": 1}, {"strategy": "mpi", "workers": 1}, {"strategy": None})
    assert [arm.is_alone for arm in found] == [True, False, False]


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
    assert naming(made(*changes)) == tuple(expected.split())
