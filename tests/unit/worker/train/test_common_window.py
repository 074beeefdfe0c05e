"""The window of workers that do not wait for each other, cut from what each node saw."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dlbench.records.result import Segment
from dlbench.worker.train.common_window import PIECES, pieces
from tests.fakes import in_threads

NONE = np.empty(0)
# Arguments of `pieces`.
Node = tuple[np.ndarray, np.ndarray, np.ndarray, float | None]


def worker(steps: list[float], no_more_s: float, *, updates: bool = False, samples: int = 4) -> Node:
    ends = np.array(steps)
    made = ends if updates else NONE
    return made, np.full(len(made), samples), ends, no_more_s


def server(updates: list[float], samples: int = 4) -> Node:
    return np.array(updates), np.full(len(updates), samples), NONE, None


def window(*nodes: Node) -> list[tuple[Segment, ...]]:
    """Return the pieces as each node gets them."""

    def body(communicator: Any) -> tuple[Segment, ...]:
        return pieces(communicator, *nodes[communicator.rank], counts_for_all=communicator.rank == 0)

    return in_threads(len(nodes), body)


def test_it_opens_at_the_first_update_after_every_workers_first_step_and_closes_before_any_found_no_more() -> None:
    steps = np.arange(1.0, 101.0)
    nodes = worker([*steps], 100.5), worker([*steps + 0.5], 99.6), server([*np.arange(1.1, 101, 0.5)])
    first, second, third = window(*nodes)
    for found in (first, second, third):
        assert (found[0].opened_at_s, found[-1].closed_at_s) == (1.6, pytest.approx(99.6))
        assert all(before.closed_at_s == after.opened_at_s for before, after in pairwise(found))
        assert all(piece.common for piece in found)
        assert len(found) == PIECES
    # Worker 0 has the samples of all: those of updates after the one at which the window opens.
    assert sum(piece.samples for piece in first) == 4 * 196
    assert {piece.samples for found in (second, third) for piece in found} == {0}
    # Each has its own steps.
    assert sum(piece.steps for piece in first) == len([step for step in steps if 1.6 < step <= 99.6])
    assert sum(piece.steps for piece in second) == len([step for step in steps + 0.5 if 1.6 < step <= 99.6])
    assert sum(piece.steps for piece in third) == 0


def test_without_servers_the_updates_of_all_workers_count() -> None:
    slow, fast = np.arange(2.0, 41.0, 2.0), np.arange(1.0, 41.0)
    found, _ = window(worker([*slow], 40.5, updates=True), worker([*fast], 40.2, updates=True))
    rate = sum(piece.samples for piece in found) / (found[-1].closed_at_s - found[0].opened_at_s)
    assert rate == pytest.approx(4 * (1 + 0.5), rel=0.03)


@pytest.mark.parametrize("workers", [2, 8])
def test_in_lock_step_no_update_is_counted_without_its_time(workers: int) -> None:
    """All update at each second, give or take a moment: whoever is first, their rate is theirs."""
    for first in range(workers):
        steps = np.arange(1.0, 56.0)
        order = [(rank - first) % workers for rank in range(workers)]
        found = window(*(worker([*(steps + 1e-4 * place)], 55.5, updates=True) for place in order))[0]
        seconds = found[-1].closed_at_s - found[0].opened_at_s
        assert sum(piece.samples for piece in found) / seconds == pytest.approx(4 * workers, rel=0.001)


def test_a_worker_that_found_no_more_before_another_had_begun_leaves_no_window() -> None:
    nodes = worker([1.0, 2.0], 2.1), worker([5.0], 6.0), server([1.1, 2.1, 5.1])
    assert window(*nodes) == [(), (), ()]
    assert window(worker([], 0.1), server([])) == [(), ()]
    assert window(worker([1.0, 2.0], 3.0), worker([], 0.1), server([1.1, 2.1])) == [(), (), ()]


def test_few_updates_make_few_pieces_and_lose_none() -> None:
    found, _ = window(worker([1.0, 2.0, 3.0, 4.0], 4.5), server([1.1, 2.1, 3.1, 4.1]))
    assert [(piece.opened_at_s, piece.closed_at_s, piece.samples, piece.steps) for piece in found] == [
        (1.1, 2.1, 4, 1), (2.1, 3.1, 4, 1), (3.1, 4.1, 4, 1),
    ]  # fmt: skip
