"""The clock tells the times that are known: of workers that sleep, each with the sabotage that must be found.

Sleeps last longer on a busy machine, so rates are held against what they really were. Bounds are wide, because such a
machine delays all else, too; sabotages miss them by far.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlbench import plugins
from dlbench.analysis import rates
from dlbench.records.result import Result
from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem, Threads
from dlbench.worker import loop
from dlbench.worker.clock import Window
from dlbench.worker.loop import Loop
from dlbench.worker.samples import Samples
from tests.fakes import KeptStream, SumStrategy, ThreadDriver, in_threads
from tests.functional.paced import PacedOptions, Trainer, sleep
from tests.functional.studies import Bench, bench

# A rate is at most this much above the arithmetic one, and at least this share of it.
ABOVE, SHARE = 1.01, 0.7
STEP_S = 0.01
EPOCHS, STEPS_PER_EPOCH, BATCH_SIZE = 12, 10, 10

Row = dict[str, str]
Sabotage = Callable[[pytest.MonkeyPatch], None]


def nothing(patch: pytest.MonkeyPatch) -> None:
    """Leave everything as it is."""


def count_evaluations(patch: pytest.MonkeyPatch) -> None:
    """Close the window after evaluations in place of before them."""
    evaluate = Loop._evaluate

    def evaluate_inside(self: Loop, epoch: int) -> None:
        evaluate(self, epoch)
        self.window.close(self._zero)

    patch.setattr(Loop, "_close_window", lambda self: None)
    patch.setattr(Loop, "_evaluate", evaluate_inside)


def count_the_first_step(patch: pytest.MonkeyPatch) -> None:
    """Open the window before anything."""

    class OpenWindow(Window):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.is_warm = True

    patch.setattr(loop, "Window", OpenWindow)


def train_while_evaluating(patch: pytest.MonkeyPatch) -> None:
    """Take evaluations for training."""
    patch.setattr(Loop, "_train_time", lambda self, now: now - self._zero)


def meet_no_more(patch: pytest.MonkeyPatch) -> None:
    """Let every worker pass all barriers at once."""
    patch.setattr(ThreadDriver, "barrier", lambda self: None)


@dataclass(frozen=True)
class SlowSamples(Samples):
    """Samples that take their time."""

    batch_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)

    def batch(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.slept_s.append(sleep(self.batch_s))
        return super().batch(indices)


@dataclass(frozen=True)
class Trained:
    """What the workers of one training handed in, and for how long each slept in each of its steps."""

    results: list[Result]
    steps: list[np.ndarray]
    slept_s: list[np.ndarray]

    @property
    def samples_per_s(self) -> float:
        found = rates.window(self.results)
        assert found is not None
        return found.samples / found.time_s

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

    def work(driver: ThreadDriver) -> tuple[Result, np.ndarray, np.ndarray]:
        samples = SlowSamples(x, y, both[:105], x, y, both[105:], batch_s=batch_s)
        trainer = Trainer.create(
            settings, model, model.options(), PacedOptions(**pace), Problem((6,), 3), 0, Threads(1, 1, driver.rank)
        )
        stream = KeptStream()
        result = Loop(run, trainer, SumStrategy(driver), driver, samples, stream).train(lambda zero: None)
        return result, stream.rows, np.add(trainer.slept_s, samples.slept_s)  # type: ignore[attr-defined]

    results, steps, slept_s = zip(*in_threads(workers, work), strict=True)
    return Trained(list(results), list(steps), list(slept_s))


def is_honest(measured: float, known: float) -> bool:
    """Whether a measured rate is the known one, on a machine that may be busy."""
    return SHARE * known <= measured <= ABOVE * known


@pytest.mark.parametrize(
    ("pace", "sabotage"),
    [
        ({"evaluation_s": 0.3}, count_evaluations),
        ({"first_s": 3.0}, count_the_first_step),
    ],
)
def test_the_rate_is_that_of_the_steps_alone(
    pace: dict[str, float], sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(step_s=STEP_S, **pace).is_honest
    sabotage(monkeypatch)
    assert not train(step_s=STEP_S, **pace).is_honest


@pytest.mark.parametrize(("sabotage", "is_found"), [(nothing, False), (train_while_evaluating, True)])
def test_training_time_is_that_of_the_steps(
    sabotage: Sabotage, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    found = train(step_s=STEP_S, evaluation_s=0.3)
    (result,), trained_s = found.results, float(np.sum(found.slept_s))
    assert trained_s >= EPOCHS * STEPS_PER_EPOCH * STEP_S
    assert result.train_time_s is not None
    assert result.train_time_s >= trained_s
    assert (result.train_time_s > trained_s / SHARE) is is_found
    assert result.evaluation_time_s >= EPOCHS * 0.3


@pytest.mark.parametrize(("sabotage", "is_found"), [(nothing, False), (meet_no_more, True)])
def test_a_slow_peer_is_waited_for_and_not_for_the_wire(
    sabotage: Sabotage, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    more_s = 6 * STEP_S
    found = train(workers=2, sample_every=5, step_s=STEP_S, straggler_s=more_s)
    assert found.is_honest
    assert found.inside(0, "communication_time_s") > 0.8 * more_s
    assert found.inside(1, "communication_time_s") < 0.4 * more_s
    peer_wait, wire_time = rates.peer_wait(found.steps), rates.wire_time(found.steps)
    assert peer_wait is not None
    assert wire_time is not None
    # One of two waits; without the barrier the wait is taken for the wire.
    is_wrong = not (0.4 * more_s < peer_wait < 0.8 * more_s and wire_time < 0.2 * more_s)
    assert is_wrong is is_found


@pytest.mark.parametrize(("sabotage", "is_found"), [(nothing, False), (meet_no_more, True)])
def test_a_worker_that_starts_late_delays_the_first_step_of_none(
    sabotage: Sabotage, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    found = train(workers=2, step_s=STEP_S, late_s=3.0)
    assert found.is_honest
    first_s = max(result.first_step_s or 0.0 for result in found.results)
    assert (first_s > 1.5) is is_found


def test_waiting_for_a_batch_is_no_computing() -> None:
    step_s = 2 * STEP_S
    found = train(step_s=step_s, batch_s=2 * step_s)
    assert 2 * step_s <= found.inside(0, "data_wait_s") < 2 * step_s / SHARE
    assert step_s <= found.inside(0, "compute_time_s") < step_s / SHARE
    assert found.is_honest


SCENARIO = """\
base: {trainer: "tests.functional.paced:Trainer", trainer.step_s: 0.04, trainer.straggler_s: 0.02, trainer.first_s: 1,
  trainer.evaluation_s: 0.5, model: softmax, dataset: digits, train_samples: 640, validation_samples: 100,
  strategy: mpi, workers: 2, cores_per_worker: 1, batch_size: 16, epochs: 3, sample_every: 10, extend_window: true}
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Bench]:
    """Run two workers, one of them slow, and the base line, from the command line."""
    folder: Path = tmp_path_factory.mktemp("paced")
    (folder / "paced.yaml").write_text(SCENARIO)
    with pytest.MonkeyPatch.context() as patch, bench(folder) as found:
        patch.setenv("PYTHONPATH", str(pytestconfig.rootpath))
        code, output = found.run("paced.yaml")
        assert code == 0, output
        yield found


@pytest.fixture(scope="module")
def rows(work: Bench) -> dict[int, Row]:
    """Return the row of each run by its number of workers."""
    return {int(row["workers"]): row for row in work.rows()}


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize(("workers", "step_s"), [(1, 0.04), (2, 0.06)])
def test_a_study_says_the_arithmetic_rate(rows: dict[int, Row], workers: int, step_s: float) -> None:
    row = rows[workers]
    assert is_honest(float(row["samples_per_s"]), workers * 16 / step_s)
    assert float(row["samples_per_s_per_worker"]) == pytest.approx(float(row["samples_per_s"]) / workers)
    assert float(row["first_step_s"]) >= 1.0
    assert float(row["evaluation_time_s"]) >= 3 * 0.5
    trained_s = 1.0 + int(row["steps"]) * step_s
    assert trained_s <= float(row["train_time_s"]) < trained_s / SHARE


@pytest.mark.mpi
@pytest.mark.slow
def test_a_study_names_the_wait_for_the_slow_worker(work: Bench, rows: dict[int, Row]) -> None:
    row = rows[2]
    assert 0.008 < float(row["peer_wait_s"]) < 0.018
    assert float(row["wire_time_s"]) < 0.006
    with (work.study() / "steps.csv").open(newline="") as file:
        timed = [step for step in csv.DictReader(file) if step["phase"] in ("timed", "extended")]
    exposed = [
        np.median([float(step["communication_time_s"]) for step in timed if step["worker"] == worker
                   and step["run_id"] == row["run_id"]])
        for worker in "01"
    ]  # fmt: skip
    assert 0.016 < exposed[0] < 0.036
    assert exposed[1] < 0.01
