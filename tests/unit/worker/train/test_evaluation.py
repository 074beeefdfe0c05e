import numpy as np
import pytest

from dlbench.strategies import Communicator
from dlbench.trainers import Sums
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.evaluation import average_statistics, evaluate
from dlbench.worker.training_record import Scores
from tests.fakes import LinearTrainer, in_threads


class Beat:
    phase = ""


def trainer_with(statistics: list[float]) -> LinearTrainer:
    trainer = LinearTrainer(4, 3)
    trainer.moving = np.array(statistics)
    return trainer


def test_statistics_are_averaged_over_all_replicas_of_all_processes() -> None:
    for statistics, expected in (
        ([[1.0, 10.0, 3.0, 30.0], [5.0, 50.0]], [[3.0, 30.0, 3.0, 30.0], [3.0, 30.0]]),
        ([[1.0, 10.0, 3.0, 30.0]], [[2.0, 20.0, 2.0, 20.0]]),
    ):

        def average(communicator: Communicator, statistics: list[list[float]] = statistics) -> list[float]:
            own = statistics[communicator.rank]
            trainer = trainer_with(own)
            average_statistics(trainer, communicator, num_replicas=len(own) // 2)
            return trainer.state("statistics")["statistics"].tolist()

        assert in_threads(len(statistics), average) == expected


def test_several_replicas_evaluate_each_sample_once_in_joined_batches() -> None:
    x, y = np.random.default_rng(0).normal(size=(23, 4)), np.arange(23) % 3
    data, sizes = TrainingData(x, y, np.arange(2), x, y, np.arange(23)), list[int]()

    class Counting(LinearTrainer):
        def evaluate(self, x: np.ndarray, y: np.ndarray) -> Sums:
            sizes.append(len(y))
            return super().evaluate(x, y)

    def score(communicator: Communicator) -> Scores:
        return evaluate(Counting(4, 3), communicator, data, 5, Beat(), num_replicas=2)

    found = in_threads(1, score)[0]
    assert sizes == [10, 10, 3]
    assert found.own_samples == 23
    assert found.means["loss"] == pytest.approx(LinearTrainer(4, 3).evaluate(x, y)["loss"] / 23, rel=1e-12)
