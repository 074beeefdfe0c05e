"""The one record of training that loop, nodes, simulation and scripts keep."""

from typing import Any

import pytest

from dlbench.scenario.metrics import MetricDeclaration
from dlbench.scenario.run_spec import RunSpec, Target
from dlbench.scenario.settings import Settings
from dlbench.worker.train.agreement import Agreement, Diverged
from dlbench.worker.training_record import Epoch, Scores, TrainingProgress, TrainingRecord, means_of
from tests.fakes import KeptReporter

TARGET = Target(metric="validation_accuracy", value=0.8, stop=True)


def record(
    earlier: TrainingProgress | None = None, target: Target | None = TARGET, **spec: Any
) -> tuple[TrainingRecord, KeptReporter]:
    reporter = KeptReporter()
    run = RunSpec(scenario="s", label="", repeat=0, settings=Settings(), target=target, **spec)
    return TrainingRecord(run, reporter, earlier), reporter


def test_the_target_is_reached_once_by_the_slowest_process() -> None:
    kept, reporter = record()
    kept.look_at({"validation_accuracy": 0.7}, 1, 2.0)
    assert not kept.is_over
    kept.look_at({"validation_accuracy": 0.8}, 2, 4.0, lambda own_s: own_s + 1)
    kept.look_at({"validation_accuracy": 0.9}, 3, 9.0)
    assert kept.is_over
    result = kept.result()
    assert (result.time_to_target_s, result.epochs_to_target) == (5.0, 2)
    assert reporter.accuracy == 0.9


def test_a_target_that_does_not_stop_lets_training_go_on() -> None:
    kept, _ = record(target=TARGET.model_copy(update={"stop": False}))
    kept.look_at({"validation_accuracy": 0.8}, 1, 2.0)
    assert kept.progress.reached == (2.0, 1)
    assert not kept.is_over


def test_a_result_has_the_last_of_each_score_and_the_best_accuracy() -> None:
    declared = {"bleu": MetricDeclaration(better="higher", matters=0.1)}
    kept, reporter = record(metrics=declared)
    for number, scores in enumerate(({"validation_accuracy": 0.7, "bleu": 20.0}, {"validation_accuracy": 0.6}, {}), 1):
        sums = {"loss": 10.0 * number}
        kept.add(Epoch(sums, number, samples=5).row(means_of(sums, 5)) | scores)
    result = kept.result(samples_dropped=3)
    assert result.scores == {
        "train_loss": 6.0,
        "validation_accuracy": 0.6,
        "bleu": 20.0,
        "best_validation_accuracy": 0.7,
    }
    assert (result.samples_seen, result.samples_dropped) == (15, 3)
    assert [message["row"]["epoch"] for message in reporter.messages] == [1, 2, 3]


def test_rows_of_an_earlier_attempt_are_sent_again_without_moments_of_its_clock() -> None:
    row = Epoch({}, 1, samples=4, train_time_s=2.0, ended_at_s=2.5).row({"loss": 1.0})
    kept, reporter = record(TrainingProgress(epoch=1, rows=[row], reached=(2.0, 1)))
    assert [message["row"] for message in reporter.messages] == [row | {"ended_at_s": None}]
    assert kept.result().samples_seen == 4
    assert kept.is_over


def test_workers_that_disagree_end_the_run() -> None:
    kept, _ = record()
    kept.agree(Agreement("close", 1e-7, "a"), "after step 1")
    with pytest.raises(Diverged, match=r"workers disagree at the end: their weights differ by up to 0\.5"):
        kept.agree(Agreement("no", 0.5, "b"), "at the end")
    result = kept.result()
    assert (result.agreement, result.max_difference, result.weights_hash) == ("no", 0.5, "b")


def test_a_loss_that_is_no_number_ends_the_run() -> None:
    Scores({"loss": 1.0}, 4).refuse_infinite("after epoch 1")
    with pytest.raises(Diverged, match="the validation loss is nan after epoch 2"):
        Scores({"loss": float("nan")}, 4).refuse_infinite("after epoch 2")


def test_means_of_no_samples_are_unknown() -> None:
    assert means_of({"loss": 0.0}, 0) == {"loss": None}
