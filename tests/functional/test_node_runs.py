"""Strategies of nodes as processes of `dlbench run`: workers and servers, on this machine and on several hosts."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster.cluster import Cluster
from tests.functional.studies import BASE, PACED, Bench, rows, trains
from tests.functional.test_several_hosts import cluster_file, scenario
from tests.functional.test_several_hosts import run as run_on_hosts
from tests.functional.waiting import wait_until

pytestmark = pytest.mark.mpi
HAND_OUT = ("asynchronous", "backup_workers", "downpour", "elastic_averaging", "gossip", "hogwild", "softsync")
IN_SHARES = ("local_sgd", "parameter_server", "ring", "stale_synchronous")
WITHOUT_SERVERS = {"gossip", "hogwild", "local_sgd", "ring", "mpi"}
COORDINATED = "tests.coordinated:Coordinated"
# All workers take the mean gradient of the joined batch.
SYNCHRONOUS = ("mpi", "parameter_server", COORDINATED)
AGREEING = {*SYNCHRONOUS, "ring", "local_sgd", "hogwild"}
# Further cases of `make soak`: the nodes of every strategy train over MPI, simulated too, in `test_nodes_over_mpi`.
SOAKED = (
    "backup_workers", "downpour", "elastic_averaging", "gossip", "hogwild", "softsync", "local_sgd", "ring",
    "stale_synchronous",
)  # fmt: skip
EPOCHS = 3
EVALUATED = [2, 3]


@pytest.fixture
def work(tmp_path: Path) -> Any:
    with Bench(tmp_path) as found:
        yield found


def write(work: Bench, base: dict[str, Any], **parts: Any) -> Path:
    path = work.folder / "s.yaml"
    path.write_text(json.dumps({"name": "s", "baseline": "none", "base": BASE | base, **parts}))
    return path


def train(work: Bench, points: list[dict[str, Any]]) -> None:
    base = {"epochs": EPOCHS, "batch_size": 8, "remainder": "drop", "evaluate_every": 2, "precision": "float64"}
    work.call(write(work, base, include=points))
    made = {(row["strategy"], row["communicator"]) for row in work.rows()}
    assert made == {(point["strategy"], point.get("communicator", "mpi")) for point in points}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Make one study of strategies with two workers, of which one is also simulated."""
    points = [{"strategy": strategy} for strategy in SYNCHRONOUS]
    points += [{"strategy": COORDINATED, "communicator": "simulated"}]
    with Bench(tmp_path_factory.mktemp("study")) as made:
        train(made, points)
        yield made


def by_strategy(study: Bench, table: str = "runs", communicator: str = "mpi") -> dict[str, list[dict[str, str]]]:
    """Return the rows of each strategy's run over this communicator."""
    of = {row["run_id"]: row["strategy"] for row in study.rows() if row["communicator"] == communicator}
    found: dict[str, list[dict[str, str]]] = {strategy: [] for strategy in of.values()}
    for row in study.rows(table):
        if row["run_id"] in of:
            found[of[row["run_id"]]].append(row)
    return found


def test_every_strategy_trains_all_samples_in_its_processes(study: Bench) -> None:
    for strategy, (row,) in by_strategy(study).items():
        if strategy == COORDINATED:
            continue
        servers = int(strategy not in WITHOUT_SERVERS)
        assert (row["status"], row["emulated"], row["communicator"]) == ("completed", "", "mpi"), row
        assert (row["servers"], row["processes"]) == (str(servers), str(2 + servers + (row["evaluator"] == "beside")))
        assert row["server_placement"] == ("beside" if servers else "")
        per_epoch = 1432 if strategy in HAND_OUT else 1424
        if row["evaluator"] == "":  # one may end training within an epoch
            # The last gradients that are dropped are nobody's any more.
            dropped = EPOCHS * per_epoch - int(row["samples_seen"])
            assert 0 <= dropped <= (32 if strategy == "backup_workers" else 0), strategy
            assert float(row["validation_accuracy"]) > 0.85, strategy
        assert 0 < float(row["timed_window_s"]) < float(row["train_time_s"]), strategy
        assert 0 < int(row["timed_samples"]) < int(row["samples_seen"]), strategy
        assert row["workers_agree"] == ("exact" if strategy in AGREEING else ""), strategy


def test_a_strategy_with_a_role_of_its_own_needs_no_other_file(study: Bench) -> None:
    (row,), (simulated,) = (by_strategy(study, communicator=name)[COORDINATED] for name in ("mpi", "simulated"))
    assert (row["status"], row["processes"], row["workers_agree"]) == ("completed", "3", "exact")
    assert simulated["workers_agree"] == "exact"
    # It sits beside the first worker; simulated workers have a host each.
    for communicator, hosts in (("mpi", "000"), ("simulated", "010")):
        nodes = by_strategy(study, "nodes", communicator)[COORDINATED]
        assert [node["role"] for node in nodes] == ["worker", "worker", "coordinator"]
        assert "".join(node["host"] for node in nodes) == hosts


def test_synchronous_strategies_have_the_losses_of_all_reduce_in_every_epoch(study: Bench) -> None:
    epochs = {
        strategy: sorted(rows, key=lambda row: (row["worker"], int(row["epoch"])))
        for strategy, rows in by_strategy(study, "epochs").items()
    }
    for name in ("train_loss", "validation_loss"):
        losses = {strategy: [float(row[name]) for row in epochs[strategy] if row[name]] for strategy in SYNCHRONOUS}
        assert len(losses["mpi"]) == 2 * (EPOCHS if name == "train_loss" else len(EVALUATED))
        for strategy in SYNCHRONOUS:
            assert losses[strategy] == pytest.approx(losses["mpi"], rel=1e-9), (strategy, name)
    for strategy in SYNCHRONOUS:
        assert {row["evaluated_samples"] for row in epochs[strategy] if row["validation_loss"]} == {"180", "179"}


def test_what_nodes_sent_was_received_and_is_in_the_row(study: Bench) -> None:
    nodes, links = by_strategy(study, "nodes"), by_strategy(study, "links")
    for strategy, (row,) in by_strategy(study).items():
        if strategy in ("mpi", COORDINATED):
            continue
        sent, received, num_bytes, bytes_received = (
            sum(int(node[name]) for node in nodes[strategy])
            for name in ("messages_sent", "messages_received", "bytes_sent", "bytes_received")
        )
        assert sent == received == int(row["messages"]), strategy
        # On one host memory is shared without a message.
        assert (sent == 0) == (strategy == "hogwild")
        assert num_bytes == bytes_received == int(row["bytes_sent"])
        assert sum(int(link["messages"]) for link in links[strategy]) == sent
        for way, ends in (("node", "sent"), ("to_node", "received")):
            of_node = [
                sum(int(link["bytes"]) for link in links[strategy] if link[way] == one["node"])
                for one in nodes[strategy]
            ]
            assert of_node == [int(one[f"bytes_{ends}"]) for one in nodes[strategy]], strategy
        roles = ["worker", "worker", "server", "evaluator"][: len(nodes[strategy])]
        assert [(node["node"], node["role"]) for node in nodes[strategy]] == list(zip("0123", roles, strict=False))
    assert nodes.get("mpi", []) == []


def test_the_staleness_of_gradients_is_that_of_the_strategy(study: Bench) -> None:
    found, counts = by_strategy(study), by_strategy(study, "staleness")
    for strategy in {"asynchronous", "parameter_server"} & {*found}:
        gradients = sum(int(row["gradients"]) for row in counts[strategy])
        assert gradients == sum(int(node["steps"] or 0) for node in by_strategy(study, "nodes")[strategy])
    # Of two workers that take turns each gradient meets the other's update, unless one is kept from its core.
    if "asynchronous" in found:
        assert 0.2 < float(found["asynchronous"][0]["staleness_mean"]) < 1.01
    else:
        assert found["parameter_server"][0]["staleness_max"] == "0"


def test_simulated_and_real_runs_of_a_case_without_chance_have_the_same_numbers(study: Bench) -> None:
    same = ("validation_loss", "validation_accuracy", "train_loss", "messages", "bytes_sent", "samples_seen", "steps")
    found = by_strategy(study)
    for strategy, (simulated,) in by_strategy(study, communicator="simulated").items():
        (real,) = found[strategy]
        # Sums over the validation set are made by two workers, and by one.
        numbers = [{name: float(row[name]) for name in same} for row in (real, simulated)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-12), strategy
        assert (real["emulated"], simulated["emulated"]) == ("", "simulated")


@pytest.mark.soak
def test_the_other_strategies_keep_the_same_rules(work: Bench) -> None:
    points = [{"strategy": strategy} for strategy in (*SOAKED, "parameter_server")]
    simulated = [{"strategy": name, "communicator": "simulated"} for name in ("ring", "local_sgd", "parameter_server")]
    train(work, points + simulated)
    test_every_strategy_trains_all_samples_in_its_processes(work)
    test_what_nodes_sent_was_received_and_is_in_the_row(work)
    test_simulated_and_real_runs_of_a_case_without_chance_have_the_same_numbers(work)
    # With a bound of one step a worker makes two steps at most while the other makes none.
    assert int(by_strategy(work)["stale_synchronous"][0]["staleness_max"]) <= 3


@pytest.mark.soak  # what the window of nodes is, also in lock step, is tested in `test_common_window`
def test_the_window_of_workers_that_do_not_wait_is_that_of_barriers_where_they_do(work: Bench) -> None:
    """Both definitions on one synchronous run: from the first step's end to the last's, and from update to update."""
    base = {
        "model": "mlp", "model.hidden": [256, 128], "epochs": 20, "evaluate_every": 20, "remainder": "drop",
        "strategy": "parameter_server",
    }  # fmt: skip
    work.call(write(work, base))
    (row,) = work.rows()
    steps = [step for step in work.rows("steps") if step["phase"] == "timed"]
    ends = [float(step["started_at_s"]) + float(step["step_time_s"]) for step in steps]
    begun = min(float(step["started_at_s"]) for step in steps)
    samples = sum(int(step["num_samples"]) for step in steps)
    # Not samples_per_s: on a quick machine the window is too short for one.
    rate = float(row["timed_samples"]) / float(row["timed_window_s"])
    assert rate == pytest.approx(samples / (max(ends) - begun), rel=0.02)
    assert int(row["timed_steps"]) == pytest.approx(len(steps) / 2, rel=0.01)


# A server is named by the same rule, of which `test_outcome_rules` has more.
@pytest.mark.parametrize(("rank", "name"), [pytest.param(1, "server 0", marks=pytest.mark.soak), (2, "evaluator 0")])
def test_a_killed_node_ends_the_run_and_is_named(work: Bench, rank: int, name: str) -> None:
    base = PACED | {"epochs": 100_000, "strategy": "asynchronous", "evaluator": "beside", "workers": 1}
    with work.start(write(work, base)) as process:
        wait_until(lambda: trains(work.folder), "training", 60)
        (victim,) = [pid for pid in work.left_running() if rank_of(pid) == rank]
        os.kill(victim, signal.SIGKILL)
        process.communicate(timeout=60)
    (row,) = work.rows()
    assert row["status"] == "failed"
    assert row["reason"].startswith(f"{name} exited before sending its result (killed by SIGKILL)"), row["reason"]
    assert work.left_running() == []


# The others wait for all, a partner or some, share memory, or have a coordinator: `make soak`. That the evaluator ends
# all of them alike, and waits for no node that holds nothing, is proven by its unit tests.
WAITING = ["backup_workers", "gossip", "hogwild", "ring", "sandblaster", "stale_synchronous"]
STOP = {"metric": "validation_accuracy", "value": 0.85, "stop": True}


@pytest.mark.parametrize("strategies", [["asynchronous"], pytest.param(WAITING, marks=pytest.mark.soak)])
def test_an_evaluator_ends_training_when_the_target_is_reached(work: Bench, strategies: list[str]) -> None:
    base = {"epochs": 5_000, "batch_size": 8, "evaluator": "beside"}
    work.call(write(work, base, matrix={"strategy": strategies}, target=STOP))
    if strategies == ["asynchronous"]:
        test_every_strategy_trains_all_samples_in_its_processes(work)
        test_what_nodes_sent_was_received_and_is_in_the_row(work)
        test_the_staleness_of_gradients_is_that_of_the_strategy(work)
    places = work.rows("topology")
    for strategy, (row,) in by_strategy(work).items():
        assert (row["status"], row["evaluator"]) == ("completed", "beside"), row["reason"]
        epochs, reached = int(row["epochs_completed"]), int(row["epochs_to_target"])
        # It ends soon after, not at once: nobody waits for a score.
        assert 1 <= reached <= epochs < 1000, strategy
        assert float(row["time_to_target_s"]) <= float(row["train_time_s"])
        scored = [own for own in by_strategy(work, "epochs")[strategy] if own["worker"] == "0"]
        assert [int(own["epoch"]) for own in scored] == list(range(1, epochs + 1))
        accuracies = [float(own["validation_accuracy"]) for own in scored]
        assert max(accuracies[: reached - 1], default=0.0) < 0.85 <= accuracies[reached - 1]
        if strategy in IN_SHARES:
            assert int(row["samples_seen"]) == epochs * 1438
            assert row["workers_agree"] == ("" if strategy == "stale_synchronous" else "exact")
        else:
            assert int(row["samples_seen"]) >= (epochs - (strategy == "backup_workers")) * 1438
        roles = [place["role"] for place in places if place["run_id"] == row["run_id"]]
        others = ["server"] * (strategy not in WITHOUT_SERVERS) + ["coordinator"] * (strategy == "sandblaster")
        assert roles == ["worker"] * 2 + others + ["evaluator"]


def rank_of(pid: int) -> int | None:
    """Return the rank of a worker process; None of another one."""
    try:
        process = psutil.Process(pid)
        rank = process.environ().get("OMPI_COMM_WORLD_RANK")
        return int(rank) if rank is not None and "dlbench.worker" in process.cmdline() else None
    except psutil.Error:
        return None


@pytest.mark.soak
@pytest.mark.tensorflow
@pytest.mark.slow
def test_keras_models_train_with_servers_and_their_moving_statistics(work: Bench) -> None:
    base = {
        "trainer": "keras_tensorflow", "model": "cnn", "model.batch_norm": "local", "epochs": 2, "batch_size": 32,
        "train_samples": 320, "learning_rate": 0.02, "evaluator": "beside",
    }  # fmt: skip
    points = [{"strategy": "mpi", "evaluator": None}, {"strategy": "parameter_server"}]
    work.call(write(work, base, include=points))
    found = {row["strategy"]: row for row in work.rows()}
    assert {row["status"] for row in found.values()} == {"completed"}
    losses = [float(found[strategy]["validation_loss"]) for strategy in ("mpi", "parameter_server")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.soak  # one-sided access is tested in `test_nodes_over_mpi`
def test_workers_that_share_parameters_on_two_hosts_get_and_add_to_them(pair: Cluster, tmp_path: Path) -> None:
    base = BASE | {"workers": 2, "workers_per_host": 1, "strategy": "hogwild", "epochs": 8}
    path = scenario(tmp_path, base=base, matrix={"strategy.sparse": [False, True]})
    done = run_on_hosts(pair, path, cluster_file(pair, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for row in rows(tmp_path):
        assert (row["hosts"], row["workers_agree"], row["messages"]) == ("2", "exact", "0")
        nodes = [node for node in rows(tmp_path, "nodes") if node["run_id"] == row["run_id"]]
        # Softmax of 650 numbers in float32: worker 1 gets all for each gradient, and adds where that is not zero.
        steps = int(nodes[1]["steps"])
        sparse = row["strategy.sparse"] == "true"
        assert int(row["bytes_sent"]) == pytest.approx(2 * 2600 * steps, rel=0.3 if sparse else 1e-3)
        assert float(row["validation_accuracy"]) > 0.85
        assert int(row["wire_bytes"]) > 2600 * steps


# Beside them, mpirun returns to the first host after the second; it does not where servers come after all workers.
@pytest.mark.parametrize(
    ("placement", "workers_per_host", "hosts"),
    [("beside", 1, "0101"), pytest.param("own", None, "0011", marks=pytest.mark.soak)],
)
def test_servers_sit_beside_the_workers_of_every_host_or_after_them(
    pair: Cluster, tmp_path: Path, placement: str, workers_per_host: int | None, hosts: str
) -> None:
    base = BASE | {"strategy": "asynchronous", "servers": 2, "epochs": 4}
    path = scenario(tmp_path, base=base | {"server_placement": placement, "workers_per_host": workers_per_host})
    cluster = cluster_file(pair, tmp_path)
    made = json.loads(cluster.read_text())
    cluster.write_text(json.dumps({**made, "hosts": [host | {"slots": 2} for host in made["hosts"]]}))
    done = run_on_hosts(pair, path, cluster)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = rows(tmp_path)
    places = rows(tmp_path, "topology")
    assert [place["role"] for place in places] == ["worker"] * 2 + ["server"] * 2
    assert "".join(place["host"] for place in places) == hosts
    assert int(row["wire_bytes"]) > 0
