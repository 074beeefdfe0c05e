"""Metrics from end to end: one that a script reports, and the squared error of a regression."""

import numpy as np
import pytest

from tests.functional.studies import Bench
from tests.functional.worker_runs import SCRIPTS

SCRIPT = f"""\
name: s
base: {{command: "python {SCRIPTS}/language.py NAME", strategy: single, epochs: 9}}
metrics:
  perplexity: {{better: lower, matters: 2%}}
target: {{metric: perplexity, value: 25, stop: true}}
baseline: none
"""
REGRESSION = """\
name: s
base: {dataset: npz, dataset.path: numbers.npz, model: mlp, model.hidden: [16], trainer: numpy, precision: float64,
       epochs: 12, evaluate_every: 5, learning_rate: 0.05, batch_scope: global, batch_size: 24, cores_per_worker: 1}
include:
  - {strategy: mpi, workers: 2}
  - {strategy: parameter_server, workers: 1, evaluator: beside}
  - {strategy: ring, workers: 3, communicator: simulated}
baseline: none
target: {metric: validation_mean_squared_error, value: 0.5}
"""
SAMPLES = ("train", "validation")


@pytest.fixture
def work(tmp_path):
    with Bench(tmp_path) as found:
        yield found


def written(work, text):
    path = work.folder / "s.yaml"
    path.write_text(text)
    return path


def test_a_script_reports_a_declared_metric_and_ends_at_its_target(work):
    work.call(written(work, SCRIPT.replace(" NAME", "")))
    (row,) = work.rows()
    assert (row["status"], row["target_metric"], row["epochs_to_target"]) == ("completed", "perplexity", "4")
    assert float(row["perplexity"]) == 25.0
    assert float(row["time_to_target_s"]) <= float(row["train_time_s"])
    assert [float(epoch["perplexity"]) for epoch in work.rows("epochs")] == [200.0, 100.0, 50.0, 25.0]
    assert row["validation_accuracy"] == row["knows_nothing_loss"] == ""
    work.call(work.study(), "--to", "json", command="export")
    work.call(work.study(), command="show")


def test_a_metric_that_is_not_declared_fails_the_run_at_the_line_of_the_script(work):
    work.call(written(work, SCRIPT.replace("NAME", "perplexty")), code=1)
    (row,) = work.rows()
    assert row["status"] == "failed"
    assert "language.py:16: run.epoch: the scenario declares no metric perplexty" in row["reason"]


@pytest.mark.mpi
def test_a_regression_is_the_same_with_any_number_of_workers(work):
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 5)).astype(np.float32)
    y = np.tanh(x @ random.normal(size=5)) + 0.1 * random.normal(size=400)
    np.savez(work.folder / "numbers.npz", x=x, y=y)
    work.call(written(work, REGRESSION))
    rows = work.rows()
    assert {row["status"] for row in rows} == {"completed"}
    of_epochs = {}
    for row in rows:
        for samples in SAMPLES:
            error = float(row[f"{samples}_mean_squared_error"])
            assert error == float(row[f"{samples}_loss"]) > 0
            assert error == pytest.approx(float(rows[0][f"{samples}_loss"]), rel=1e-9), row["strategy"]
            assert row[f"{samples}_accuracy"] == ""
        guess = float(row["knows_nothing_mean_squared_error"])
        assert guess == float(row["knows_nothing_loss"]) > 2 * float(row["validation_mean_squared_error"])
        assert row["best_validation_accuracy"] == row["knows_nothing_accuracy"] == ""
        assert row["time_to_target_s"] != ""
        epochs = [own for own in work.rows("epochs") if own["run_id"] == row["run_id"] and own["worker"] == "0"]
        of_epochs[row["strategy"]] = {
            own["epoch"]: float(own["validation_loss"]) for own in epochs if own["validation_loss"]
        }
    assert [*of_epochs["mpi"]] == ["5", "10", "12"]
    # Those of an evaluator beside the workers, too, and of the same epochs.
    for losses in of_epochs.values():
        assert losses == pytest.approx(of_epochs["mpi"], rel=1e-9)
    work.call(work.study(), command="show")
    for target, said in (("validation_accuracy, value: 0.9", "numbers to predict"), ("bleu, value: 3", "no score")):
        text = REGRESSION.replace("validation_mean_squared_error, value: 0.5", target)
        assert said in work.call(written(work, text), command="check", code=2)
