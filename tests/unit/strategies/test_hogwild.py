"""Hogwild: the rule, without a clock; what lost writes and torn reads may not do to it, and what they do."""

import numpy as np
import pytest

from dlbench.strategies._protocol import Message
from dlbench.worker.simulate.world import SimulatedMemory
from tests.simulations import simulation, trained
from tests.unit.strategies.worlds import SIZE, FuzzedWorld, gradient_of

RATE = 0.1


class LosingMemory(SimulatedMemory):
    """Two workers that write at the same time: each writes what it read at first, less its own change."""

    def __init__(self, first: np.ndarray) -> None:
        super().__init__(first)
        self.first = first

    def subtract(self, change: np.ndarray, at: np.ndarray | None = None) -> int:
        self._parameters = self._parameters.copy()
        where = slice(None) if at is None else at
        self._parameters[where] = self.first[where] - change
        self._version += 1
        return self._version - 1


def own_part(rank: int, step: int, parameters: np.ndarray) -> np.ndarray:
    """Return a gradient of every third number alone, each worker's own, that depends on nothing else."""
    found = np.zeros_like(parameters)
    found[rank::3] = np.arange(1, SIZE + 1)[rank::3] * (parameters[rank::3] - rank)
    return found


def test_one_worker_is_sequential_sgd_bit_for_bit() -> None:
    for options in ({}, {"sparse": True}):
        world = FuzzedWorld("hogwild", 1, 20, rate=RATE, options=options).run()
        expected = np.random.default_rng(99).normal(size=SIZE)
        for step in range(1, 21):
            expected = expected - gradient_of(0, step, expected) * RATE
        assert world.workers[0].parameters.tobytes() == expected.tobytes()
        assert world.record.staleness == [0] * 20


@pytest.mark.parametrize("sparse", [True, False])
def test_disjoint_supports_give_the_sequential_result_whoever_comes_first(sparse: bool) -> None:
    for seed in range(40):
        world = FuzzedWorld("hogwild", 3, 8, seed, rate=RATE, options={"sparse": sparse}, gradient=own_part).run()
        expected = np.random.default_rng(99).normal(size=SIZE)
        for rank in range(3):
            for step in range(1, 1 + world.done[rank]):
                expected = expected - own_part(rank, step, expected) * RATE
        np.testing.assert_allclose(world.workers[0].parameters, expected, rtol=1e-12)


def test_writes_where_a_gradient_is_not_zero_take_nothing_from_others_even_where_writes_are_lost() -> None:
    first = np.random.default_rng(99).normal(size=SIZE)
    parts = [own_part(rank, 1, first) * RATE for rank in range(3)]
    sparse, dense = LosingMemory(first), LosingMemory(first)
    for part in parts:
        support = np.flatnonzero(part)
        sparse.subtract(part[support], support)
        dense.subtract(part)
    np.testing.assert_allclose(sparse.read()[0], first - sum(parts), rtol=1e-12)
    # Whoever writes everywhere takes back what others have written.
    assert not np.allclose(dense.read()[0], first - sum(parts))


def test_staleness_is_the_number_of_writes_between_read_and_write() -> None:
    for workers in (2, 4, 8):
        result, _, _ = trained(
            "hogwild", workers, epochs=6, communicator__compute_times="constant", communicator__workers_per_host=workers
        )
        # Workers that take equally long take turns; the first ones find fewer writes.
        counts = dict(result.staleness)
        assert max(counts) == workers - 1
        assert counts[workers - 1] >= sum(counts.values()) - workers


def test_all_samples_are_trained_on_and_all_workers_hold_the_same() -> None:
    result, parameters, found = trained("hogwild", 4, epochs=10, communicator__workers_per_host=4)
    assert result.samples_seen == 10 * 240
    assert (result.messages, result.bytes_sent, result.agreement) == (0, 0, "exact")
    assert all(worker.parameters.tobytes() == parameters.tobytes() for worker in found.simulated.workers)
    assert result.scores["validation_accuracy"] > 0.85


def test_reads_and_writes_take_time_of_their_hosts_memory() -> None:
    def seconds(bandwidth: float) -> float:
        result, _, _ = trained(
            "hogwild", 2, communicator__compute_times="constant", communicator__workers_per_host=2,
            communicator__host_bandwidth_bytes_per_s=bandwidth,
        )  # fmt: skip
        return result.train_time_s

    numbers = simulation("hogwild", 2, communicator__workers_per_host=2).world.parameters.nbytes
    # 120 gradients, each of which moves the parameters twice through a memory that moves one at a time.
    steps = 3 * 240 / 6
    assert seconds(numbers / 1.0) - seconds(1e15) == pytest.approx(2 * steps, rel=0.05)


def test_it_is_sent_no_message() -> None:
    world = FuzzedWorld("hogwild", 1, 1)
    with pytest.raises(ValueError, match="was sent push"):
        world.workers[0].on_message(Message("push", 0))
