import pytest

from dlbench import plugins
from dlbench.communicators import _single
from dlbench.strategies import single
from tests.fakes import KeptReporter, LinearTrainer, in_threads


def test_a_single_worker_gets_back_what_it_gave_and_sends_nothing() -> None:
    strategy = single.create(single.OPTIONS(), _single.connect(1), None)
    trainer = LinearTrainer(1, 1)
    assert not strategy.bind(trainer, KeptReporter()).can_mark
    assert trainer.in_graph([1, 2]) == [1, 2]
    assert (strategy.bytes_sent, strategy.facts()) == (0, {})


def test_it_refuses_company() -> None:
    def work(communicator: object) -> None:
        single.create(single.OPTIONS(), communicator, None)  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match="one worker, not 2"):
        in_threads(2, work)


def test_it_needs_one_worker_and_no_library() -> None:
    needs = plugins.load("strategies", "single").get("NEEDS")
    assert (needs.max_workers, needs.communicators, needs.collectives) == (1, (), ())
