from collections import Counter

import numpy as np
import pytest

from dlbench.scenario.run_spec import RunSpec
from dlbench.scenario.settings import Settings
from dlbench.worker.train.order import DataOrder
from dlbench.worker.train.schedule import HandedOut, InLockStep, Ticket, schedule_of

NUM = 103


def spec(**settings) -> RunSpec:
    settings = {"strategy": "asynchronous", "workers": 3, "batch_size": 10, "epochs": 2} | settings
    return RunSpec(scenario="s", label="", repeat=0, settings=Settings(**settings))


def all_of(schedule: InLockStep | HandedOut, worker: int) -> list[Ticket]:
    found = []
    while (ticket := schedule.next(worker)) is not None:
        found.append(ticket)
    return found


@pytest.mark.parametrize("settings", [{}, {"divide": "epochs"}, {"remainder": "drop"}, {"batch_scope": "global"}])
def test_in_lock_step_a_worker_takes_what_a_process_of_its_own_does(settings: dict) -> None:
    run = spec(strategy="mpi", **settings)
    schedule = schedule_of(run, NUM, hands_out=False)
    # In another order than step by step, as workers come that do not wait.
    tickets = {worker: all_of(schedule, worker) for worker in (2, 0, 1)}
    for worker in range(3):
        own = DataOrder.of(run, (worker,), NUM)
        shares = [share for epoch in range(1, run.epochs_per_worker + 1) for share in own.epoch(epoch)]
        assert [ticket.step for ticket in tickets[worker]] == list(range(1, len(shares) + 1))
        for ticket, share in zip(tickets[worker], shares, strict=True):
            assert np.array_equal(ticket.share.indices, share.indices)
            assert ticket.share[1:] == share[1:]
    seen = sum(len(ticket.share.indices) for found in tickets.values() for ticket in found)
    assert seen == run.epochs_per_worker * schedule.samples_per_epoch


def test_handed_out_samples_go_to_whoever_asks_each_once_an_epoch() -> None:
    schedule = schedule_of(spec(), NUM, hands_out=True)
    tickets = [schedule.next(number % 2) for number in range(22)]
    assert schedule.next(0) is None
    assert [ticket.step for ticket in tickets if ticket] == list(range(1, 23))
    for epoch in (1, 2):
        mine = [ticket for ticket in tickets if ticket and ticket.epoch == epoch]
        assert Counter(np.concatenate([ticket.share.indices for ticket in mine]).tolist()) == Counter(range(NUM))
        assert [len(ticket.share.indices) for ticket in mine] == [10] * 10 + [3]


def test_handed_out_remainders_can_be_dropped() -> None:
    schedule = schedule_of(spec(remainder="drop"), NUM, hands_out=True)
    assert [len(ticket.share.indices) for ticket in all_of(schedule, 0)] == [10] * 20
    assert (schedule.dropped_per_epoch, schedule.samples_per_epoch) == (3, 100)


def test_what_was_trained_in_vain_is_handed_out_again() -> None:
    schedule = schedule_of(spec(epochs=1), NUM, hands_out=True)
    all_of(schedule, 0)
    schedule.give_back(14)
    again = [(len(ticket.share.indices), ticket.epoch, ticket.completes) for ticket in all_of(schedule, 1)]
    assert again == [(10, 2, 1), (4, 2, 1)]


class Node:
    """A worker's node that batches are assigned to."""

    assigned = 0


def test_an_assigned_batch_is_the_same_in_each_epoch_and_for_each_worker() -> None:
    for settings, last in (({}, 3), ({"remainder": "drop"}, 10)):
        schedule, node = schedule_of(spec(**settings), NUM, hands_out=True, assigned=True), Node()
        assert schedule.next(0, node) is None
        epochs: list[list[int]] = []
        for epoch in (1, 2):
            tickets = []
            for batch in range(schedule.steps_per_epoch):
                node.assigned = (epoch - 1) * schedule.steps_per_epoch + batch + 1
                ticket, again = schedule.next(1, node), schedule.next(2, node)
                assert ticket is not None
                assert again is not None
                assert np.array_equal(ticket.share.indices, again.share.indices)
                assert (ticket.epoch, ticket.step) == (epoch, node.assigned)
                tickets.append(ticket)
            sizes = [len(ticket.share.indices) for ticket in tickets]
            assert sizes == [10] * (len(tickets) - 1) + [last]
            assert sum(sizes) == schedule.samples_per_epoch
            epochs.append(np.concatenate([ticket.share.indices for ticket in tickets]).tolist())
        assert epochs[0] == epochs[1]
        assert len(set(epochs[0])) == schedule.samples_per_epoch


def test_the_order_depends_on_the_seed_alone() -> None:
    first, second, other = (schedule_of(spec(seed=seed), NUM, hands_out=True).next(0) for seed in (1, 1, 2))
    assert np.array_equal(first.share.indices, second.share.indices)
    assert not np.array_equal(first.share.indices, other.share.indices)


def test_what_one_process_hands_out_another_finds_by_its_number() -> None:
    giving, alone, taking = (schedule_of(spec(), NUM, hands_out=True) for _ in range(3))
    while True:
        number, size, completes = giving.take()
        expected = alone.next(0)
        if not size:
            break
        found = taking.ticket(number, size, completes)
        assert expected is not None
        assert np.array_equal(found.share.indices, expected.share.indices)
        assert found.share[1:] == expected.share[1:]
        assert found[1:] == expected[1:]
    assert expected is None


@pytest.mark.parametrize("settings", [{}, {"remainder": "drop"}, {"divide": "epochs", "strategy": "mpi"}])
def test_remainders_are_the_sizes_that_are_not_full(settings: dict) -> None:
    run = spec(**settings)
    schedule = schedule_of(run, NUM, hands_out=run.settings.strategy == "asynchronous")
    sizes = {len(ticket.share.indices) for worker in range(3) for ticket in all_of(schedule, worker)}
    found = {len(share.indices) for worker in range(3) for share in schedule.remainders(worker)}
    assert found == {size for size in sizes if size != 10}
