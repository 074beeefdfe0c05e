"""`communicator: simulated` through the real CLI: rows of workers that are not there, marked as such."""

import csv

import pytest

from dlbench import load_study, plugins
from dlbench.report.caption import caption
from tests.functional.studies import Bench

BASE = """\
name: s
base:
  trainer: numpy
  model: softmax
  dataset: digits
  communicator: simulated
  epochs: 8
  learning_rate: 0.1
  batch_size: 8
  communicator.compute_time_s: 0.02
"""
# With a server and without, with copies that agree and that do not, with gradients that are dropped. The others, in
# the simulator itself, are unit tests'.
STRATEGIES = ("asynchronous", "backup_workers", "ring")
OTHERS = (
    "downpour", "elastic_averaging", "gossip", "local_sgd", "parameter_server", "sandblaster", "softsync",
    "stale_synchronous",
)  # fmt: skip


@pytest.fixture
def work(tmp_path):
    with Bench(tmp_path) as found:
        yield found


def scenario(work, text):
    path = work.folder / "s.yaml"
    kept = [line for line in BASE.splitlines() if not (":" in line and f"\n{line.split(':')[0]}:" in f"\n{text}")]
    path.write_text("\n".join(kept) + "\n" + text)
    return path


@pytest.mark.parametrize("strategies", [STRATEGIES, pytest.param((*STRATEGIES, *OTHERS), marks=pytest.mark.soak)])
def test_every_strategy_makes_rows_that_are_called_simulated(work, strategies):
    path = scenario(work, f"matrix: {{strategy: [{', '.join(strategies)}]}}\n")
    path.write_text(path.read_text().replace("batch_size: 8\n", "batch_size: 8\n  workers: 16\n"))
    work.call(path)
    rows = {row["strategy"]: row for row in work.rows()}
    assert set(rows) == {*strategies, "single"}
    for strategy, row in rows.items():
        assert row["status"] == "completed", row["reason"]
        assert row["emulated"] == "simulated"
        assert row["processes"] == "1"
        assert (row["workers"], row["hosts"]) == (("1", "1") if strategy == "single" else ("16", "16"))
        # The last gradients that are dropped are nobody's any more.
        assert 0 <= 8 * 1438 - int(row["samples_seen"]) <= (64 if strategy == "backup_workers" else 0), strategy
        assert float(row["validation_accuracy"]) > 0.7
        assert float(row["train_time_s"]) > 1
        # The digits last for some 90 steps of 16 workers.
        assert float(row["samples_per_s"]) == pytest.approx(8 / 0.02 * int(row["workers"]), rel=0.35), strategy
        assert row["workers_agree"] == ("exact" if strategy in {"single", "ring", "parameter_server"} | _LOCAL else "")
    servers = {strategy for strategy, row in rows.items() if row["servers"] == "1"}
    assert servers == {*strategies} - {"ring", "gossip", "local_sgd"}
    assert 14 <= float(rows["asynchronous"]["staleness_mean"]) <= 15.1
    assert rows["ring"]["staleness_mean"] == ""
    assert int(rows["backup_workers"]["gradients_dropped"]) > 0 == int(rows["asynchronous"]["gradients_dropped"])
    assert int(rows["single"]["bytes_sent"]) == 0 < int(rows["ring"]["messages"])
    epochs = [row for row in work.rows("epochs") if row["run_id"] == rows["asynchronous"]["run_id"]]
    assert [int(row["epoch"]) for row in epochs] == list(range(1, 9))
    data = load_study(work.study()).report_data
    chart = plugins.load("figures", "training_time").get("chart")(data)
    assert "one process trained for all workers; a simulator computed the times" in caption(chart, data)[1]


_LOCAL = {"local_sgd"}


def test_a_worker_that_fails_ends_a_run_that_waits_for_it_and_the_study_goes_on(work):
    path = scenario(
        work,
        "  workers: 4\n  communicator.failed_worker: 2\n  communicator.failed_at_s: 0.5\n"
        "matrix: {strategy: [parameter_server, asynchronous]}\nbaseline: none\norder: written\n",
    )
    work.call(path, code=1)
    waits, goes_on = work.rows()
    assert waits["status"] == "failed"
    assert "worker 2 ended at 0.5 s" in waits["reason"]
    assert goes_on["status"] == "completed"


def test_measured_times_of_a_real_run_drive_a_simulation(work):
    real = work.folder / "real.yaml"
    real.write_text(
        "name: real\nbase: {trainer: numpy, model: softmax, dataset: digits, epochs: 6, batch_size: 8}\n"
        "baseline: none\n"
    )
    work.call(real, "--output", "measured")
    (steps,) = (work.folder / "measured").glob("*/steps.csv")
    options = f"  communicator.compute_times: measured\n  communicator.measured: {steps.relative_to(work.folder)}\n"
    work.call(scenario(work, f"  strategy: parameter_server\n{options}baseline: none\n"))
    (row,) = work.rows()
    nodes = work.rows("nodes")
    assert [node["role"] for node in nodes] == ["worker", "server"]
    with steps.open(newline="") as file:
        timed = [step for step in csv.DictReader(file) if step["phase"] == "timed"]
    own = [float(step["step_time_s"]) - float(step["communication_time_s"] or 0) for step in timed]
    mean = float(nodes[0]["compute_time_s"]) / int(nodes[0]["steps"])
    assert min(own) <= mean <= max(own)
    assert mean < 0.01
    assert sum(int(found["gradients"]) for found in work.rows("staleness")) == int(row["updates"])
    assert int(row["bytes_sent"]) == sum(int(node["bytes_received"]) for node in nodes)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("  strategy: mpi\n", "mpi has no communicator 'simulated'"),
        ("  strategy: ring\n  servers: 2\n", "ring has no servers"),
        ("  strategy: hogwild\n  workers: 4\n", "set communicator.workers_per_host to 4"),
        ("  strategy: hogwild\n  momentum: 0.9\n", "without momentum"),
        ("  strategy: ring\n  workers: 1100\n  batch_scope: global\n  batch_size: 1100\n", "at most 1024 workers"),
        ("  strategy: asynchronous\n  communicator.bandwidth_bytes_per_s: 1e-300\n", "bandwidth_bytes_per_s"),
        ("  strategy: asynchronous\n  communicator.latency_s: .nan\n", "not a finite number"),
        ("  strategy: backup_workers\n  workers: 4\n  servers: 2\n", "backup_workers has one server"),
        ("  strategy: downpour\n  optimizer: adam\n", "downpour uses Adagrad"),
        ("  strategy: sandblaster\n  momentum: 0.9\n", "sandblaster is L-BFGS"),
        ("  strategy: sandblaster\n  divide: epochs\n", "divide: data"),
        ("  strategy: ring\n  mode: scale-out\n", "communicator.workers_per_host"),
        ("  strategy: ring\n  checkpoint_every: 1\n", "makes no checkpoints"),
        ("  strategy: softsync\n  strategy.n: 3\n", "strategy.n"),
        ("  strategy: backup_workers\n", "leave none"),
        ("  strategy: stale_synchronous\n  momentum: 0.9\n", "without momentum"),
        ("  strategy: asynchronous\n  divide: epochs\n", "divide: data"),
        ("  strategy: asynchronous\n  communicator.latency: 1\n", "communicator.latency_s"),
        ("  strategy: asynchronous\n  communicator.compute_times: measured\n", "communicator.measured"),
        ("  strategy: asynchronous\n  communicator.failed_server: 3\n", "failed_server"),
        ("  strategy: asynchronous\n  communicator.slow_workers: 3\n", "slow_workers"),
    ],
)
def test_what_a_simulation_cannot_do_is_refused_before_anything_starts(work, changed, message):
    output = work.call(scenario(work, changed), code=2)
    assert message in output
    assert not (work.folder / "studies").exists()


@pytest.mark.tensorflow
@pytest.mark.soak  # Keras trains real nodes in `test_node_runs`, which the simulator runs as they are
def test_keras_models_train_simulated_workers(work):
    path = scenario(work, "  strategy: asynchronous\n  workers: 4\n  servers: 2\nbaseline: none\n")
    path.write_text(path.read_text().replace("trainer: numpy", "trainer: keras_tensorflow"))
    work.call(path)
    (row,) = work.rows()
    assert (row["status"], row["emulated"], row["trainer"]) == ("completed", "simulated", "keras_tensorflow")
    assert float(row["validation_accuracy"]) > 0.8
    assert float(row["staleness_mean"]) == pytest.approx(3, abs=0.1)
