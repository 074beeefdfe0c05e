"""Batches that change while a run trains: which samples, which rates, the same decisions on all workers."""

from collections.abc import Callable
from functools import partial
from itertools import chain, repeat
from time import sleep
from typing import Any

import numpy as np
import pytest

from dlbench.records.columns import BATCH_CHANGES, FIELD
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import BatchPolicy, Settings
from dlbench.strategies._step import Observed
from dlbench.trainers import BatchParts, Sums
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.dynamic_batch import DynamicBatch
from dlbench.worker.train.order import DataOrder
from dlbench.worker.training_record import TrainingProgress
from tests.fakes import LinearTrainer, in_threads
from tests.unit.worker.train.test_loop import Worker as OfLoop

NUM_SAMPLES = 103
# A step takes this long whatever its batch: twice the batch is nearly twice as fast.
STEP_S = 0.002


def samples() -> TrainingData:
    random = np.random.default_rng(1)
    x = random.normal(size=(NUM_SAMPLES + 20, 6))
    y = (x @ random.normal(size=(6, 3)) + 2 * random.normal(size=(NUM_SAMPLES + 20, 3))).argmax(axis=1)
    return TrainingData(x, y, np.arange(NUM_SAMPLES), x, y, np.arange(NUM_SAMPLES, NUM_SAMPLES + 20))


def spec(policy: str = "step-doubling", **settings: Any) -> RunSpec:
    given = {
        "strategy": "mpi", "epochs": 6, "learning_rate": 0.1, "batch_size": 10, "batch_scope": "global",
        "batch_policy": policy, "largest_batch_size": 40,
    }  # fmt: skip
    given |= {"batch_doubling_epochs": 2} if policy == "step-doubling" else {"batch_policy_steps": 8}
    return RunSpec(scenario="s", label="", repeat=0, settings=Settings(**given | settings))


class ConstantTrainer(LinearTrainer):
    """A trainer whose steps take equally long for all batches."""

    def gradient(self, x: np.ndarray, y: np.ndarray, scale: float) -> tuple[np.ndarray, Sums]:
        sleep(STEP_S)
        return super().gradient(x, y, scale)


class Worker(OfLoop):
    @property
    def changes(self) -> list[dict[str, Any]]:
        return self.rows_of("batch_change")

    @property
    def sizes(self) -> list[int]:
        return self.reporter.rows[:, FIELD["num_samples"]].astype(int).tolist()


def train(run: RunSpec, make: Callable[[], LinearTrainer] = lambda: LinearTrainer(6, 3), **how: Any) -> list[Worker]:
    return in_threads(run.settings.workers, lambda each: Worker(run, each, make(), data=samples(), **how))


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_each_sample_is_trained_once_in_an_epoch_however_the_batch_grows(workers: int) -> None:
    run = spec(workers=workers)
    for asked in ([1], [2], [4], [8], [1, 1, 4, 2], [1, 2, 8]):
        orders = [DataOrder.of(run, (worker,), NUM_SAMPLES) for worker in range(workers)]
        shares = []
        for order in orders:
            multiples = chain(asked, repeat(asked[-1]))
            shares.append(list(order.growing_batches(3, partial(next, multiples))))
        totals = [share.total for share in shares[0]]
        assert all([share.total for share in of_worker] == totals for of_worker in shares)
        assert [sum(len(of_worker[step].indices) for of_worker in shares) for step in range(len(totals))] == totals
        taken = np.concatenate([share.indices for of_worker in shares for share in of_worker])
        assert sorted(taken) == list(range(NUM_SAMPLES))
        assert set(totals) <= {10, 20, 40, 80, 3}
        assert totals[-1] == 3
        assert not shares[0][-1].is_full


def test_a_batch_that_stays_is_cut_as_a_fixed_one() -> None:
    order = DataOrder.of(spec(workers=3), (1, 2), NUM_SAMPLES)
    for fixed, growing in zip(order.epoch(2), order.growing_batches(2, lambda: 1), strict=True):
        assert fixed[1:] == growing[1:]
        assert np.array_equal(fixed.indices, growing.indices)


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_step_doubling_is_the_same_training_on_any_number_of_workers(workers: int) -> None:
    (one,) = train(spec())
    many = train(spec(workers=workers))
    assert one.sizes == 2 * [*[10] * 10, 3] + 2 * [*[20] * 5, 3] + 2 * [40, 40, 20, 3]
    for worker in many:
        np.testing.assert_allclose(worker.trainer.weights, one.trainer.weights, rtol=0, atol=1e-12)
        assert worker.result.steps == one.result.steps == 42
        assert worker.result.agreement == "exact"
        assert worker.result.gradient_norms is None
    assert [len(worker.changes) for worker in many] == [2] + [0] * (workers - 1)
    for change in (one.changes, many[0].changes):
        assert [(row["step"], row["epoch"], row["batch_size_before"], row["batch_size"]) for row in change] == [
            (22, 3, 10, 20),
            (34, 5, 20, 40),
        ]
        assert {(row["learning_rate"], row["learning_rate_gain"], row["noise_scale"]) for row in change} == {
            (0.1, 1, None)
        }
        assert set(change[0]) == {column.name for column in BATCH_CHANGES[2:]}


def test_a_warm_up_is_of_so_many_samples_whatever_the_batch() -> None:
    rates = []
    for policy in ({}, {"batch_doubling_epochs": 1}):
        (worker,) = train(spec(warmup_epochs=4, **policy))
        rates.append([row["learning_rate"] for row in worker.epoch_rows])
    # The last step of an epoch is its remainder, which counts as a whole one.
    assert rates[0] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1], rel=0.01)
    assert rates[1] == pytest.approx(rates[0], rel=0.01)


@pytest.mark.parametrize(
    "decay",
    [
        {"learning_rate_decay": "step", "learning_rate_decay_epochs": 2, "learning_rate_decay_factor": 0.5},
        {"learning_rate_decay": "cosine"},
    ],
)
def test_a_rate_falls_with_the_samples_whatever_the_batch(decay: dict[str, Any]) -> None:
    rates = []
    for policy in ({}, {"batch_doubling_epochs": 1}):
        (worker,) = train(spec(**decay, **policy))
        rates.append([row["learning_rate"] for row in worker.epoch_rows])
    if "step" in decay.values():  # all steps of an epoch have one rate, also its first one, which has the new batch
        assert [change["learning_rate"] for change in worker.changes] == pytest.approx(rates[1][1:3])
    assert rates[0][-1] < rates[0][0] / 2
    # The rate of an epoch is its last step's, which is its remainder: along a cosine a larger step begins earlier.
    assert rates[1] == pytest.approx(rates[0], rel=0.15 if "cosine" in decay.values() else 1e-12)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_goodput_grows_where_steps_take_equally_long(
    workers: int, in_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DynamicBatch, "_time", lambda *_: STEP_S)
    run = spec("goodput", workers=workers, batch_size=12, largest_batch_size=48, epochs=20, learning_rate=0.02)
    trained = train(run, lambda: ConstantTrainer(6, 3), in_graph=in_graph)
    first = trained[0]
    sizes = [row["batch_size"] for row in first.changes]
    assert sizes[:2] == [24, 48]
    for worker in trained:
        assert np.array_equal(worker.trainer.weights, first.trainer.weights)
        assert worker.result.steps == first.result.steps
    for row in first.changes[:2]:
        noise, multiple = row["noise_scale"], row["batch_size"] / 12
        # The first step is as cold as without a policy: periods begin after it.
        assert row["step"] % 8 == 1
        # Noise that hides the gradient is infinite, which no cell holds.
        gain = multiple if noise is None else multiple * (noise + 12) / (noise + multiple * 12)
        assert row["learning_rate_gain"] == pytest.approx(gain)
        assert row["learning_rate"] == pytest.approx(0.02 * row["learning_rate_gain"])
        assert row["predicted_gain"] > 1.05
        assert row["step_time_s"] >= STEP_S
        assert row["predicted_step_time_s"] == row["step_time_s"]
    assert isinstance(first.loop.step, Observed) == (in_graph or workers == 1)


def test_a_step_that_is_observed_is_the_step_that_it_stands_for() -> None:
    for workers in (1, 2, 3):
        run = spec("goodput", workers=workers, batch_size=12, batch_policy_steps=10**6)
        fixed = run.model_copy(update={"settings": run.settings.model_copy(update={"batch_policy": BatchPolicy.FIXED})})
        seen, unseen = train(run, in_graph=True), train(fixed, in_graph=True)
        for worker, other in zip(seen, unseen, strict=True):
            np.testing.assert_allclose(worker.trainer.weights, other.trainer.weights, rtol=0, atol=1e-12)
            assert worker.sizes == other.sizes
            assert worker.loop.step.norms is not None
            assert worker.loop.step.norms.count > 4
            # Steps that are made between two calls have rows like the others: no part of another way is in them.
            assert np.isnan(worker.reporter.rows[:, FIELD["communication_time_s"]]).all()


def test_what_is_rehearsed_changes_no_weight_and_counts_as_nothing_sent() -> None:
    run = spec("goodput", workers=2, batch_size=12, batch_policy_steps=10**6)
    fixed = run.model_copy(update={"settings": run.settings.model_copy(update={"batch_policy": BatchPolicy.FIXED})})
    for worker, other in zip(train(run), train(fixed), strict=True):
        assert np.array_equal(worker.trainer.weights, other.trainer.weights)
        assert worker.result.bytes_sent == other.result.bytes_sent


@pytest.mark.parametrize("policy", ["step-doubling", "goodput"])
def test_a_resumed_run_has_the_batch_it_had_and_every_change(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DynamicBatch, "_time", lambda *_: STEP_S)
    settings: dict[str, Any] = {"batch_size": 12, "largest_batch_size": 48, "learning_rate": 0.02}
    (whole,) = train(spec(policy, **settings), lambda: ConstantTrainer(6, 3))
    (half,) = train(spec(policy, epochs=3, **settings), lambda: ConstantTrainer(6, 3))
    progress = TrainingProgress.model_validate(half.loop.progress.model_dump(mode="json"))
    assert len(progress.batch_changes) > 0
    assert progress.batch_policy is not None
    multiple = progress.batch_policy["multiple"]
    (resumed,) = train(spec(policy, **settings), lambda: half.trainer, earlier=progress)
    assert resumed.sizes[0] == 12 * multiple
    steps = [row["step"] for row in resumed.changes]
    assert steps == sorted(set(steps))
    assert resumed.changes[: len(half.changes)] == half.changes
    if policy == "step-doubling":
        assert np.array_equal(resumed.trainer.weights, whole.trainer.weights)
        timeless = [[{**row, "train_time_s": 0} for row in worker.changes] for worker in (resumed, whole)]
        assert timeless[0] == timeless[1]


def test_a_batch_beyond_a_microbatch_has_as_many_parts_as_it_takes() -> None:
    parts = BatchParts(1, 16)
    assert [parts.number(size) for size in (0, 1, 16, 17, 32, 64)] == [1, 1, 1, 2, 2, 4]
    assert [part.stop - part.start for part in parts.cut(33)] == [11, 11, 11]
    assert BatchParts(3, 16).number(20) == 3
    assert not BatchParts().may_be_several
    (worker,) = train(spec(microbatch_size=16))
    assert [row["parts"] for row in worker.changes] == [2, 3]
