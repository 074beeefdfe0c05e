import math

from dlbench.analysis.answer.comparison_group import comparison_groups
from tests.unit.analysis.made import ALONE, arm, failed, read, timed


def test_titles_state_the_strategy_and_never_that_of_one_worker_alone():
    rows = timed("a", 9.0, batch_size=8), timed("b", 5.0, batch_size=16), timed("c", 8.0, **ALONE)
    (found,) = comparison_groups(read(*rows))
    assert found.title == "mlp on digits"
    assert [one.title for one in found.arms] == ["mpi, batch 8", "mpi, batch 16", "one worker alone, batch 32"]


def test_base_lines_alone_are_called_by_their_settings():
    (found,) = comparison_groups(read(timed("a", 9.0, batch_size=8, **ALONE), timed("b", 5.0, batch_size=16, **ALONE)))
    assert [one.title for one in found.arms] == ["batch 8", "batch 16"]


def test_arms_that_differ_in_nothing_known_keep_apart():
    (found,) = comparison_groups(read(timed("a", 9.0, label="x"), timed("b", 5.0, label="x")))
    assert [one.title for one in found.arms] == ["mpi [a of made-1]", "mpi [b of made-1]"]


def test_the_same_arm_of_two_studies_is_two():
    (found,) = comparison_groups(read(timed("a", 9.0), timed("a", 5.0, study="made-2")))
    assert len(found.arms) == 2
    assert len({one.title for one in found.arms}) == 2


def test_emulated_and_real_runs_are_apart_and_models_too():
    found = comparison_groups(
        read(
            timed("a", 9.0),
            timed("b", 1.0, emulated="throttled-link;oversubscribed"),
            timed("c", 1.0, model="lstm"),
        )
    )
    assert [(one.title, one.emulated) for one in found] == [
        ("mlp on digits", ""), ("mlp on digits", "oversubscribed, throttled-link"), ("lstm on digits", ""),
    ]  # fmt: skip


def test_arms_on_other_data_have_answers_of_their_own():
    sizes = (1000, 10000)
    rows = [
        timed(
            f"{route} {size}", 9.0, dataset_checksum=f"{size}", **{"dataset.vocabulary": size, "strategy.route": route}
        )
        for size in sizes
        for route in ("dense", "server")
    ]
    found = comparison_groups(read(*rows))
    assert [one.condition for one in found] == [f"vocabulary {size}" for size in sizes]
    assert {tuple(arm.title for arm in one.arms) for one in found} == {
        ("mpi, strategy.route=dense", "mpi, strategy.route=server")
    }


def test_the_same_data_under_two_paths_has_one_answer():
    rows = [timed(path, 9.0, dataset_checksum="7f91", **{"dataset.path": path}) for path in ("data", "/mnt/data")]
    assert len(comparison_groups(read(*rows))) == 1


def test_a_failed_run_of_an_emulated_arm_stays_with_it():
    rows = timed("a", 9.0, count=2, emulated="oversubscribed")
    rows[0] |= {"status": "failed", "emulated": None}
    (found,) = comparison_groups(read(rows))
    assert found.emulated == "oversubscribed"
    assert (len(found.arms[0].rows), len(found.arms[0].completed)) == (2, 1)


def test_values_are_those_of_completed_runs_that_are_numbers():
    rows = arm("a", {"train_time_s": [1.0, None, math.inf, 4.0], "status": ["completed"] * 3 + ["failed"]})
    (found,) = comparison_groups(read(rows))
    assert found.arms[0].values("train_time_s") == (1.0,)
    assert found.arms[0].values("no_such_column") == ()


def test_hostile_names_stay_one_line():
    label = 'a\nb<script>alert(1)</script>$x_1$|`학습`\x1b[31m"'
    (found,) = comparison_groups(read(timed("a", 1.0, label=label, **ALONE), failed("b", 1, label="b", **ALONE)))
    assert found.arms[0].title == r'a b<script>alert(1)</script>$x_1$|`학습`\x1b[31m"'


def test_unknown_cells_are_none():
    (found,) = read(arm("a", {"train_time_s": [None, 2.0]}))
    assert found.rows[0]["train_time_s"] is None
    assert "energy_j" not in found.columns
