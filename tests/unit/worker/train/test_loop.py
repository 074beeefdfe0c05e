import itertools
import math
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest

from dlbench.analysis.metrics.warm_up import without_warm_up
from dlbench.errors import UserError
from dlbench.records.columns import FIELD, STEP_PHASES
from dlbench.records.result import MIN_TIMED_STEPS, Result
from dlbench.scenario.run_spec import RunSpec, Target
from dlbench.scenario.settings import Settings
from dlbench.strategies._step import Inside, Step
from dlbench.telemetry.journal import Journal
from dlbench.trainers import Sums
from dlbench.worker.train.agreement import Diverged
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.loop import Loop
from dlbench.worker.training_record import TrainingProgress
from tests.fakes import IdleObserver, KeptReporter, LinearTrainer, SumStrategy, ThreadCommunicator, in_threads

# Far longer than all steps of a test.
SLOW_S = 0.3
# How many the first steps are that take longer where a test wants them to.
SLOW_STEPS = 20

NUM_SAMPLES, NUM_VALIDATION = 103, 37


def samples() -> TrainingData:
    random = np.random.default_rng(1)
    x = random.normal(size=(NUM_SAMPLES + NUM_VALIDATION, 6))
    y = (x @ random.normal(size=(6, 3))).argmax(axis=1)
    validation = np.arange(NUM_SAMPLES, NUM_SAMPLES + NUM_VALIDATION)
    return TrainingData(x, y, np.arange(NUM_SAMPLES), x, y, validation)


def spec(target: Target | None = None, **settings: Any) -> RunSpec:
    settings = {
        "strategy": "mpi",
        "epochs": 3,
        "learning_rate": 0.5,
        "batch_size": 10,
        "batch_scope": "global",
    } | settings
    return RunSpec(scenario="s", label="", repeat=0, settings=Settings(**settings), target=target)


class WarmingTrainer(LinearTrainer):
    """A trainer whose first steps take longer."""

    def __init__(self, transient_s: float) -> None:
        super().__init__(6, 3, seed=0)
        self.steps, self.transient_s = 0, transient_s

    def gradient(self, x: np.ndarray, y: np.ndarray, scale: float) -> tuple[np.ndarray, Sums]:
        self.steps += 1
        if self.steps <= SLOW_STEPS:
            sleep(self.transient_s)
        return super().gradient(x, y, scale)


class Worker:
    """What one worker of a test run ended with."""

    def __init__(
        self, run: RunSpec, communicator: ThreadCommunicator, trainer: LinearTrainer, *,
        data: TrainingData | None = None, earlier: TrainingProgress | None = None,
        sabotaged: bool = False, in_graph: bool = False,
    ) -> None:  # fmt: skip
        self.trainer, self.reporter, self.observer = trainer, KeptReporter(), IdleObserver()
        strategy = SumStrategy(communicator, sabotaged=sabotaged)
        if in_graph:
            step: Step = Inside(self.trainer, self.reporter, strategy.all_reduce)
        else:
            step = strategy.bind(self.trainer, self.reporter)
        self.loop = Loop(run, step, strategy, communicator, data or samples(), self.observer, earlier=earlier)
        self.result: Result = self.loop.train()

    def rows_of(self, kind: str) -> list[dict[str, Any]]:
        return [message["row"] for message in self.reporter.messages if message["kind"] == kind]

    @property
    def epoch_rows(self) -> list[dict[str, Any]]:
        return self.rows_of("epoch")

    @property
    def phases(self) -> list[str]:
        return [STEP_PHASES[int(number)] for number in self.reporter.rows[:, 3]]


def train(run: RunSpec, make: Callable[[], LinearTrainer] = lambda: LinearTrainer(6, 3), **how: Any) -> list[Worker]:
    return in_threads(run.settings.workers, lambda communicator: Worker(run, communicator, make(), **how))


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_n_workers_equal_one_on_the_joined_batch(workers: int) -> None:
    (one,) = train(spec())
    many = train(spec(workers=workers))
    for worker in many:
        np.testing.assert_allclose(worker.trainer.weights, one.trainer.weights, rtol=0, atol=1e-12)
        assert worker.result.agreement == "exact"
        for row, expected in zip(worker.epoch_rows, one.epoch_rows, strict=True):
            for key in ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy"):
                assert row[key] == pytest.approx(expected[key], abs=1e-12)
    assert sum(worker.result.samples_seen for worker in many) == one.result.samples_seen == 309
    assert sum(row["evaluated_samples"] for worker in many for row in worker.epoch_rows) == 3 * NUM_VALIDATION


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_without_the_reduction_the_run_diverges_at_the_first_step(workers: int) -> None:
    with pytest.raises(Diverged, match="workers disagree after step 1"):
        train(spec(workers=workers), sabotaged=True)


def test_a_replica_that_differs_from_the_first_of_its_process_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas = LinearTrainer.replicas
    monkeypatch.setattr(LinearTrainer, "replicas", lambda trainer: [*replicas(trainer), trainer.parameters() + 0.01])
    with pytest.raises(Diverged, match="workers disagree after step 1"):
        train(spec(strategy="mirrored", workers=1))


def test_a_loss_that_is_no_number_ends_the_run() -> None:
    with pytest.raises(Diverged, match=r"the loss is (nan|inf) in step"):
        train(spec(learning_rate=1e6))


def test_samples_steps_and_drops_are_counted_over_all_epochs() -> None:
    first, second = train(spec(workers=2, remainder="drop"))
    assert first.result.steps == second.result.steps == 30
    assert first.result.samples_dropped == 9
    assert first.result.samples_seen == second.result.samples_seen == 150
    assert first.result.checkpoint_time_s is None
    assert first.reporter.rows[:, 0].tolist() == list(range(1, 31))
    assert [row["samples"] for row in first.epoch_rows] == [50, 50, 50]


def test_the_remainder_is_a_smaller_last_step_outside_the_window() -> None:
    # 3 of 103 samples are left of each epoch: of four workers one has none in its last step.
    workers = train(spec(workers=4, batch_size=20, epochs=20, warmup_epochs=2.5))
    (one,) = train(spec(batch_size=20, epochs=20, warmup_epochs=2.5))
    for worker in workers:
        np.testing.assert_allclose(worker.trainer.weights, one.trainer.weights, rtol=0, atol=1e-12)
        rows, phases = worker.reporter.rows, np.array(worker.phases)
        last = rows[:, FIELD["step"]] % 6 == 0
        assert np.array_equal(phases == "remainder", last)
        assert set(rows[~last, FIELD["num_samples"]]) == {5}
        assert sum(segment.steps for segment in worker.result.segments) == (phases == "timed").sum() > 0
        assert {segment.samples for segment in worker.result.segments} <= set(range(0, 101, 5))
        assert worker.result.steps == 120
        assert worker.result.samples_dropped == 0
        assert worker.result.samples_seen == rows[:, FIELD["num_samples"]].sum()
    left = [set(worker.reporter.rows[5::6, FIELD["num_samples"]]) for worker in workers]
    assert left == [{1.0}, {1.0}, {1.0}, {0.0}]
    # A share without samples has no mean loss.
    assert np.isnan(workers[3].reporter.rows[5::6, FIELD["loss"]]).all()
    assert not np.isnan(workers[2].reporter.rows[:, FIELD["loss"]]).any()
    # The rate rises over so many steps as two and a half epochs have, their last ones counted.
    assert [row["learning_rate"] for row in workers[0].epoch_rows[:3]] == pytest.approx([0.2, 0.4, 0.5])


def test_a_remainder_that_is_weighted_by_the_full_batch_is_not_one_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = train(spec())
    monkeypatch.setattr(Step, "scale", lambda step, samples, total: 0.1)
    for worker in train(spec(workers=2)):
        assert worker.result.agreement == "exact"
        assert np.abs(worker.trainer.weights - one.trainer.weights).max() > 1e-3


def test_a_strategy_that_is_no_sum_gets_each_workers_own_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SumStrategy, "takes_local_means", True)
    scales: list[float] = []
    gradient = LinearTrainer.gradient
    monkeypatch.setattr(LinearTrainer, "gradient", lambda *given: scales.append(given[3]) or gradient(*given))
    train(spec(workers=4, batch_size=20, epochs=1))
    assert sorted(scales) == [1 / 5] * 20 + [1.0] * 4


def test_trainers_that_compile_rehearse_the_remainder_once_after_the_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[float, list[Any]] = {}

    def rehearse(trainer: LinearTrainer, x: np.ndarray, y: np.ndarray, scale: float, number: int) -> None:
        assert number == 1
        seen.setdefault(len(y), []).append((scale, x.shape))
        sleep(SLOW_S)

    monkeypatch.setattr(LinearTrainer, "rehearse", rehearse, raising=False)
    for worker in train(spec(workers=4, batch_size=20, epochs=1)):
        assert worker.result.train_time_s is not None
        assert worker.result.train_time_s < SLOW_S, "it is no training"
    assert seen == {1: [(1 / 3, (1, 6))] * 3, 0: [(1 / 3, (0, 6))]}
    seen.clear()
    train(spec(workers=4, batch_size=20, epochs=1, remainder="drop"))
    assert seen == {}


def test_the_rows_of_epochs_wait_for_the_next_evaluation() -> None:
    (worker,) = train(spec(epochs=5, evaluate_every=2))
    assert [row["epoch"] for row in worker.epoch_rows] == [1, 2, 3, 4, 5]
    assert ["validation_loss" in row for row in worker.epoch_rows] == [False, True, False, True, True]
    assert len(worker.reporter.rows) == 55


def test_the_window_is_cut_at_the_same_steps_whatever_the_strategy() -> None:
    """Only where several workers reduce between two calls has a cut's step a barrier before the all-reduce."""
    settings = {"epochs": 12, "sample_every": 50, "evaluate_every": 4, "remainder": "drop"}
    cases = [
        (train(spec(**settings)), False),
        (train(spec(workers=2, **settings)), True),
        (train(spec(workers=2, **settings), in_graph=True), False),
    ]
    for workers, is_marked in cases:
        for worker in workers:
            rows, phases = worker.reporter.rows, np.array(worker.phases)
            assert phases[0] == "first"
            assert rows[phases == "sampled", 0].tolist() == [8, 16, 32, 50, 100]
            assert np.array_equal(~np.isnan(rows[:, 9]), (phases == "sampled") & is_marked)
            # Evaluations close a piece, too: after steps 40, 80 and 120.
            assert [segment.steps for segment in worker.result.segments] == [6, 7, 15, 8, 9, 30, 19, 20]
            assert sum(segment.samples for segment in worker.result.segments) == (phases == "timed").sum() * rows[1, 4]


def test_every_step_lies_inside_its_piece() -> None:
    for worker in train(spec(workers=2, epochs=12)):
        rows, phases, segments = worker.reporter.rows, np.array(worker.phases), worker.result.segments
        started = rows[phases == "timed", FIELD["started_at_s"]]
        ended = started + rows[phases == "timed", FIELD["step_time_s"]]
        counts = [segment.steps for segment in segments]
        assert (started >= np.repeat([segment.opened_at_s for segment in segments], counts)).all()
        closing = np.repeat([segment.closing_at_s for segment in segments], counts)
        assert (ended <= closing + 1e-9).all()
        assert all(earlier.closed_at_s < later.opened_at_s for earlier, later in itertools.pairwise(segments))


@pytest.mark.parametrize("transient_s", [0.0, 0.02])
def test_an_extended_window_holds_enough_for_a_rate_without_the_warm_up(
    transient_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlbench.worker.train.loop.MIN_TIMED_S", 0.05)
    plain = train(spec(workers=2, epochs=1))
    extended = train(spec(workers=2, epochs=1, extend_window=True), lambda: WarmingTrainer(transient_s))
    journal = Journal(
        steps={rank: worker.reporter.rows for rank, worker in enumerate(extended)},
        results={rank: worker.result for rank, worker in enumerate(extended)},
    )
    without, _ = without_warm_up(journal)
    for before, after in zip(plain, extended, strict=True):
        for name in ("steps", "samples_seen", "samples_dropped", "scores", "bytes_sent", "weights_hash"):
            assert getattr(before.result, name) == getattr(after.result, name)
        # Those of training that lie in the window, ten at most, count as well.
        assert after.result.extended_steps >= MIN_TIMED_STEPS - 10
        assert (after.reporter.rows[11:, FIELD["epoch"]] == 0).all()
        assert set(after.reporter.rows[11:, FIELD["num_samples"]]) == {5}
    assert extended[0].result.extended_steps == extended[1].result.extended_steps
    for result in without.results.values():
        assert sum(segment.steps for segment in result.segments) >= MIN_TIMED_STEPS
        assert sum(segment.closed_at_s - segment.opened_at_s for segment in result.segments) >= 0.05
        if transient_s:
            assert min(segment.opened_at_s for segment in result.segments) > SLOW_STEPS * transient_s


def test_a_target_ends_the_run_at_the_evaluation_that_reaches_it() -> None:
    target = Target(metric="validation_accuracy", value=0.5, stop=True)
    workers = train(spec(target, workers=2, epochs=200))
    for worker in workers:
        result = worker.result
        assert result.epochs_completed == result.epochs_to_target < 200
        assert result.scores["validation_accuracy"] is not None
        assert result.scores["validation_accuracy"] >= 0.5
        assert result.time_to_target_s == workers[0].result.time_to_target_s
        assert result.steps == 11 * result.epochs_completed


def test_a_target_that_is_never_reached_leaves_its_time_empty() -> None:
    (worker,) = train(spec(Target(metric="validation_loss", value=-1.0, stop=True)))
    assert worker.result.time_to_target_s is None
    assert worker.result.epochs_completed == 3


def test_training_time_leaves_out_evaluations() -> None:
    (worker,) = train(spec(epochs=5))
    result = worker.result
    assert result.train_time_s is not None
    assert result.evaluation_time_s > 0
    assert worker.epoch_rows[-1]["ended_at_s"] >= worker.epoch_rows[-1]["train_time_s"]
    assert math.isclose(sum(row.get("evaluation_time_s", 0) for row in worker.epoch_rows), result.evaluation_time_s)


class DeviceTrainer(WarmingTrainer):
    """A trainer whose device makes a step in `STEP_S`, one after the other, while the processor goes on."""

    STEP_S = 0.004
    free_at = 0.0
    most_behind = 0

    def __init__(self) -> None:
        super().__init__(0.0)
        self.unread: list[int] = []

    def start_step(self, x: np.ndarray, y: np.ndarray, scale: float, learning_rate: float) -> Callable[[], Sums]:
        sums = self.step(x, y, scale, learning_rate)
        self.free_at = ready_at = max(self.free_at, perf_counter()) + self.STEP_S
        self.unread.append(len(self.unread))
        self.most_behind = max(self.most_behind, len(self.unread))

        def read() -> Sums:
            sleep(max(0.0, ready_at - perf_counter()))
            self.unread.pop()
            return sums

        return read

    def synchronize(self) -> None:
        sleep(max(0.0, self.free_at - perf_counter()))


def test_a_device_that_runs_ahead_has_the_rows_of_one_that_is_waited_for() -> None:
    """But for moments: the next step is under way while one is read, and steps do not overlap in their rows."""
    run = spec(workers=1, sample_every=8)
    (plain,) = train(run, in_graph=True)
    trainer, reporter = DeviceTrainer(), KeptReporter()

    def body(communicator: ThreadCommunicator) -> Result:
        strategy = SumStrategy(communicator)
        step = Inside(trainer, reporter, strategy.all_reduce)
        return Loop(run, step, strategy, communicator, samples(), IdleObserver()).train()

    (result,) = in_threads(1, body)
    assert trainer.most_behind == 2
    assert trainer.unread == []
    names = [FIELD[name] for name in ("step", "epoch", "phase", "num_samples", "loss")]
    assert np.array_equal(reporter.rows[:, names], plain.reporter.rows[:, names], equal_nan=True)
    started, duration = (reporter.rows[:, FIELD[name]] for name in ("started_at_s", "step_time_s"))
    assert np.all(started[1:] >= (started + duration)[:-1] - 1e-9)
    assert 0.9 * DeviceTrainer.STEP_S < np.median(duration) < 2 * DeviceTrainer.STEP_S
    counted = [segment.steps for segment in result.segments]
    assert counted == [segment.steps for segment in plain.result.segments] != []


def test_gradients_of_updates_that_are_skipped_are_counted_in_training_alone() -> None:
    class Skipping(LinearTrainer):
        num_applied = 0

        @property
        def num_updates(self) -> int:
            return self.num_applied - 2

        def apply(self, update: np.ndarray, learning_rate: float) -> None:
            self.num_applied += 1

    for worker in train(spec(workers=2, extend_window=True), lambda: Skipping(6, 3)):
        assert worker.result.gradients_dropped == 2
    (plain,) = train(spec())
    assert plain.result.gradients_dropped is None


def test_the_rows_before_an_error_are_handed_on() -> None:
    class Breaking(LinearTrainer):
        def apply(self, update: np.ndarray, learning_rate: float) -> None:
            super().apply(update, learning_rate)
            self.applied = getattr(self, "applied", 0) + 1
            if self.applied == 8:
                raise RuntimeError("out of luck")

    reporter = KeptReporter()

    def body(communicator: ThreadCommunicator) -> None:
        strategy, observer = SumStrategy(communicator), IdleObserver()
        Loop(spec(), strategy.bind(Breaking(6, 3), reporter), strategy, communicator, samples(), observer).train()

    with pytest.raises(RuntimeError, match="out of luck"):
        in_threads(1, body)
    assert reporter.rows[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_sensors_are_read_where_training_begins_and_may_end_outside_its_time() -> None:
    class Slow(IdleObserver):
        def baseline(self) -> None:
            super().baseline()
            sleep(SLOW_S)

        def mark(self) -> None:
            super().mark()
            sleep(SLOW_S)

    reporter, observer = KeptReporter(), Slow()

    def body(communicator: ThreadCommunicator) -> Result:
        run, strategy = spec(epochs=4, evaluate_every=2), SumStrategy(communicator)
        step = strategy.bind(LinearTrainer(6, 3, 0), reporter)
        return Loop(run, step, strategy, communicator, samples(), observer).train()

    (result,) = in_threads(1, body)
    assert observer.asked == ["baseline", "zero", "mark", "mark"]
    assert reporter.rows[0, FIELD["started_at_s"]] < SLOW_S
    assert result.train_time_s < reporter.rows[-1, FIELD["started_at_s"]] - SLOW_S / 2
    assert result.evaluation_time_s < SLOW_S


class CallTrainer(LinearTrainer):
    """A trainer that makes several steps in one call, and keeps what it was given."""

    def __init__(self) -> None:
        super().__init__(6, 3, seed=0)
        self.calls: list[list[float]] = []
        self.rehearsed: list[tuple[int, int]] = []

    def start_steps(self, x: np.ndarray, y: np.ndarray, scale: float, learning_rates: np.ndarray) -> Callable[[], Sums]:
        self.calls.append(learning_rates.tolist())
        parts = zip(np.split(x, len(learning_rates)), np.split(y, len(learning_rates)), learning_rates, strict=True)
        sums = [self.step(part_x, part_y, scale, rate) for part_x, part_y, rate in parts]
        return lambda: {name: sum(of_step[name] for of_step in sums) for name in self.scores}

    def rehearse(self, x: np.ndarray, y: np.ndarray, scale: float, number: int = 1) -> None:
        self.rehearsed.append((len(y), number))


def train_in_calls(**settings: Any) -> list[tuple[CallTrainer, KeptReporter, Result]]:
    run = spec(sample_every=16, warmup_epochs=1.5, **settings)

    def body(communicator: ThreadCommunicator) -> tuple[CallTrainer, KeptReporter, Result]:
        strategy, trainer, reporter = SumStrategy(communicator), CallTrainer(), KeptReporter()
        step = Inside(trainer, reporter, strategy.all_reduce)
        loop = Loop(run, step, strategy, communicator, samples(), IdleObserver())
        return trainer, reporter, loop.train()

    return in_threads(run.settings.workers, body)


@pytest.mark.parametrize("workers", [1, 3])
def test_several_steps_of_a_call_train_as_single_ones_and_their_rows_cover_every_step_once(workers: int) -> None:
    """10 full steps and a remainder in each of 3 epochs; the first step and what fills no call are made one by one."""
    single, several = train_in_calls(workers=workers), train_in_calls(workers=workers, steps_per_execution=4)
    for (one, rows_of_one, result_of_one), (trainer, reporter, result) in zip(single, several, strict=True):
        np.testing.assert_allclose(trainer.weights, one.weights, rtol=0, atol=1e-12)
        assert result.agreement == "exact"
        assert (result.steps, result.samples_seen) == (result_of_one.steps, result_of_one.samples_seen)
        rows, phases = reporter.rows, [STEP_PHASES[int(number)] for number in reporter.rows[:, FIELD["phase"]]]
        num_steps = rows[:, FIELD["num_steps"]].astype(int).tolist()
        assert num_steps == [1, 4, 4, 1, 1] + 2 * [4, 4, 1, 1, 1]
        assert rows[:, FIELD["step"]].tolist() == np.cumsum(num_steps).tolist()
        assert phases[:5] == ["first", "timed", "sampled", "timed", "remainder"]
        assert phases[5:10] == ["timed", "sampled", "timed", "timed", "remainder"]
        assert sum(segment.steps for segment in result.segments) == sum(
            steps for steps, phase in zip(num_steps, phases, strict=True) if phase == "timed"
        )
        # The rate of each step, while it rises, and the mean loss of a call's samples.
        assert [len(rates) for rates in trainer.calls] == [4] * 6
        assert trainer.calls[0] == pytest.approx([0.5 * step / 16.5 for step in (2, 3, 4, 5)])
        lengths = rows_of_one.rows[:, FIELD["num_samples"]]
        losses = np.nan_to_num(rows_of_one.rows[:, FIELD["loss"]]) * lengths
        summed = np.add.reduceat(losses, np.cumsum([0, *num_steps[:-1]]))
        np.testing.assert_allclose(np.nan_to_num(rows[:, FIELD["loss"]]) * rows[:, FIELD["num_samples"]], summed)
        size = int(lengths[0])
        assert trainer.rehearsed == [(int(lengths[10]), 1), (4 * size, 4)]


def test_an_extended_window_steps_on_as_training_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlbench.worker.train.loop.MIN_TIMED_S", 0.0)
    ((_, reporter, result),) = train_in_calls(steps_per_execution=4, epochs=1, extend_window=True)
    extended = reporter.rows[5:, FIELD["num_steps"]].astype(int).tolist()
    assert extended[:8] == 2 * [4, 4, 1, 1]
    assert result.extended_steps >= MIN_TIMED_STEPS - 10
    assert result.steps == 11


def test_more_steps_of_a_call_than_an_epoch_has_are_refused() -> None:
    with pytest.raises(UserError, match="needs as many full steps in an epoch, and 103 training samples give 10 of 10"):
        train_in_calls(steps_per_execution=11)
