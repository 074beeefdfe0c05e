"""Copies that come in pieces and in any order, their scores, and when training is to end."""

from typing import Any

import numpy as np
import pytest

from dlbench.scenario.run_spec import RunSpec, Target
from dlbench.scenario.settings import Settings
from dlbench.strategies._protocol import Message, World
from dlbench.worker.train.agreement import Diverged
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.evaluator import Evaluator, copy_message
from dlbench.worker.train.node_scores import Copy, Replica
from tests.fakes import KeptReporter, LinearTrainer

INPUTS, CLASSES, SAMPLES = 3, 4, 23
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(SAMPLES, INPUTS))
BEST = RANDOM.normal(size=(INPUTS, CLASSES))
Y = (X @ BEST).argmax(axis=1)
DATA = TrainingData(X, Y, np.arange(2), X, Y, np.arange(SAMPLES))
NONE = np.empty(0)


class Trainer(LinearTrainer):
    def __init__(self, statistics: int = 0) -> None:
        super().__init__(INPUTS, CLASSES)
        self.moving = np.zeros(statistics)


class Spy:
    """Keeps what is sent, and to whom."""

    memory = None

    def __init__(self) -> None:
        self.sent: list[tuple[int, Message]] = []

    def send(self, to: int, message: Message) -> None:
        self.sent.append((to, message))

    def updated(self, staleness: Any, samples: int) -> None:
        raise AssertionError("the evaluator updates nothing")

    def dropped(self, samples: int) -> None:
        raise AssertionError("the evaluator drops nothing")


def evaluator(workers: int, servers: int, trainer: Any = None, coordinators: int = 0, **target: Any) -> Any:
    others = {"coordinator": coordinators, "server": servers}
    world = World(workers, others, np.zeros(INPUTS * CLASSES), lambda step: 0.1, lambda parameters: None)  # type: ignore[arg-type,return-value]
    run = RunSpec(
        scenario="s",
        label="",
        repeat=0,
        settings=Settings(evaluation_batch_size=5),
        target=Target(**target) if target else None,
    )
    return Evaluator(
        Spy(), workers if servers else None, world, Replica(trainer or Trainer(), DATA), run, KeptReporter()
    )


def send(made: Evaluator, source: int, epoch: int, parameters: np.ndarray, statistics: np.ndarray = NONE) -> None:
    made.on_message(copy_message(source, epoch, Copy(parameters, statistics)))


def is_last(made: Any, epoch: int) -> bool:
    """Ask as a worker does."""
    made.on_message(Message("is_last", 0, epoch))
    to, answer = made._port.sent.pop()
    assert (to, answer.type, answer.step) == (0, "answer", epoch)
    return bool(answer.samples)


def test_shards_of_all_servers_are_needed_and_joined_whatever_comes_first() -> None:
    made, best = evaluator(2, 2), BEST.ravel()
    for source, epoch, part in ((3, 2, best[6:]), (3, 1, -best[6:]), (2, 1, -best[:6])):
        assert not made.is_due()
        send(made, source, epoch, part)
    assert made.is_due()
    made.compute()
    assert not made.is_due()
    send(made, 2, 2, best[:6])
    made.compute()
    assert made.scores[2].means["accuracy"] == 1.0 > made.scores[1].means["accuracy"]
    assert made.scores[1].means["loss"] > made.scores[2].means["loss"]
    assert made.scores[2].own_samples == SAMPLES


def test_a_node_that_holds_nothing_is_not_waited_for() -> None:
    for workers, servers, holders in ((2, 2, (3, 4)), (2, 0, (0, 1))):
        made = evaluator(workers, servers, coordinators=1)
        for source, part in zip(holders, np.split(BEST.ravel(), 2) if servers else [BEST.ravel()] * 2, strict=True):
            assert not made.is_due()
            send(made, source, 1, part)
        made.compute()
        assert made.scores[1].means["accuracy"] == 1.0


def test_without_servers_workers_are_meaned_and_so_are_their_moving_statistics() -> None:
    made = evaluator(2, 0)
    send(made, 0, 1, BEST.ravel() + 5)
    assert not made.is_due()
    send(made, 1, 1, BEST.ravel() - 5)
    made.compute()
    assert made.scores[1].means["accuracy"] == 1.0
    trainer = Trainer(statistics=2)
    made = evaluator(2, 1, trainer)
    send(made, 2, 1, BEST.ravel())
    send(made, 0, 1, NONE, np.array([1.0, 4.0]))
    assert not made.is_due()
    send(made, 1, 1, NONE, np.array([3.0, 4.0]))
    made.compute()
    assert trainer.moving.tolist() == [2.0, 4.0]


def test_training_ends_once_and_all_who_ask_of_an_epoch_are_told_the_same() -> None:
    made = evaluator(1, 1, metric="validation_accuracy", value=0.95, stop=True)
    assert not is_last(made, 1)
    send(made, 1, 1, BEST.ravel())
    made.compute()
    made.on_computed()
    assert made._port.sent == [(1, Message("close", 0))]
    made._port.sent.clear()
    # Whoever asks late of the first epoch must not end where others went on.
    assert not is_last(made, 1)
    assert is_last(made, 2)
    send(made, 1, 2, BEST.ravel())
    made.compute()
    made.on_computed()
    assert made._port.sent == [], "others are told once"


def test_a_target_that_does_not_stop_ends_nothing() -> None:
    made = evaluator(1, 1, metric="validation_accuracy", value=0.1, stop=False)
    send(made, 1, 1, BEST.ravel())
    made.compute()
    made.on_computed()
    assert made._port.sent == []
    assert not is_last(made, 1)


def test_a_loss_that_is_not_finite_is_an_error() -> None:
    made = evaluator(1, 1)
    send(made, 1, 3, BEST.ravel() * np.nan)
    with pytest.raises(Diverged, match="the validation loss is nan after epoch 3"):
        made.compute()
