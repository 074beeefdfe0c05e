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
WRITTEN = "\norder: written\nbaseline: none\n"


def test_points_are_those_of_axes_then_those_of_include(subtests: pytest.Subtests, runs: Runs) -> None:
    for text, labels in [
        (
            GRID,
            [
                "baseline batch_size=8", "batch_size=8 workers=1", "batch_size=8 workers=2",
                "baseline batch_size=16", "batch_size=16 workers=1", "batch_size=16 workers=2",
            ],
        ),
        ("base: {trainer: numpy}", ["strategy=single workers=1"]),
        ("base: {trainer: numpy}\ninclude: [{epochs: 8}, {epochs: 16}]" + WRITTEN, ["epochs=8", "epochs=16"]),
        # Linked axes vary together, and multiply with others.
        (
            "base: {trainer: numpy}\nmatrix: {workers: [1]}\n"
            "zip: [{epochs: [1, 9], batch_size: [4, 8]}, {momentum: [0.5, 0.9]}]" + WRITTEN,
            [f"epochs={n} batch_size={size} momentum={m}" for n, size in ((1, 4), (9, 8)) for m in (0.5, 0.9)],
        ),
        # Included points are added over `base`, and not excluded.
        (
            "base: {trainer: numpy, batch_size: 4}\nmatrix: {batch_size: [8, 16]}\n"
            "include: [{batch_size: 32}, {epochs: 9}]\nexclude: [{batch_size: 8}, {batch_size: 32}]" + WRITTEN,
            ["batch_size=16 epochs=5", "batch_size=32 epochs=5", "batch_size=4 epochs=9"],
        ),
        # Defaults and options are excluded, too.
        (
            "base: {trainer: numpy}\nmatrix: {model.hidden: [[64], [128, 64]], batch_size: [8, 16]}\n"
            "exclude: [{strategy: single, batch_size: 8, model.hidden: [64]}]" + WRITTEN,
            [
                "model.hidden=[64] batch_size=16",
                "model.hidden=[128, 64] batch_size=8", "model.hidden=[128, 64] batch_size=16",
            ],
        ),
    ]:  # fmt: skip
        with subtests.test(text=text):
            assert [run.label for run in runs(text)] == labels


def test_nothing_in_a_run_is_left_open(runs: Runs) -> None:
    baseline, _, arm = runs(GRID)[:3]
    assert (arm.settings.strategy, arm.settings.launcher, arm.settings.communicator) == ("mpi", "mpirun", "mpi")
    assert (arm.settings.algorithm, arm.settings.mode, arm.settings.cores_per_worker) == ("auto", Mode.SCALE_UP, 2.0)
    model = {"model.hidden": [128], "model.scale": 1.0}
    assert arm.options == {**model, "strategy.chunk_bytes": 1024, "launcher.extra": []}
    assert (arm.baseline, arm.axes) == (False, {"batch_size": 8, "workers": 2})
    assert (baseline.settings.strategy, baseline.settings.launcher) == ("single", "local")
    assert (baseline.settings.algorithm, baseline.settings.communicator) == (None, None)
    assert (baseline.baseline, baseline.axes) == (True, {"batch_size": 8, "workers": 1})


def test_the_same_run_twice_is_refused(subtests: pytest.Subtests, refusal: Refusal) -> None:
    for text in [
        "matrix:\n  batch_size: [8, 8.0]",
        "base: {strategy: mpi}\nmatrix: {workers: [2]}\nzip:\n  algorithm: [auto, ~]",
        "matrix: {batch_size: [8]}\ninclude:\n  - {batch_size: 8}",
        "matrix:\n  trainer: [keras_tensorflow, keras-tensorflow]",
    ]:
        with subtests.test(text=text):
            message = refusal(text)
            assert "duplicate run" in message
            assert message.startswith(f"s.yaml:{text.count(chr(10)) + 1}: ")


def test_arms_on_other_seeds_are_refused(subtests: pytest.Subtests, refusal: Refusal) -> None:
    for text in [
        "base: {seed: 5}\nmatrix:\n  seed: [0, 1]",
        "zip: {batch_size: [8, 16],\n\n  seed: [0, 1]}",
        "matrix: {batch_size: [8]}\n\ninclude: [{batch_size: 16, seed: 1}]",
    ]:
        with subtests.test(text=text):
            message = refusal(text)
            assert message.startswith("s.yaml:3: ")
            assert "arms differ in `seed`" in message


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
        (GRID + "repeats: 20000", "120,000 runs are too many"),
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
    (baseline,) = [run for run in runs(text) if run.baseline]
    assert (baseline.label, baseline.settings.launcher) == ("baseline", "local")
    assert baseline.options == {"model.hidden": [128], "model.scale": 1.0}
    for scope in ("per-worker", "global"):
        text = f"base: {{trainer: numpy, strategy: mpi, workers: 4, batch_size: 8, batch_scope: {scope}}}"
        (baseline,) = [run for run in runs(text) if run.baseline]
        assert (baseline.global_batch_size, baseline.local_batch_size(0)) == (8, 8), scope


@pytest.mark.parametrize("matrix", ["workers: [1, 2]", "strategy: [single, multi-worker, plain]"])
def test_one_worker_alone_of_a_script_under_multi_worker_has_tf_config(runs: Runs, matrix: str) -> None:
    text = f"base: {{command: ./t, strategy: multi-worker}}\nmatrix: {{{matrix}}}"
    for strategy in ("multi_worker", "within"):
        asking = {run.settings.strategy for run in runs(text.replace("multi-worker", strategy)) if run.tf_config}
        assert asking == ({"multi_worker", "single"} if strategy == "multi_worker" else set()), strategy


def test_a_base_line_that_cannot_be_names_the_remedy(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    real = feasibility.infeasibility
    monkeypatch.setattr(
        "dlbench.scenario.expand.runs.infeasibility",
        lambda run, *of: "too bad" if run.baseline else real(run, *of),
    )
    message = refusal(GRID)
    assert "2 of 2 base lines cannot be run:\n  too bad (2 points)" in message
    assert "`baseline: none`" in message


# Cores and layout.


def test_cores_are_alike_in_every_arm(subtests: pytest.Subtests, runs: Runs) -> None:
    def asked(**slots: int) -> Cluster:
        return Cluster(hosts=tuple(Host(address=at, slots=n, cores=tuple(range(n))) for at, n in slots.items()))

    hosts, unlike = asked(a=4, b=4, c=4, d=4), asked(big=8, small=2)
    unknown = Cluster(hosts=(*asked(a=4).hosts, Host(address="b", slots=4)))
    queued = Cluster(hosts=(Host(address="a", slots=4),), options={"cores_per_slot": 8})
    for cluster, settings, mode, share in [
        (machine(4), "workers: 3", Mode.SCALE_UP, 1.0),
        (machine(2), "workers: 4", Mode.SCALE_UP, 0.5),
        (machine(8), "workers: 1", Mode.SCALE_UP, 8.0),
        (hosts, "workers: 4", Mode.SCALE_UP, 1.0),
        (hosts, "workers: 6", None, 1.0),
        (hosts, "workers: 4, mode: scale-out", Mode.SCALE_OUT, 4.0),
        (hosts, "workers: 4, workers_per_host: 2", None, 2.0),
        (hosts, "workers: 2, mode: scale-up", Mode.SCALE_UP, 2.0),
        (unlike, "workers: 2, mode: scale-out", Mode.SCALE_OUT, 2.0),
        (unlike, "workers: 2", Mode.SCALE_UP, 4.0),
        (unknown, "workers: 2", Mode.SCALE_UP, 2.0),
        (unknown, "workers: 6", None, None),
        (queued, "workers: 2", Mode.SCALE_UP, 16.0),
    ]:
        with subtests.test(settings=settings, cluster=cluster):
            text = f"base: {{trainer: numpy, strategy: mpi, {settings}}}\nbaseline: none"
            (run,) = runs(text, cluster)
            assert (run.settings.mode, run.settings.cores_per_worker) == (mode, share)
    found = runs("base: {trainer: numpy, strategy: mpi}\nmatrix: {workers: [1, 3], batch_size: [8, 16]}", machine(2))
    assert {run.settings.cores_per_worker for run in found} == {2 / 3}
    # Those that a scenario says are kept.
    found = runs("base: {trainer: numpy, strategy: mpi, workers: 2}\nmatrix: {cores_per_worker: [0.5, 1]}")
    cores = {(run.baseline, run.settings.cores_per_worker) for run in found}
    assert cores == {(False, 0.5), (False, 1), (True, 0.5), (True, 1)}


# What base says for all, where an axis chooses the plugin.


def test_an_option_of_base_reaches_the_plugins_that_have_it(runs: Runs, refusal: Refusal) -> None:
    text = """
base: {model.hidden: [7], algorithm: ring, dataset: image_folder, dataset.path: x, strategy.chunk_bytes: 9}
matrix: {model: [mlp, conv], strategy: [single, mpi]}
"""
    found = [
        (run.settings.model, run.options.get("model.hidden"), run.settings.algorithm) for run in runs(text + WRITTEN)
    ]
    assert found == [("mlp", [7], None), ("mlp", [7], "ring"), ("conv", None, None), ("conv", None, "ring")]
    for text, where, said in [
        ("base: {model.fliters: 3}\nmatrix:\n  model: [mlp, conv]", 1,
         "mlp, conv has no option 'fliters'\n  hint: did you mean 'model.filters'?"),
        ("base: {dataset: image_folder, dataset.path: x}\nmatrix:\n  model: [mlp, conv]\n  model.hidden: [[1], [2]]", 4,
         "conv has no option model.hidden"),
        ("matrix:\n  strategy: [mpi, single]\n  strategy.chunk_bytes: [4, 9]", 3,
         "single has no option strategy.chunk_bytes\n  hint: it takes no options"),
        ("base:\n  dataset: image_folder\n", 2, "image_folder needs dataset.path"),
    ]:  # fmt: skip
        assert refusal(text).startswith(f"s.yaml:{where}: {said}")


# Order and repeats.


def test_orders_of_execution(runs: Runs) -> None:
    text, sizes = (
        "base: {trainer: numpy}\nmatrix: {batch_size: [1, 2, 3, 4, 5, 6, 7, 8]}\nrepeats: 3\n",
        list(range(1, 9)),
    )
    in_blocks = [0] * 8 + [1] * 8 + [2] * 8
    found = runs(text)
    assert [run.repeat for run in found] == in_blocks
    blocks = [[run.settings.batch_size for run in found if run.repeat == repeat] for repeat in range(3)]
    assert all(sorted(block) == sizes for block in blocks)
    assert len({*map(tuple, blocks), tuple(sizes)}) == 4
    assert [run.repeat for run in runs(text + "order: shuffled")] != in_blocks
    assert [run.settings.batch_size for run in runs(text + "order: written")] == sizes * 3
    # It is always the same one, whatever else has drawn random numbers.
    random.seed(1)
    assert runs(text) == found
    assert [run.run_id for run in runs("name: another\n" + text)] != [run.run_id for run in found]


def test_repeats_of_all_arms_share_their_seeds_and_each_run_has_its_id(runs: Runs) -> None:
    found = runs(GRID.replace("mpi}", "mpi, seed: 40}") + "repeats: 2")
    assert len({run.run_id for run in found}) == len(found) == 12
    assert {(run.repeat, run.seed) for run in found} == {(0, 40), (1, 41)}


# --only.


def test_only_leaves_the_rest_out_and_changes_nothing_else(subtests: pytest.Subtests, runs: Runs) -> None:
    everything = runs(GRID.replace("written", "shuffled") + "repeats: 2")
    for only, number in [
        ({"workers": "2", "batch_size": "8"}, 2),
        ({"strategy": "single"}, 4),
        ({"launcher": "mpirun"}, 8),
        ({"launcher": "auto", "model.hidden": "[128]"}, 12),
        ({"mode": "scale-up", "learning_rate": "1e-2"}, 12),
    ]:
        with subtests.test(only=only):
            part = runs(GRID.replace("written", "shuffled") + "repeats: 2", only=only)
            assert len(part) == number
            assert list(part) == [run for run in everything if run in part]
    # What is impossible and left out is no mistake.
    text = "base: {trainer: numpy}\nmatrix: {strategy: [single, mpi], workers: [1, 2]}"
    assert len(runs(text, only={"strategy": "mpi"})) == 2


def test_only_that_leaves_nothing_says_what_there_is(subtests: pytest.Subtests, refusal: Refusal) -> None:
    for only, said in [
        ({"worker": "2"}, "did you mean 'workers'?"),
        ({"workers": "3"}, "workers has: 1, 2"),
        ({"workers": "x"}, "whole number"),
        ({"workers": "[1"}, "not readable as YAML"),
    ]:
        with subtests.test(only=only):
            message = refusal(GRID, only=only)
            assert message.startswith("--only ")
            assert said in message


def test_a_scenario_made_in_python_is_checked_as_well() -> None:
    for values, said in (
        ({"base": {"worker": 1}}, "worker\n  Extra"),
        ({"matrix": {"workers": (1, "x")}}, "workers\n  Input"),
    ):
        with pytest.raises(ValidationError, match=said):
            expand(Scenario(name="s", **values), machine())
