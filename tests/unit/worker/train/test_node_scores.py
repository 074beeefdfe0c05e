"""Scores of copies that nodes kept: joined from shards or meaned over workers, each validation sample once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from dlbench.strategies._protocol import World
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.node_scores import Copy, Replica, score
from dlbench.worker.training_record import Scores
from tests.fakes import LinearTrainer, in_threads

INPUTS, CLASSES, SAMPLES = 3, 4, 23
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(SAMPLES, INPUTS)), RANDOM.integers(0, CLASSES, SAMPLES)
DATA = TrainingData(X, Y, np.arange(2), X, Y, np.arange(SAMPLES))
EPOCHS = [RANDOM.normal(size=INPUTS * CLASSES) for _ in range(3)]
NONE = np.empty(0)


def scored(workers: int, servers: int, copies: Any, begun: list[int] | None = None) -> list[list[Scores]]:
    """Return each node's scores; `copies` returns what a node has kept."""
    world = World(workers, {"server": servers}, np.zeros(INPUTS * CLASSES), lambda step: 0.1, lambda parameters: None)  # type: ignore[arg-type,return-value]

    def body(communicator: Any) -> list[Scores]:
        replica = Replica(LinearTrainer(INPUTS, CLASSES), DATA) if communicator.rank < workers else None  # type: ignore[arg-type]
        count = [0]

        def begin_next() -> None:
            count[0] += 1

        found = score(
            copies(world, communicator.rank), LinearTrainer.scores, world, communicator, replica, 5, begin_next
        )
        if begun is not None:
            begun.append(count[0])
        return found

    return in_threads(workers + servers, body)


def expected(parameters: np.ndarray) -> dict[str, float]:
    trainer = LinearTrainer(INPUTS, CLASSES)
    trainer.set_parameters(parameters)
    return {name: total / SAMPLES for name, total in trainer.evaluate(X, Y).items()}


def test_shards_of_servers_are_joined_and_workers_need_no_copies() -> None:
    def copies(world: World, rank: int) -> list[Copy]:
        if rank < world.num_workers:
            return [Copy(NONE, NONE) for _ in EPOCHS]
        part = world.shards[rank - world.num_workers]
        return [Copy(parameters[part], NONE) for parameters in EPOCHS]

    begun: list[int] = []
    for found in scored(2, 3, copies, begun):
        assert [one.means for one in found] == [pytest.approx(expected(parameters)) for parameters in EPOCHS]
    # Every node says so before each copy: a run of many copies is seen to get on.
    assert begun == [len(EPOCHS)] * 5


def test_without_servers_the_mean_of_all_workers_is_scored() -> None:
    def copies(world: World, rank: int) -> list[Copy]:
        return [Copy(parameters + (1 if rank else -1), NONE) for parameters in EPOCHS]

    first, second = scored(2, 0, copies)
    assert [one.means for one in first] == [pytest.approx(expected(parameters)) for parameters in EPOCHS]
    # Each validation sample once.
    assert {one.own_samples for one in first} | {one.own_samples for one in second} == {12, 11}


def test_moving_statistics_are_the_mean_of_the_workers() -> None:
    kept: list[np.ndarray] = []

    class Trainer(LinearTrainer):
        def set_state(self, state: Mapping[str, np.ndarray]) -> None:
            kept.append(state["statistics"].copy())

    world = World(2, {"server": 1}, np.zeros(INPUTS * CLASSES), lambda step: 0.1, lambda parameters: None)  # type: ignore[arg-type,return-value]

    def body(communicator: Any) -> None:
        rank = communicator.rank
        replica = Replica(Trainer(INPUTS, CLASSES), DATA) if rank < 2 else None  # type: ignore[arg-type]
        own = [Copy(EPOCHS[0], NONE) if rank == 2 else Copy(NONE, np.array([1.0 + 2 * rank, 4.0]))]
        score(own, LinearTrainer.scores, world, communicator, replica, 5, lambda: None)

    in_threads(3, body)
    assert [one.tolist() for one in kept] == [[2.0, 4.0]] * 2
