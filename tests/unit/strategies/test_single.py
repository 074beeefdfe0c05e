from dlbench.communicators import _single
from dlbench.strategies import single
from tests.fakes import KeptReporter, LinearTrainer


def test_a_single_worker_gets_back_what_it_gave_and_sends_nothing() -> None:
    strategy = single.create(single.OPTIONS(), _single.connect(1), None)
    trainer = LinearTrainer(1, 1)
    assert not strategy.bind(trainer, KeptReporter()).can_mark
    assert trainer.in_graph([1, 2]) == [1, 2]
    assert (strategy.bytes_sent, strategy.facts()) == (0, {})
