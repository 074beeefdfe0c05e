"""Measured times are the known times of workers that sleep; each check with the sabotage that must be found.

Sleeps last longer on a busy machine, so rates are compared with what the sleeps really were. Bounds are wide, because
such a machine delays all else, too; sabotages miss them by far.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from dlbench import plugins
from dlbench.analysis.metrics import rates, warm_up
from dlbench.analysis.metrics.warm_up import without_warm_up
from dlbench.records.result import Result
from dlbench.records.warm_up import WarmUp
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.telemetry.journal import Journal
from dlbench.trainers import Problem, Threads
from dlbench.worker.step_recorder import is_cut
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.loop import Loop
from tests.fakes import IdleObserver, KeptReporter, SumStrategy, ThreadCommunicator, in_threads
from tests.functional.paced import PacedOptions, Trainer, sleep
from tests.functional.studies import Bench

# A rate is at most this much above the arithmetic one, and at least this share of it.
MOST, LEAST = 1.01, 0.7
STEP_S = 0.01
EPOCHS, STEPS_PER_EPOCH, BATCH_SIZE = 8, 10, 10
FIRST_S, EVALUATION_S = 1.0, 0.2
MORE_S = 5 * STEP_S

Row = dict[str, str]


def count_evaluations(patch: pytest.MonkeyPatch) -> None:
    """Close the window at cuts alone, so that it holds evaluations."""
    close = Loop._close_window

    def close_at_cuts(self: Loop) -> None:
        if is_cut(self._steps, self.run.settings.sample_every):
            close(self)

    patch.setattr(Loop, "_close_window", close_at_cuts)
    patch.setattr(Loop, "_evaluate", _closing_after(Loop._evaluate))


def _closing_after(evaluate: Callable[[Loop], None]) -> Callable[[Loop], None]:
    def evaluate_inside(self: Loop) -> None:
        evaluate(self)
        self.window.close_at_barrier(self.recorder.zero)

    return evaluate_inside


def count_the_first_step(patch: pytest.MonkeyPatch) -> None:
    """Open the window before anything, and let no warm-up hide it."""
    patch.setattr(warm_up, "truncation", lambda batches: WarmUp(0, True))
    phase = Loop._phase
    patch.setattr(Loop, "_phase", lambda *given: phase(*given).replace("first", "timed"))


def train_while_evaluating(patch: pytest.MonkeyPatch) -> None:
    """Take evaluations for training."""
    patch.setattr(Loop, "_train_time", lambda self, now: now - self.recorder.zero)


@dataclass(frozen=True)
class SlowData(TrainingData):
    """Data whose batches take their time."""

    batch_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)

    def batch(self, indices: np.ndarray, epoch: int = 0) -> tuple[np.ndarray, np.ndarray]:
        self.slept_s.append(sleep(self.batch_s))
        return super().batch(indices, epoch)


@dataclass(frozen=True)
class Trained:
    """What the workers of one training handed in, and for how long each slept in each of its steps."""

    results: list[Result]
    steps: list[np.ndarray]
    slept_s: list[np.ndarray]

    @property
    def samples_per_s(self) -> float:
        found = rates.window(self.results)
        return float(found["timed_samples"] / found["timed_window_s"])

    @property
    def known(self) -> float:
        """The rate of steps in which the slowest worker only sleeps."""
        numbers = rates.in_window(self.steps[0])[:, rates.FIELD["step"]].astype(int)
        return BATCH_SIZE / float(np.max(self.slept_s, axis=0)[numbers - 1].mean())

    @property
    def is_honest(self) -> bool:
        return is_honest(self.samples_per_s, self.known)

    def inside(self, worker: int, name: str) -> float:
        """Return the median of one part of a worker's steps inside the window."""
        return float(np.median(rates.in_window(self.steps[worker])[:, rates.FIELD[name]]))


def train(workers: int = 1, batch_s: float = 0.0, sample_every: int = 1000, **pace: float) -> Trained:
    """Train with workers that are threads; `pace` is that of `tests.functional.paced`."""
    random = np.random.default_rng(0)
    x, y, both = random.normal(size=(150, 6)), random.integers(0, 3, 150), np.arange(150)
    settings = Settings(
        trainer="numpy", strategy="mpi", workers=workers, batch_size=BATCH_SIZE, batch_scope="global", epochs=EPOCHS,
        sample_every=sample_every,
    )  # fmt: skip
    run = RunSpec(scenario="s", label="", repeat=0, settings=settings)
    model = plugins.load("models", "softmax")

    def work(communicator: ThreadCommunicator) -> tuple[Result, np.ndarray, np.ndarray]:
        samples = SlowData(x, y, both[:100], x, y, both[100:], batch_s=batch_s)
        trainer = Trainer.create(
            settings,
            model,
            model.options(),
            PacedOptions(**pace),
            Problem((6,), 3),
            0,
            Threads(1, 1, communicator.rank),
        )
        reporter, strategy = KeptReporter(), SumStrategy(communicator)
        step = strategy.bind(trainer, reporter)
        result = Loop(run, step, strategy, communicator, samples, IdleObserver()).train()
        return result, reporter.rows, np.add(trainer.slept_s, samples.slept_s)  # type: ignore[attr-defined]

    results, steps, slept_s = zip(*in_threads(workers, work), strict=True)
    journal, _ = without_warm_up(Journal(steps=dict(enumerate(steps)), results=dict(enumerate(results))))
    return Trained(list(journal.results.values()), list(journal.steps.values()), list(slept_s))


def is_honest(measured: float, known: float) -> bool:
    """Whether a measured rate is the known one, on a machine that may be busy."""
    return LEAST * known <= measured <= MOST * known


def test_rate_and_training_time_are_those_of_the_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = {"step_s": STEP_S, "evaluation_s": EVALUATION_S, "first_s": FIRST_S}
    honest = train(**pace)
    assert honest.is_honest
    assert has_the_time_of_its_steps(honest)
    (result,) = honest.results
    assert result.evaluation_time_s >= EPOCHS * EVALUATION_S
    for sabotage, is_found in (
        (count_evaluations, lambda found: not found.is_honest),
        (count_the_first_step, lambda found: not found.is_honest),
        (train_while_evaluating, lambda found: not has_the_time_of_its_steps(found)),
    ):
        with monkeypatch.context() as patch:
            sabotage(patch)
            assert is_found(train(**pace)), sabotage.__name__


def has_the_time_of_its_steps(found: Trained) -> bool:
    """Whether the training time is that of all steps, the first one included, without evaluations."""
    (result,), trained_s = found.results, FIRST_S + float(np.sum(found.slept_s))
    assert trained_s >= FIRST_S + EPOCHS * STEPS_PER_EPOCH * STEP_S
    assert result.train_time_s is not None
    assert result.train_time_s >= trained_s
    return result.train_time_s <= trained_s / LEAST


def test_a_slow_peer_and_a_late_one_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without barriers the wait for a peer is taken for the wire, and a late start for a long first step."""
    pace = {"step_s": STEP_S, "straggler_s": MORE_S, "late_s": 2.0}
    honest = train(workers=2, sample_every=5, **pace)
    assert honest.is_honest
    assert honest.inside(0, "communication_time_s") > 0.8 * MORE_S
    assert honest.inside(1, "communication_time_s") < 0.4 * MORE_S
    assert splits_the_wait(honest)
    assert first_s(honest) < 1.0
    monkeypatch.setattr(ThreadCommunicator, "barrier", lambda self: None)
    found = train(workers=2, sample_every=5, **pace)
    assert not splits_the_wait(found)
    assert first_s(found) > 1.0


def splits_the_wait(found: Trained) -> bool:
    """Whether the wait for the slow peer is separated from the wire, where nothing is waited for."""
    peer_wait, wire_time = (
        rates.in_marked_steps(found.steps, name) for name in ("peer_wait_s", "communication_time_s")
    )
    assert peer_wait is not None
    assert wire_time is not None
    # One of two workers waits.
    return 0.4 * MORE_S < peer_wait < 0.8 * MORE_S and wire_time < 0.2 * MORE_S


def first_s(found: Trained) -> float:
    return max(result.first_step_s or 0.0 for result in found.results)


def test_waiting_for_a_batch_is_no_computing() -> None:
    found = train(step_s=STEP_S, batch_s=2 * STEP_S)
    assert 2 * STEP_S <= found.inside(0, "data_wait_s") < 2 * STEP_S / LEAST
    assert STEP_S <= found.inside(0, "compute_time_s") < STEP_S / LEAST
    assert found.is_honest


SCENARIO = """\
base: {trainer: "tests.functional.paced:Trainer", trainer.step_s: 0.04, trainer.straggler_s: 0.02, trainer.first_s: 1,
  trainer.evaluation_s: 0.25, model: softmax, dataset: digits, train_samples: 480, validation_samples: 100,
  strategy: mpi, workers: 2, cores_per_worker: 1, batch_size: 16, epochs: 3, sample_every: 10, extend_window: true}
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Run two workers, one of them slow, and the base line, from the command line."""
    folder: Path = tmp_path_factory.mktemp("paced")
    (folder / "paced.yaml").write_text(SCENARIO)
    with Bench(folder) as found:
        found.run("paced.yaml")
        yield found


@pytest.fixture(scope="module")
def rows(work: Bench) -> dict[int, Row]:
    """Return the row of each run by its number of workers."""
    return {int(row["workers"]): row for row in work.rows()}


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize(("workers", "step_s"), [(1, 0.04), (2, 0.06)])
def test_a_study_has_the_arithmetic_rate(rows: dict[int, Row], workers: int, step_s: float) -> None:
    row = rows[workers]
    assert is_honest(float(row["samples_per_s"]), workers * 16 / step_s)
    assert float(row["samples_per_s_per_worker"]) == pytest.approx(float(row["samples_per_s"]) / workers)
    assert float(row["first_step_s"]) >= 1.0
    assert float(row["evaluation_time_s"]) >= 3 * 0.25
    trained_s = 1.0 + int(row["steps"]) * step_s
    assert trained_s <= float(row["train_time_s"]) < trained_s / LEAST


@pytest.mark.mpi
@pytest.mark.slow
def test_a_study_names_the_wait_for_the_slow_worker(work: Bench, rows: dict[int, Row]) -> None:
    row, more_s = rows[2], 0.02
    # One of two workers waits. Without the barrier of marked steps the wait would be the wire's.
    assert 0.4 * more_s < float(row["peer_wait_s"]) < 1.5 * more_s
    assert float(row["wire_time_s"]) < float(row["peer_wait_s"])
    timed = [step for step in work.rows("steps") if step["phase"] in ("timed", "extended")]
    exposed = [
        np.median([float(step["communication_time_s"]) for step in timed if step["worker"] == worker
                   and step["run_id"] == row["run_id"]])
        for worker in "01"
    ]  # fmt: skip
    assert exposed[0] > 0.8 * more_s
    assert exposed[1] < exposed[0] / 2
