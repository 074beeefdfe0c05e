"""Rule 1: workers agree. Trainable weights are compared over all workers after the first step and at the end.

Where a process holds several workers, all their replicas are compared, not one of each process.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dlbench.records.result import AGREEMENTS
from dlbench.strategies import Communicator

Flat = npt.NDArray[Any]

# Largest difference between two workers, relative to the largest weight, that reduction orders explain.
TOLERANCES = {8: 1e-12, 4: 1e-5, 2: 1e-2}


class Diverged(Exception):  # noqa: N818 - it is a way for a run to end, not a defect
    """The run's numbers are worthless: workers disagree, or the loss is not finite."""

    status = "diverged"


class Agreement(NamedTuple):
    """The verdict on one comparison, the largest difference, and the hash of this worker's weights."""

    verdict: str
    max_difference: float
    weights_hash: str


def weights_hash(flat: Flat) -> str:
    """Return a short hash of weights, bit for bit."""
    return hashlib.sha256(np.ascontiguousarray(flat).tobytes()).hexdigest()[:16]


def compare(flat: Flat, communicator: Communicator, others: Sequence[Flat] = ()) -> Agreement:
    """Compare flat weights over all workers; a collective.

    `exact`: equal bit for bit; `close`: the largest difference is explained by the order of sums; `no`: otherwise.

    Args:
        flat: The weights of this process's first replica, whose hash is returned.
        communicator: Connects all processes.
        others: The weights of its further replicas, where it holds several.
    """
    replicas = [flat, *others]
    hashes = [weights_hash(replica) for replica in replicas]
    if len({digest for others_hashes in communicator.all_gather(hashes) for digest in others_hashes}) == 1:
        return Agreement("exact", 0.0, hashes[0])
    highest, lowest = np.max(replicas, axis=0), np.min(replicas, axis=0)
    communicator.all_reduce(highest, highest, "max")
    communicator.all_reduce(lowest, lowest, "min")
    difference = float(np.max(highest - lowest))
    size = float(max(np.max(np.abs(highest)), np.max(np.abs(lowest)), np.finfo(flat.dtype).tiny))
    close = difference <= TOLERANCES[flat.dtype.itemsize] * size  # False where a weight is not a number
    return Agreement("close" if close else "no", difference, hashes[0])


def worst(verdicts: list[str]) -> str:
    """Return the worst of several verdicts."""
    return max(verdicts, key=AGREEMENTS.index)
