"""The timed window of workers that do not wait for each other: pieces of common time, and what was trained in each.

There is no barrier at which a piece could open without disturbing them. All clocks begin at one barrier instead, and
the window is cut when training is over: it opens at the first update after every worker's first step, and closes at
the last one before any worker found no more samples. In between it is cut into equal pieces, each from an update to
another, so that the warm-up can be left out in whole pieces, as elsewhere. These updates are one node's, the first
server's or worker 0's: where workers are in lock step the others' updates lie at the same distance from each cut.
"""

import numpy as np
import numpy.typing as npt

from dlbench.records.result import Segment
from dlbench.strategies import Communicator

PIECES = 64
Floats = npt.NDArray[np.float64]
_NONE: Floats = np.empty(0)


def pieces(
    communicator: Communicator,
    updates_s: Floats,
    samples: npt.NDArray[np.int64],
    steps_s: Floats,
    found_no_more_s: float | None,
    *,
    counts_for_all: bool,
) -> tuple[Segment, ...]:
    """Return the pieces of the window: with a node's own steps, and the samples of all; a collective.

    Times are in seconds since the common barrier.

    Args:
        communicator: Connects all nodes.
        updates_s: When this node made each update, rising; none where it makes none that count.
        samples: Samples in each.
        steps_s: When each of its steps ended, rising; none for a node that is no worker.
        found_no_more_s: When it found no more samples; None for a node that is no worker.
        counts_for_all: Whether this node's pieces are the ones that have the samples; those of others have none.
    """
    is_other = found_no_more_s is None
    # A worker that has made no step has not begun.
    opened = _most(communicator, -np.inf if is_other else steps_s[0] if len(steps_s) else np.inf)
    closed = -_most(communicator, -np.inf if is_other else -(found_no_more_s or 0.0))
    edges = np.linspace(opened, closed, PIECES + 1) if opened < closed else np.empty(0)
    edges = _at_updates(updates_s if _is_first(updates_s, communicator) else _NONE, edges, communicator)
    if len(edges) < 2:
        return ()
    trained = np.diff(np.concatenate([[0], np.cumsum(samples)])[np.searchsorted(updates_s, edges, "right")])
    trained = trained.astype(np.int64)
    communicator.all_reduce(trained, trained)
    steps = np.diff(np.searchsorted(steps_s, edges, "right"))
    return tuple(
        Segment(
            opened_at_s=begin,
            closed_at_s=end,
            steps=int(num_steps),
            samples=int(num_samples) if counts_for_all else 0,
            common=True,
        )
        for begin, end, num_steps, num_samples in zip(edges[:-1], edges[1:], steps, trained, strict=True)
    )


def _is_first(updates_s: Floats, communicator: Communicator) -> bool:
    """Whether this node is the first of those that make updates."""
    rank = communicator.rank if len(updates_s) else communicator.size
    return rank == -_most(communicator, -rank)


def _at_updates(updates_s: Floats, edges: Floats, communicator: Communicator) -> Floats:
    """Return edges moved to the first update from there on, the last one to the last update before it; a collective."""
    if not len(edges):
        return edges
    after = np.append(updates_s, np.inf)[np.searchsorted(updates_s, edges[:-1])]
    last = np.concatenate([[-np.inf], updates_s])[np.searchsorted(updates_s, edges[-1], "right")]
    moved = np.append(after, -last)
    communicator.all_reduce(moved, moved, "min")
    closed = -moved[-1]
    return np.unique(np.append(moved[:-1][moved[:-1] < closed], closed)) if np.isfinite(closed) else np.empty(0)


def _most(communicator: Communicator, value: float) -> float:
    values = np.array([value])
    communicator.all_reduce(values, values, "max")
    return float(values[0])
