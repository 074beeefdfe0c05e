"""Scores of parameters that nodes have kept while they trained: many at a time, so that few collectives are needed."""

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

from dlbench.strategies import Communicator
from dlbench.strategies._protocol import World
from dlbench.trainers import Array, Trainer
from dlbench.worker.train.batches import TrainingData
from dlbench.worker.train.evaluation import summed
from dlbench.worker.train.nodes import NodeCommunicator, meet
from dlbench.worker.training_record import Scores

# Parameters that a process joins at a time.
_GROUP_BYTES = 2**28


class Replica(NamedTuple):
    """What a worker trains and scores with, and other nodes do not have."""

    trainer: Trainer
    data: TrainingData


class Copy(NamedTuple):
    """What one node kept when an epoch ended: its parameters or its shard, and a worker's moving statistics."""

    parameters: Array
    statistics: Array


def score(
    copies: Sequence[Copy],
    names: Sequence[str],
    world: World,
    communicator: NodeCommunicator,
    replica: Replica | None,
    batch_size: int,
    begin_next: Callable[[], None],
) -> list[Scores]:
    """Return the scores of copies over all workers, each validation sample once; a collective.

    Args:
        copies: This node's, the same number on each.
        names: What a worker's trainer evaluates; the loss is the first.
        world: How many nodes there are of which kind.
        communicator: Connects them.
        replica: A worker's; None for other nodes.
        batch_size: Samples that a worker scores at a time.
        begin_next: Called before each copy.
    """
    sums, seconds, num_own = np.zeros((len(copies), len(names))), [], 0
    statistics = mean_statistics([copy.statistics for copy in copies], world, communicator, replica)
    for number, parameters in enumerate(_joined_in_groups([copy.parameters for copy in copies], world, communicator)):
        started = perf_counter()
        begin_next()
        if replica is not None:
            trainer, data = replica
            trainer.set_parameters(parameters)
            if statistics.size:
                trainer.set_state({"statistics": statistics[number]})
            mine = data.validation[communicator.rank :: world.num_workers]
            num_own = len(mine)
            sums[number] = summed(trainer, data, mine, batch_size)
        seconds.append(perf_counter() - started)
    meet(communicator)
    communicator.all_reduce(sums, sums)
    total = np.array([num_own])
    communicator.all_reduce(total, total)
    means = sums / total
    return [
        Scores(dict(zip(names, row, strict=True)), num_own, own_s)
        for row, own_s in zip(means.tolist(), seconds, strict=True)
    ]


def joined(own: Array, world: World, communicator: Communicator) -> Array:
    """Return [n, size]: of n copies [n, own size], what servers hold together, or workers' means; a collective."""
    if not world.num_servers:
        total = np.zeros((len(own), world.parameters.size))
        if own.size:  # a node that is no worker holds nothing
            total += own
        communicator.all_reduce(total, total)
        mean: Array = (total / world.num_workers).astype(world.parameters.dtype)
        return mean
    joined_copies = np.empty((len(own), world.parameters.size), world.parameters.dtype)
    for shard, part in enumerate(world.shards):
        is_own = communicator.rank == world.server(shard)
        body = own if is_own else np.empty((len(own), part.stop - part.start), joined_copies.dtype)
        communicator.broadcast(body, world.server(shard))
        joined_copies[:, part] = body
    return joined_copies


def _joined_in_groups(own: Sequence[Array], world: World, communicator: Communicator) -> Iterator[Array]:
    """Yield the joined parameters of one copy after the other."""
    at_once = max(1, _GROUP_BYTES // world.parameters.nbytes)
    for start in range(0, len(own), at_once):
        yield from joined(np.stack(own[start : start + at_once]), world, communicator)


def mean_statistics(own: Sequence[Array], world: World, communicator: Communicator, replica: Replica | None) -> Array:
    """Return the mean over workers of their moving statistics (batch norm), [n, size]; a collective."""
    size = np.array([0 if replica is None else own[0].size])
    communicator.all_reduce(size, size, "max")
    total = np.zeros((len(own), int(size[0])))
    if replica is not None:
        total[:] = own
    if total.size:
        communicator.all_reduce(total, total)
    return total / world.num_workers
