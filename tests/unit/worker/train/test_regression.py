"""A regression: N workers of the NumPy trainer equal one, by rows and weights, and do not without the reduction."""

from typing import Any

import numpy as np
import pytest

from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.trainers import Problem
from dlbench.worker.train.agreement import Diverged
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.evaluation import knows_nothing
from dlbench.worker.train.loop import Loop
from tests.fakes import IdleObserver, KeptReporter, SumStrategy, in_threads
from tests.unit.trainers.contract import create

SCORES = ("loss", "mean_squared_error")
RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=(140, 6))
Y = np.tanh(X @ RANDOM.normal(size=6)) + 0.1 * RANDOM.normal(size=140)
DATA = TrainingData(X, Y, np.arange(103), X, Y, np.arange(103, 140))


def train(workers: int, model: str, *, sabotaged: bool = False) -> list[Any]:
    """Return each worker's weights, rows of epochs and result."""
    settings = Settings(workers=workers, epochs=8, learning_rate=0.02, batch_size=10, batch_scope="global")
    run = RunSpec(scenario="s", label="", repeat=0, settings=settings)

    def work(communicator: Any) -> Any:
        trainer, reporter = create("numpy", model, Problem((6,), 0)), KeptReporter()
        strategy = SumStrategy(communicator, sabotaged=sabotaged)
        loop = Loop(run, strategy.bind(trainer, reporter), strategy, communicator, DATA, IdleObserver())
        result = loop.train()
        return trainer.parameters(), [message["row"] for message in reporter.of_kind("epoch")], result

    return in_threads(workers, work)


@pytest.mark.parametrize("model", ["softmax", "mlp"])
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_n_workers_equal_one(workers: int, model: str) -> None:
    ((weights, rows, result),) = train(1, model)
    for own, own_rows, own_result in train(workers, model):
        np.testing.assert_allclose(own, weights, rtol=0, atol=1e-12)
        for name in (f"{samples}_{score}" for samples in ("train", "validation") for score in SCORES):
            assert [row[name] for row in own_rows] == pytest.approx([row[name] for row in rows], rel=1e-12)
        assert own_result.scores == pytest.approx(result.scores, rel=1e-12)
    assert set(result.scores) == {f"{samples}_{score}" for samples in ("train", "validation") for score in SCORES}
    guess = knows_nothing(Y[DATA.validation])["knows_nothing_mean_squared_error"]
    assert result.scores["validation_mean_squared_error"] < 0.9 * guess
    assert result.scores["train_loss"] == result.scores["train_mean_squared_error"]


def test_without_the_reduction_workers_disagree() -> None:
    with pytest.raises(Diverged, match="workers disagree after step 1"):
        train(2, "mlp", sabotaged=True)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (np.array([0, 0, 0, 1]), {"accuracy": 0.75, "loss": -0.75 * np.log(0.75) - 0.25 * np.log(0.25)}),
        (np.array([[0, 1], [2, 3]]), {"accuracy": 0.25, "loss": np.log(4)}),
        (np.array([5, 5]), {"accuracy": 1.0, "loss": 0.0}),
        (np.array([1.0, 2.0, 6.0]), {"mean_squared_error": 14 / 3, "loss": 14 / 3}),
    ],
)
def test_what_knowing_nothing_scores(targets: Any, expected: dict[str, float]) -> None:
    assert knows_nothing(targets) == pytest.approx({f"knows_nothing_{name}": score for name, score in expected.items()})
