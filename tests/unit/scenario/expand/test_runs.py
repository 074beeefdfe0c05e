import random
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from dlbench.scenario.check import feasibility
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.expand.points import MAX_ARMS, MAX_RUNS
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.scenario import Scenario
from dlbench.scenario.settings import Mode
from tests.unit.scenario.conftest import machine

Runs = Callable[..., tuple[RunSpec, ...]]
Refusal = Callable[..., str]

GRID = """
base: {trainer: numpy, strategy: mpi}
matrix: {batch_size: [8, 16], workers: [1, 2]}
order: written
"""


def labels(runs: tuple[RunSpec, ...]) -> list[str]:
    return [run.label for run in runs]


def test_points_are_those_of_axes_then_those_of_include(subtests: pytest.Subtests, runs: Runs) -> None:
    for text, found in [
        (
            GRID,
            [
                "baseline batch_size=8", "batch_size=8 workers=1", "batch_size=8 workers=2",
                "baseline batch_size=16", "batch_size=16 workers=1", "batch_size=16 workers=2",
            ],
        ),
        ("base: {trainer: numpy}", ["strategy=single workers=1"]),
        (
            "base: {trainer: numpy}\ninclude:\n  - {batch_size: 8}\n  - {batch_size: 16}\norder: written",
            ["batch_size=8", "batch_size=16"],
        ),
        # Defaults and options are excluded, too.
        (
            """
base: {trainer: numpy}
matrix: {model.hidden: [[64], [128, 64]], batch_size: [8, 16]}
exclude: [{strategy: single, batch_size: 8, model.hidden: [64]}]
order: written
baseline: none
""",
            [
                "model.hidden=[64] batch_size=16",
                "model.hidden=[128, 64] batch_size=8", "model.hidden=[128, 64] batch_size=16",
            ],
        ),
    ]:  # fmt: skip
        with subtests.test(text=text):
            assert labels(runs(text)) == found


def test_nothing_in_a_run_is_left_open(runs: Runs) -> None:
    baseline, _, arm = runs(GRID)[:3]
    assert (arm.settings.strategy, arm.settings.launcher, arm.settings.communicator) == ("mpi", "mpirun", "mpi")
    assert (arm.settings.algorithm, arm.settings.mode, arm.settings.cores_per_worker) == ("auto", Mode.SCALE_UP, 2.0)
    assert arm.options == {
        "model.hidden": [128],
        "model.scale": 1.0,
        "strategy.chunk_bytes": 1024,
        "launcher.extra": [],
    }
    assert arm.axes == {"batch_size": 8, "workers": 2}
    assert (baseline.settings.strategy, baseline.settings.launcher) == ("single", "local")
    assert (baseline.settings.algorithm, baseline.settings.communicator) == (None, None)
    assert baseline.baseline
    assert baseline.axes == {"batch_size": 8, "workers": 1}
    assert not arm.baseline


def test_linked_axes_vary_together_and_multiply_with_others(runs: Runs) -> None:
    found = runs("""
base: {trainer: numpy}
matrix: {batch_size: [8, 16]}
zip:
  - {learning_rate: [1e-2, 1e-3], epochs: [1, 10]}
  - {seed: [0, 1, 2], momentum: [0, 0.5, 0.9]}
order: written
baseline: none
""")
    assert len(found) == 2 * 2 * 3
    pairs = {(run.settings.learning_rate, run.settings.epochs) for run in found}
    assert pairs == {(1e-2, 1), (1e-3, 10)}


def test_included_points_are_added_over_base_and_not_excluded(runs: Runs) -> None:
    found = runs("""
base: {trainer: numpy, batch_size: 4}
matrix: {batch_size: [8, 16]}
include:
  - {batch_size: 32}
  - {epochs: 9}
exclude:
  - {batch_size: 8}
  - {batch_size: 32}
order: written
baseline: none
""")
    assert [(run.settings.batch_size, run.settings.epochs) for run in found] == [(16, 5), (32, 5), (4, 9)]


def test_the_same_run_twice_is_refused(subtests: pytest.Subtests, refusal: Refusal) -> None:
    for text in [
        "matrix:\n  batch_size: [8, 8]",
        "matrix:\n  batch_size: [8, 8.0]",
        "base: {strategy: mpi}\nmatrix: {workers: [2]}\nzip:\n  algorithm: [auto, ~]",
        "matrix: {batch_size: [8]}\ninclude:\n  - {batch_size: 8}",
        "matrix:\n  trainer: [keras_tensorflow, keras-tensorflow]",
    ]:
        with subtests.test(text=text):
            message = refusal(text)
            assert "duplicate run" in message
            assert message.startswith(f"s.yaml:{text.count(chr(10)) + 1}: ")


def test_what_leaves_nothing_or_is_too_much_is_refused_before_it_is_made(
    subtests: pytest.Subtests, refusal: Refusal
) -> None:
    axis = list(range(1, 1001))
    for text, said in [
        ("matrix: {workers: [1]}\nexclude: [{workers: 1}]", "leaves nothing to run"),
        ("matrix: {workers: [1]}\nzip: {workers: [1], epochs: [1]}", "'workers' is an axis twice"),
        (
            f"matrix: {{batch_size: {axis}, epochs: {axis}, seed: {axis}, evaluate_every: {axis}}}",
            f"1,000,000,000,000 arms are too many; at most {MAX_ARMS:,} are allowed",
        ),
        ("base: {trainer: numpy}\nrepeats: 100001", f"at most {MAX_RUNS:,}"),
        # Base lines are runs, too.
        (
            "base: {trainer: numpy, strategy: mpi}\nmatrix: {batch_size: [8, 9]}\nrepeats: 40000",
            "160,000 runs are too many",
        ),
    ]:
        with subtests.test(text=text[:60]):
            assert said in refusal(text)


def test_two_arms_never_get_one_name(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunSpec, "fingerprint", property(lambda _: "deadbeef"))
    text = "base: {trainer: numpy, strategy: single}\nmatrix: {learning_rate: [0.1, 0.2]}\nbaseline: none"
    assert "[learning_rate=0.1] and [learning_rate=0.2] happen to get one name" in refusal(text)


# Base lines.


def test_no_base_line_is_added_where_the_matrix_has_it_or_the_scenario_wants_none(runs: Runs) -> None:
    text = """
base: {trainer: numpy}
matrix: {strategy: [single, mpi], batch_size: [8, 16], workers: [1, 2]}
exclude: [{strategy: single, workers: 2}]
"""
    assert not any(run.baseline for each in (text, GRID + "baseline: none") for run in runs(each))


def test_a_group_shares_one_base_line(runs: Runs) -> None:
    text = """
base: {trainer: numpy, strategy: mpi, launcher: mpirun, strategy.chunk_bytes: 7, launcher.extra: [x]}
matrix: {workers: [1, 2, 4], algorithm: [auto, ring], strategy.chunk_bytes: [1, 2]}
"""
    found = [run for run in runs(text) if run.baseline]
    assert labels(tuple(found)) == ["baseline"]
    assert found[0].options == {"model.hidden": [128], "model.scale": 1.0}
    assert found[0].settings.launcher == "local"


def test_a_base_line_has_the_batch_as_its_scope_counts_it(subtests: pytest.Subtests, runs: Runs) -> None:
    for scope in ("per-worker", "global"):
        with subtests.test(scope=scope):
            text = f"base: {{trainer: numpy, strategy: mpi, workers: 4, batch_size: 8, batch_scope: {scope}}}"
            (baseline,) = [run for run in runs(text) if run.baseline]
            assert (baseline.global_batch_size, baseline.local_batch_size(0)) == (8, 8)


def test_a_base_line_that_cannot_be_names_the_remedy(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    real = feasibility.infeasibility
    monkeypatch.setattr(
        "dlbench.scenario.expand.runs.infeasibility",
        lambda run, cluster, seen: "too bad" if run.baseline else real(run, cluster, seen),
    )
    message = refusal(GRID)
    assert "2 of 2 base lines cannot be run:\n  too bad (2 points)" in message
    assert "`baseline: none`" in message


# Cores and layout.


def test_cores_are_alike_in_every_arm(subtests: pytest.Subtests, runs: Runs) -> None:
    for cores, workers, share in [(4, 2, 2.0), (2, 4, 0.5), (4, 3, 1.0), (2, 3, 2 / 3), (8, 1, 8.0)]:
        with subtests.test(cores=cores):
            text = f"base: {{trainer: numpy, strategy: mpi}}\nmatrix: {{workers: [1, {workers}], batch_size: [8, 16]}}"
            text = text.replace("[1, 1]", "[1]")
            assert {run.settings.cores_per_worker for run in runs(text, machine(cores))} == {share}


def test_cores_that_are_said_are_kept(runs: Runs) -> None:
    text = "base: {trainer: numpy, strategy: mpi, workers: 2}\nmatrix: {cores_per_worker: [0.5, 1]}"
    found = runs(text)
    assert {(run.baseline, run.settings.cores_per_worker) for run in found} == {
        (False, 0.5), (False, 1), (True, 0.5), (True, 1),
    }  # fmt: skip


def test_cores_over_hosts_of_different_size_are_those_of_the_tightest(runs: Runs) -> None:
    sizes = {"big": 8, "small": 2}
    unlike = Cluster(hosts=tuple(Host(address=name, slots=size) for name, size in sizes.items()))
    (run,) = runs("base: {trainer: numpy, strategy: mpi, workers: 2, mode: scale-out}\nbaseline: none", unlike)
    assert run.settings.cores_per_worker == 2.0
    (run,) = runs("base: {trainer: numpy, strategy: mpi, workers: 2}\nbaseline: none", unlike)
    assert run.settings.cores_per_worker == 4.0


HOSTS = Cluster(hosts=tuple(Host(address=name, slots=4) for name in "abcd"))


def test_layouts_over_hosts(subtests: pytest.Subtests, runs: Runs) -> None:
    for settings, mode, share in [
        ("workers: 4", Mode.SCALE_UP, 1.0),
        ("workers: 6", None, 1.0),
        ("workers: 4, mode: scale-out", Mode.SCALE_OUT, 4.0),
        ("workers: 4, workers_per_host: 2", None, 2.0),
        ("workers: 2, workers_per_host: 4", None, 2.0),
        ("workers: 2, mode: scale-up", Mode.SCALE_UP, 2.0),
    ]:
        with subtests.test(settings=settings):
            (run,) = runs(f"base: {{trainer: numpy, strategy: mpi, {settings}}}\nbaseline: none", HOSTS)
            assert (run.settings.mode, run.settings.cores_per_worker) == (mode, share)


# What base says for all, where an axis chooses the plugin.


def test_an_option_of_base_reaches_the_plugins_that_have_it(runs: Runs) -> None:
    text = """
base: {model.hidden: [7], algorithm: ring, dataset: image_folder, dataset.path: x, strategy.chunk_bytes: 9}
matrix: {model: [mlp, conv], strategy: [single, mpi]}
baseline: none
order: written
"""
    found = [(run.settings.model, run.options.get("model.hidden"), run.settings.algorithm) for run in runs(text)]
    assert found == [("mlp", [7], None), ("mlp", [7], "ring"), ("conv", None, None), ("conv", None, "ring")]


def test_an_option_that_no_plugin_of_the_scenario_has_is_refused(refusal: Refusal) -> None:
    message = refusal("base: {model.fliters: 3}\nmatrix:\n  model: [mlp, conv]")
    assert "mlp, conv has no option 'fliters'" in message
    assert "did you mean 'model.filters'?" in message


def test_an_axis_over_an_option_that_its_plugin_lacks_is_refused(refusal: Refusal) -> None:
    text = "base: {dataset: image_folder, dataset.path: x}\nmatrix:\n  model: [mlp, conv]\n  model.hidden: [[1], [2]]"
    assert "s.yaml:4: conv has no option model.hidden" in refusal(text)


def test_an_option_that_is_needed_is_asked_for(refusal: Refusal) -> None:
    message = refusal("base:\n  dataset: image_folder\n")
    assert message.startswith("s.yaml:2: image_folder needs dataset.path")


# Order and repeats.


def test_order_blocks_goes_by_repeat_and_shuffles_within(runs: Runs) -> None:
    text = "base: {trainer: numpy}\nmatrix: {batch_size: [1, 2, 3, 4, 5, 6, 7, 8]}\nrepeats: 3\n"
    found = runs(text)
    assert [run.repeat for run in found] == [0] * 8 + [1] * 8 + [2] * 8
    blocks = [[run.settings.batch_size for run in found if run.repeat == repeat] for repeat in range(3)]
    assert all(sorted(block) == list(range(1, 9)) for block in blocks)
    assert len({tuple(block) for block in blocks} | {tuple(range(1, 9))}) == 4


def test_order_shuffled_mixes_repeats_and_written_does_not(runs: Runs) -> None:
    text = "base: {trainer: numpy}\nmatrix: {batch_size: [1, 2, 3, 4, 5, 6, 7, 8]}\nrepeats: 3\norder: "
    assert [run.repeat for run in runs(text + "shuffled")] != [0] * 8 + [1] * 8 + [2] * 8
    assert [run.settings.batch_size for run in runs(text + "written")] == list(range(1, 9)) * 3


def test_the_order_is_always_the_same(runs: Runs) -> None:
    text = "base: {trainer: numpy}\nmatrix: {batch_size: [1, 2, 3, 4, 5, 6, 7, 8]}\nrepeats: 3\n"
    first = [run.run_id for run in runs(text)]
    random.seed(1)
    assert [run.run_id for run in runs(text)] == first
    assert [run.run_id for run in runs("name: another\n" + text)] != first


def test_repeats_of_all_arms_share_their_seeds_and_each_run_has_its_id(runs: Runs) -> None:
    found = runs(GRID.replace("mpi}", "mpi, seed: 40}") + "repeats: 2")
    assert len({run.run_id for run in found}) == len(found) == 12
    assert {(run.repeat, run.seed) for run in found} == {(0, 40), (1, 41)}


# --only.


def test_only_leaves_the_rest_out_and_changes_nothing_else(runs: Runs) -> None:
    text = GRID.replace("written", "shuffled") + "repeats: 2"
    everything = runs(text)
    some = runs(text, only={"workers": "2", "batch_size": "8"})
    assert list(some) == [run for run in everything if run.settings.workers == 2 and run.settings.batch_size == 8]
    assert len(some) == 2


def test_only_takes_any_setting(subtests: pytest.Subtests, runs: Runs) -> None:
    for only, number in [
        ({"strategy": "single"}, 2),
        ({"launcher": "mpirun"}, 4),
        ({"model.hidden": "[128]"}, 6),
        ({"trainer": "numpy"}, 6),
        ({"mode": "scale-up"}, 6),
        ({"learning_rate": "1e-2"}, 6),
    ]:
        with subtests.test(only=only):
            assert len(runs(GRID, only=only)) == number


def test_only_that_leaves_nothing_says_what_there_is(subtests: pytest.Subtests, refusal: Refusal) -> None:
    for only, said in [
        ({"worker": "2"}, "did you mean 'workers'?"),
        ({"workers": "3"}, "workers has: 1, 2"),
        ({"workers": "x"}, "whole number"),
        ({"workers": "[1"}, "not readable as YAML"),
        ({"batch_scope": "globl"}, "did you mean 'global'?"),
    ]:
        with subtests.test(only=only):
            message = refusal(GRID, only=only)
            assert message.startswith("--only ")
            assert said in message


def test_only_can_run_what_is_possible_of_a_scenario(runs: Runs, refusal: Refusal) -> None:
    text = "base: {trainer: numpy}\nmatrix: {strategy: [single, mpi], workers: [1, 2]}"
    assert "1 of 4 points cannot be run" in refusal(text)
    assert len(runs(text, only={"strategy": "mpi"})) == 2


# From Python.


def test_a_scenario_made_in_python_is_checked_as_well() -> None:
    with pytest.raises(ValidationError, match="worker\n  Extra inputs are not permitted"):
        expand(Scenario(name="s", base={"worker": 1}), machine())
    with pytest.raises(ValidationError, match="workers\n  Input should be a valid integer"):
        expand(Scenario(name="s", matrix={"workers": (1, "x")}), machine())
