from typing import Any

import pytest

from dlbench.analysis.answer.comparison_group import comparison_groups
from tests.unit.analysis.made import ALONE, arm, failed, read, timed

HOSTILE = 'a\nb<script>alert(1)</script>$x_1$|`학습`\x1b[31m"'


@pytest.mark.parametrize(
    ("rows", "titles"),
    [
        # Never a strategy of one worker alone.
        ([timed("a", 9.0, batch_size=8), timed("b", 5.0, batch_size=16), timed("c", 8.0, **ALONE)],
         ["mpi, batch 8", "mpi, batch 16", "one worker alone, batch 32"]),
        ([timed("a", 9.0, batch_size=8, **ALONE), timed("b", 5.0, batch_size=16, **ALONE)], ["batch 8", "batch 16"]),
        # Arms that differ in nothing known keep apart.
        ([timed("a", 9.0, label="x"), timed("b", 5.0, label="x")], ["mpi [a of made-1]", "mpi [b of made-1]"]),
        ([timed("a", 9.0), timed("a", 5.0, study="made-2")], ["mpi, made-1", "mpi, made-2"]),
        # Hostile names stay on one line.
        ([timed("a", 1.0, label=HOSTILE, **ALONE), failed("b", 1, label="b", **ALONE)],
         [r'a b<script>alert(1)</script>$x_1$|`학습`\x1b[31m"', "b"]),
    ],
)  # fmt: skip
def test_titles_tell_arms_apart(rows: list[list[dict[str, Any]]], titles: list[str]) -> None:
    (found,) = comparison_groups(read(*rows))
    assert found.title == "mlp on digits"
    assert [one.title for one in found.arms] == titles


def test_emulated_and_real_runs_are_apart_and_models_too():
    emulated = timed("b", 1.0, emulated="throttled-link;oversubscribed")
    found = comparison_groups(read(timed("a", 9.0), emulated, timed("c", 1.0, model="lstm")))
    assert [(one.title, one.emulated) for one in found] == [
        ("mlp on digits", ""), ("mlp on digits", "oversubscribed, throttled-link"), ("lstm on digits", ""),
    ]  # fmt: skip


def test_arms_that_are_alone_in_their_groups_are_called_by_what_tells_them_apart():
    found = comparison_groups(read(timed("a", 9.0, workers=1), timed("b", 1.0, workers=2, emulated="oversubscribed")))
    assert [one.title for group in found for one in group.arms] == ["mpi, 1 worker", "mpi, 2 workers"]


def test_arms_on_other_data_have_answers_of_their_own():
    sizes = (3000, 20000)
    rows = [
        timed(f"{how} {size}", 9.0, dataset_checksum=str(size), **{"dataset.vocabulary": size, "strategy.route": how})
        for size in reversed(sizes)
        for how in ("dense", "server")
    ]
    found = comparison_groups(read(*rows))
    assert [one.condition for one in found] == [f"vocabulary {size}" for size in sizes]
    titles = ["mpi, strategy.route=dense", "mpi, strategy.route=server"]
    assert [[arm.title for arm in one.arms] for one in found] == [titles, titles]


@pytest.mark.parametrize(("name", "values"), [("validation_samples", (20, 359)), ("validation_fraction", (0.1, 0.6))])
def test_arms_scored_on_other_samples_have_answers_of_their_own_each_with_its_base_line(
    name: str, values: tuple[float, ...]
):
    rows = [
        timed(f"{strategy} {value}", 9.0, **{name: value}, **(ALONE if strategy == "single" else {}))
        for value in values
        for strategy in ("mpi", "single")
    ]
    found = comparison_groups(read(*rows))
    assert [one.condition for one in found] == [f"{name.replace('_', ' ')} {value}" for value in values]
    assert [[arm.get("strategy") for arm in one.arms] for one in found] == [["mpi", "single"]] * 2


@pytest.mark.parametrize(
    ("is_task", "names"),
    [
        (True, "Task Benchmark target problem_size params_m n_params number_of_parameters_billion model_size_b"),
        (True, "params layers number_of_layers config_n_layer hidden hidden_size num_attention_heads vocab_size"),
        (True, "sequence_length max_seq_len seqlen image_size_px crop_size input_size resolution"),
        (False, "precision compiler optimizer mode launcher framework size batch_mode bucket_size message_size"),
        (False, "hidden_communication parameter_servers offload_params trainable_params param_dtype layers_per_stage"),
        (False, "model_parallel_size sequence_parallel context_parallel input_workers image_format attention"),
    ],
)
def test_lines_of_a_table_that_name_other_tasks_have_answers_of_their_own(is_task: bool, names: str):
    for name in names.split():
        rows = [
            timed(f"{task} {n}", 9.0, workers=n, command="imported", **{f"imported.{name}": task})
            for task in ("bert", "cnn")
            for n in (2, 4)
        ]
        titles = [f"{name.replace('_', ' ')} {task}" for task in ("bert", "cnn")]
        assert [one.condition for one in comparison_groups(read(*rows))] == (titles if is_task else [""]), name


@pytest.mark.parametrize("others", ["ab", "bb"])
@pytest.mark.parametrize("name", ["imported.benchmark", "imported.counted", "device_name", "optimizer"])
def test_one_worker_alone_is_no_answer_to_another_task_device_or_condition(name: str, others: str):
    rows = [timed(str(n), 9.0, workers=n, **{name: value}) for n, value in enumerate(others, 2)]
    found = comparison_groups(read(timed("alone", 1.0, **{name: "a"}, **ALONE), *rows), ["optimizer"])
    expected = {"a": [1], "b": [2, 3]} if others == "bb" else {"a": [1, 2], "b": [3]}
    assert {one.given[name]: [arm.workers for arm in one.arms] for one in found} == expected


def test_one_worker_alone_is_in_the_answer_of_every_link_and_way_of_communicating_and_dividing():
    links = {"communicator.bandwidth_bytes_per_s": (1e8, 1e9), "strategy": ("mpi", "horovod"), "mode": ("up", "out")}
    # With one worker there is nothing to divide.
    for name, values in (links | {"divide": ("data", "epochs")}).items():
        rows = [timed(str(value), 9.0, **{name: value}) for value in values]
        alone = timed("alone", 1.0, **ALONE, mode=None, divide="data")
        found = comparison_groups(read(*rows, alone), ("strategy", "mode", "divide"))
        assert [[arm.is_alone for arm in one.arms] for one in found] == [[False, True]] * 2, name


def test_params_are_a_task_where_they_hold_no_settings():
    counted = (("25M", "60M"), (25.6, 60), (".5B", "7B"), ("~500M", "~7B"), ("small (0.5B)", "large (7B)"))
    settings = (
        ("{'lr': 0.1}", "{'lr': 0.2}"),
        ("['adam']", "-"),
        ("lr=0.1", "lr=0.2"),
        ("lr: 0.1", "lr: 0.2"),
        ("--lr 0.1", "--lr 1"),
    )
    for values, num in (*((it, 2) for it in counted), *((it, 1) for it in settings)):
        rows = [timed(str(it), 9.0, command="imported", **{"imported.params": it}) for it in values]
        assert len(comparison_groups(read(*rows))) == num, values


def test_the_same_data_under_two_paths_has_one_answer():
    rows = [timed(path, 9.0, dataset_checksum="7f91", **{"dataset.path": path}) for path in ("data", "/mnt/data")]
    assert len(comparison_groups(read(*rows))) == 1


def test_a_failed_run_of_an_emulated_arm_stays_with_it():
    rows = timed("a", 9.0, count=2, emulated="oversubscribed")
    rows[0] |= {"status": "failed", "emulated": None}
    (found,) = comparison_groups(read(rows))
    assert found.emulated == "oversubscribed"
    assert (len(found.arms[0].rows), len(found.arms[0].completed)) == (2, 1)


def test_unknown_cells_are_none():
    (found,) = read(arm("a", {"train_time_s": [None, 2.0]}))
    assert found.rows[0]["train_time_s"] is None
    assert "energy_j" not in found.columns
