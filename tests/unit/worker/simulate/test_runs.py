"""What a scenario of simulated runs becomes: base lines, cores and servers."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlbench.errors import UserError
from dlbench.launch.layout import plan_layout
from dlbench.scenario.check.warnings import warnings
from dlbench.scenario.cluster import Cluster, Host
from dlbench.scenario.expand.runs import expand
from dlbench.scenario.read.scenario_file import read
from dlbench.scenario.run_spec import RunSpec

TWO_CORES = Cluster(hosts=(Host(address="localhost", slots=2, cores=(0, 1)),))
BASE = {"dataset": "digits", "model": "softmax", "trainer": "numpy", "batch_size": 8}
SIMULATED = {"communicator": "simulated"}


def runs(folder: Path, base: dict[str, Any], **sections: Any) -> list[RunSpec]:
    path = folder / "s.yaml"
    path.write_text(json.dumps({"name": "s", "order": "written", "base": BASE | base, **sections}))
    return list(expand(read(path), TWO_CORES))


def test_a_base_line_is_simulated_too_and_one_worker_that_nothing_is_wrong_with(tmp_path: Path) -> None:
    options = {"communicator.compute_time_s": 0.2, "communicator.slow_workers": 1, "communicator.latency_s": 1.0}
    alone, arm = runs(tmp_path, SIMULATED | {"strategy": "asynchronous", "workers": 4, **options})
    assert alone.baseline
    assert (alone.settings.strategy, alone.settings.workers, alone.settings.communicator) == ("single", 1, "simulated")
    assert alone.options["communicator.compute_time_s"] == 0.2
    assert (alone.options["communicator.slow_workers"], arm.options["communicator.slow_workers"]) == (0, 1)
    assert alone.options["communicator.latency_s"] < arm.options["communicator.latency_s"] == 1.0


def test_arms_of_several_networks_share_a_base_line(tmp_path: Path) -> None:
    found = runs(
        tmp_path, SIMULATED | {"strategy": "ring", "workers": 2}, matrix={"communicator.latency_s": [0.1, 0.2]}
    )
    assert [run.baseline for run in found] == [True, False, False]


def test_real_and_simulated_arms_stand_side_by_side_each_with_its_base_line(tmp_path: Path) -> None:
    found = runs(
        tmp_path, {"workers": 2}, zip=[{"strategy": ["mpi", "parameter_server"], "communicator": ["mpi", "simulated"]}]
    )
    assert [(run.settings.strategy, run.settings.is_simulated, run.settings.servers) for run in found] == [
        ("single", False, None), ("mpi", False, None), ("single", True, None), ("parameter_server", True, 1),
    ]  # fmt: skip
    # Real workers share the cores, whatever is simulated.
    assert {run.settings.cores_per_worker for run in found} == {1.0}


def test_nodes_are_processes_unless_they_are_simulated(tmp_path: Path) -> None:
    found = runs(tmp_path, {"workers": 2}, matrix={"strategy": ["asynchronous", "ring"]}, baseline="none")
    assert [(run.settings.communicator, run.settings.collectives) for run in found] == [("mpi", "mpi")] * 2
    assert [run.settings.server_placement for run in found] == ["beside", None]
    simulated = runs(tmp_path, SIMULATED | {"strategy": "asynchronous", "workers": 2}, baseline="none")
    assert [(run.settings.collectives, run.settings.server_placement) for run in simulated] == [(None, "own")]


def test_servers_of_all_do_not_reach_a_strategy_without(tmp_path: Path) -> None:
    found = runs(tmp_path, {"servers": 3}, matrix={"strategy": ["ring", "asynchronous"]}, baseline="none")
    assert [run.settings.servers for run in found] == [None, 3]


def test_thousands_of_simulated_workers_are_one_process_on_one_core(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, SIMULATED | {"strategy": "asynchronous", "workers": 4096}, baseline="none")
    layout = plan_layout(run, TWO_CORES)
    (place,) = layout.places
    assert (place.workers, place.cores, layout.emulated, layout.intra_op_threads) == ((0,), (0,), ("simulated",), 1)


def test_a_real_run_keeps_its_name(tmp_path: Path) -> None:
    """Settings and options of simulations are in no name of a run that is not simulated."""
    (run,) = runs(tmp_path, {"strategy": "mpi", "workers": 2, "algorithm": "own-ring"}, baseline="none")
    assert run.run_id == "softmax-mpi-w2-b8-7212dc58-r0"


@pytest.mark.parametrize(
    ("strategy", "changed", "message"),
    [
        ("asynchronous", {"checkpoint_every": 1}, "the strategy asynchronous makes no checkpoints"),
        ("ring", {"extend_window": True}, "does not go on after training: remove extend_window"),
        ("ring", {"command": "python train.py"}, "not a script of your own"),
        ("gossip", {"trainer": "keras_tensorflow", "optimizer": "lion"}, "has no optimizer 'lion'; it has: sgd, adam"),
        ("gossip", {"trainer": "keras_tensorflow", "precision": "mixed_float16"}, "scales no losses"),
        ("ring", {"server_placement": "own"}, "ring has no servers: remove `server_placement`"),
        ("asynchronous", {"collectives": "gloo"}, "has no collectives 'gloo'"),
        ("asynchronous", {"launcher": "local"}, "the launcher local does not provide mpi"),
        ("backup_workers", {"servers": 2}, "backup_workers has one server"),
        ("sandblaster", {"augmentation": "crop-flip"}, "compares losses of the same samples: remove `augmentation`"),
        ("sandblaster", {"compression": "half"}, "sandblaster sends gradients as it does"),
        (
            "sandblaster",
            {"trainer": "keras_tensorflow", "model": "lstm", "model.dropout": 0.1},
            "compares losses of the same samples: remove `model.dropout`",
        ),
        ("tensorflow_parameter_server", {"trainer": "keras_tensorflow"}, "does not work with Keras 3: `fit` fails"),
        ("mpi", {"evaluator": "own"}, "its workers evaluate together (strategy mpi): remove `evaluator`"),
        ("ring", SIMULATED | {"evaluator": "own"}, "a simulation is evaluated in no time"),
    ],
)
def test_what_nodes_cannot_do_is_refused(tmp_path: Path, strategy: str, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        runs(tmp_path, {"strategy": strategy, "workers": 2, **changed}, baseline="none")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("strategy", "compression", "longest"),
    [
        ("ring", "half", "[workers=4], [workers=7], [workers=8]"), ("ring", "eight-bit", "[workers=8]"),
        ("ring", "top-k", ""), ("ring", None, ""), ("parameter_server", "half", ""),
    ],
)  # fmt: skip
def test_what_a_ring_passes_on_whole_is_warned_of_where_it_saves_no_bytes(
    tmp_path: Path, strategy: str, compression: str | None, longest: str
) -> None:
    base = SIMULATED | {"strategy": strategy, "compression": compression}
    arms = runs(tmp_path, base, matrix={"workers": [3, 4, 7, 8]}, baseline="none")
    found = warnings(arms, TWO_CORES)
    assert [text.partition("; ")[0].rpartition(": ")[2] for text in found] == [longest] * bool(longest)


def test_a_target_stops_simulated_nodes_and_real_ones_that_an_evaluator_scores(tmp_path: Path) -> None:
    """Others are scored after training."""
    target = {"metric": "validation_accuracy", "value": 0.9, "stop": True}
    base = {"strategy": "ring", "workers": 2}
    assert len(runs(tmp_path, SIMULATED | base, baseline="none", target=target)) == 1
    with pytest.raises(UserError, match="set `evaluator: own`, or `beside`"):
        runs(tmp_path, base, baseline="none", target=target)
    beside = base | {"evaluator": "beside"}
    assert len(runs(tmp_path, beside, baseline="none", target=target)) == 1
    with pytest.raises(UserError, match="knows no train_loss: let `stop` go by validation_loss"):
        runs(tmp_path, beside, baseline="none", target=target | {"metric": "train_loss"})
